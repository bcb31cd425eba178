"""Filters of groups: versions, death, limits, and upstream's file."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.tables import consumer_filters
from rocketmq_emulator.broker.tables.consumer_filters import (
    COMPILED_CHARACTERS_MAX,
    DOCUMENT,
    ConsumerFilters,
)
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import DocumentDamaged, Fact
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerFilterData, ConsumerFilterTable
from rocketmq_emulator.protocol.messages.subscription import (
    SQL92,
    TAG,
    SubscriptionData,
    build_subscription,
)
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW
from tests.support.golden_data import cases

DAY_MS = 24 * 3_600_000
DEAR, CHEAP = "price > 5", "price < 5"
SEVEN = {"price": "7"}


def filters(disk: MemoryDisk, note: Any = discard_fact, at_ms: int = NOW, **given: Any):
    return ConsumerFilters(disk, BrokerConfig(**given), note=note, now_ms=at_ms)


def to(expression: str, version: int = 1, topic: str = "T", kind: str = SQL92) -> SubscriptionData:
    return build_subscription(topic, expression, kind, version)


def saved(disk: MemoryDisk) -> dict[tuple[str, str], ConsumerFilterData]:
    table = decode_body(disk.read(DOCUMENT) or b"{}", ConsumerFilterTable)
    return {
        (topic, group): data
        for topic, of in table.filter_data_by_topic.items()
        for group, data in of.group_filter_data.items()
    }


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_the_file_has_the_bytes_of_a_real_broker_s(release: str) -> None:
    (case,) = cases("config-files.jsonl", "file_consumerFilter")
    disk = MemoryDisk()
    disk.replace(DOCUMENT, case["out"].encode())
    data = saved(disk)["Orders", "s"]
    written = MemoryDisk()
    table = filters(written, release=release)
    table.register("s", [to(DEAR, 7, "Orders")], data.born_time)
    table.unregister("s", data.dead_time)
    table.persist(data.dead_time)
    assert (written.read(DOCUMENT) or b"").decode() == case["out"]


def test_a_filter_survives_a_restart_and_is_dead_until_the_next_heartbeat() -> None:
    disk = MemoryDisk()
    table = filters(disk)
    table.register("g", [to(DEAR)], NOW)
    table.persist(NOW)
    again = filters(disk, at_ms=NOW + 60_000)
    found = again.get("T", "g")
    assert found is not None
    assert (found.matches(SEVEN), found.dead_ms) == (True, NOW + 30_000)
    again.register("g", [to(DEAR)], NOW + 61_000)
    assert not found.is_dead
    again.persist(NOW + 61_000)
    assert (saved(disk)["T", "g"].dead, saved(disk)["T", "g"].dead_time) == (False, 0)


def test_a_filter_goes_a_day_after_the_last_member_has_left() -> None:
    disk = MemoryDisk()
    table = filters(disk)
    table.register("g", [to(DEAR)], NOW)
    table.persist(NOW + 2 * DAY_MS)
    assert table.get("T", "g") is not None, "a member is connected"
    table.unregister("g", NOW)
    table.persist(NOW + DAY_MS - 1)
    assert table.get("T", "g") is not None
    table.persist(NOW + DAY_MS)
    assert table.get("T", "g") is None
    assert saved(disk) == {}


def test_a_topic_that_is_left_out_of_a_heartbeat_has_a_dead_filter() -> None:
    table = filters(MemoryDisk())
    table.register("g", [to(DEAR), to(DEAR, topic="U")], NOW)
    table.register("g", [to("*", 2, "T", TAG)], NOW + 1)
    assert [table.get(t, "g").is_dead for t in ("T", "U")] == [False, True]
    table.register("other", [to(DEAR, topic="X")], NOW + 2)
    assert not table.get("T", "g").is_dead, "another group's heartbeat says nothing about it"
    table.register("g", [to(DEAR, 1, "U")], NOW + 3)
    assert [table.get(t, "g").is_dead for t in ("T", "U")] == [True, False]


def test_only_a_newer_version_replaces_an_expression() -> None:
    table = filters(MemoryDisk())
    for expression, version, matches in (
        (DEAR, 5, True),
        (CHEAP, 4, True),
        (CHEAP, 5, True),
        (CHEAP, 6, False),
    ):
        table.register("g", [to(expression, version)], NOW)
        assert table.get("T", "g").matches(SEVEN) is matches, (expression, version)
    table.register("g", [to("price <", 7)], NOW)
    assert table.get("T", "g") is None


def test_filters_of_another_bloom_filter_are_not_loaded() -> None:
    disk = MemoryDisk()
    table = filters(disk)
    table.register("g", [to(DEAR)], NOW)
    table.persist(NOW)
    assert filters(disk, filter_groups_expected=64).get("T", "g") is None
    assert filters(disk).get("T", "g") is not None


def test_a_loaded_expression_that_the_release_cannot_read_delivers_all() -> None:
    disk = MemoryDisk()
    table = filters(disk, release=LAST_5)
    table.register("g", [to("name NOT CONTAINS 'a'")], NOW)
    table.persist(NOW)
    found = filters(disk, release=LAST_4).get("T", "g")
    assert found is not None
    assert found.matches({})


def test_a_damaged_file_is_a_fact_and_the_one_before_is_read() -> None:
    disk, facts = MemoryDisk(), list[Fact]()
    table = filters(disk)
    for version, expression in ((1, DEAR), (2, CHEAP)):
        table.register("g", [to(expression, version)], NOW)
        table.persist(NOW)
    disk.replace(DOCUMENT, b"{")
    assert filters(disk, facts.append).get("T", "g").expression == DEAR
    assert isinstance(facts[0], DocumentDamaged)


def test_nothing_is_written_that_has_not_changed() -> None:
    disk = MemoryDisk()
    table = filters(disk)
    table.persist(NOW)
    table.register("tags", [to("TagA", kind=TAG)], NOW)
    table.persist(NOW)
    assert disk.read(DOCUMENT) is None
    table.register("g", [to(DEAR)], NOW)
    table.persist(NOW)
    disk.replace(DOCUMENT, b"as it was")
    table.register("g", [to(DEAR)], NOW + 30_000)
    table.persist(NOW + 30_000)
    assert disk.read(DOCUMENT) == b"as it was", "a repeated heartbeat changes nothing"


def test_one_heartbeat_compiles_a_limited_text_and_the_next_ones_the_rest() -> None:
    long = "a = '" + "x" * 20_000 + "'"
    topics = [to(long + f" OR b = {n}", topic=f"T{n}") for n in range(10)]
    table = filters(MemoryDisk())

    def known() -> int:
        return sum(table.get(each.topic, "g") is not None for each in topics)

    table.register("g", topics, NOW)
    assert known() == COMPILED_CHARACTERS_MAX // len(long)
    for beat in range(1, 4):
        table.register("g", topics, NOW + beat)
    assert known() == 10


def test_the_filter_that_is_dead_for_longest_makes_room(monkeypatch) -> None:
    monkeypatch.setattr(consumer_filters, "CHARACTERS_MAX", 3 * (len(DEAR) + 2))
    table = filters(MemoryDisk())
    for number in range(3):
        table.register(f"{number}", [to(DEAR)], NOW)
    table.unregister("2", NOW + 1)
    table.unregister("1", NOW + 2)
    table.register("3", [to(DEAR)], NOW + 3)
    assert [g for g in "0123" if table.get("T", g) is not None] == ["0", "1", "3"]


def test_a_reset_keeps_the_filters_of_connected_groups() -> None:
    disk = MemoryDisk()
    table = filters(disk)
    for group in ("here", "gone"):
        table.register(group, [to(DEAR)], NOW)
    table.reset(["here"])
    assert list(saved(disk)) == [("T", "here")]


def test_equal_expressions_share_one_compiled_filter() -> None:
    table = filters(MemoryDisk())
    # More other expressions than are kept without a user come in between.
    table.register("first", [to(DEAR)], NOW)
    table.register("g", [to(f"price > {n}", topic=f"T{n}") for n in range(200)], NOW)
    table.register("last", [to(DEAR, topic="U")], NOW)
    assert table.get("T", "first").matches == table.get("U", "last").matches
