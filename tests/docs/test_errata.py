"""The lines of docs/errata.md: each names its tests; tests that fit no other file are here."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from docs.generate.errata import ERRATA, PAGE, errata_text
from docs.generate.sections import with_section
from rocketmq_emulator.broker.handlers.queues import STRATEGIES
from rocketmq_emulator.client.consumer.group.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    NAME,
    by_machine_room,
    configured,
    consistent_hash,
    nearby,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.paths import TESTS


def queues_of(*brokers: str, count: int = 4) -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for broker in brokers for number in range(count)]


def test_every_line_names_tests_that_exist() -> None:
    defined = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    named = {name for row in ERRATA for name in row.shown_by}
    assert all(row.shown_by for row in ERRATA)
    assert named <= defined, sorted(named - defined)


def test_the_page_of_errata_matches_the_table() -> None:
    page = PAGE.read_text()
    assert with_section(page, "errata", errata_text()) == page, "run make page"


def test_the_article_s_example_of_averagely_is_by_circle_s_result() -> None:
    queues, members = queues_of("broker-a"), ["c1", "c2"]

    def numbers(strategy):
        return [[q.queue_id + 1 for q in strategy.allocate(queues, members, c)] for c in members]

    assert numbers(AVG_BY_CIRCLE) == [[1, 3], [2, 4]]  # article 003 claims this for averagely
    assert numbers(AVG) == [[1, 2], [3, 4]]


@given(st.integers(1, 60), st.integers(1, 60))
def test_the_modulo_in_listings_of_averagely_never_acts(count: int, size: int) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(count)]
    members = [f"c{number:02}" for number in range(size)]
    for index, me in enumerate(members):
        share, extra = divmod(count, size)
        length = 1 if count <= size else share + (index < extra)
        start = index * length + (0 if index < extra else extra)
        taken = range(start, start + min(length, count - start))
        assert all(place < count for place in taken), "the modulo would change this place"
        assert AVG.allocate(queues, members, me) == [queues[place % count] for place in taken]


def test_rocketmq_has_six_strategies() -> None:
    names = {
        strategy.name.split("-")[0]
        for strategy in (
            AVG,
            AVG_BY_CIRCLE,
            configured([]),
            consistent_hash(),
            by_machine_room(["room"]),
            nearby(AVG, lambda queue: "room", lambda member: "room"),
        )
    }
    assert len(names) == 6


def test_averagely_auto_is_no_strategy_of_rocketmq() -> None:
    assert NAME not in STRATEGIES


def test_by_circle_members_idle_too_when_each_has_one_queue() -> None:
    queues = queues_of("broker-0", "broker-1", "broker-2", "broker-3")

    def idle(strategy, size) -> int:
        members = [f"c{number:02}" for number in range(size)]
        shares = (strategy.allocate(queues, members, me) for me in members)
        return sum(all(q.broker_name == "broker-3" for q in share) for share in shares)

    assert [idle(AVG, size) for size in (3, 4, 8, 16)] == [0, 1, 2, 4]
    assert [idle(AVG_BY_CIRCLE, size) for size in (3, 4, 8, 16)] == [0, 0, 0, 4]
