"""``status`` as tables, for terminals of any width."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from rocketmq_emulator.admin.overview import BrokerView, GroupView, Overview, QueueView, TopicView
from rocketmq_emulator.cli.options.shared import WIDTH_IN_A_PIPE
from rocketmq_emulator.cli.screens.cluster_tables import brokers_table, cluster_screen
from rocketmq_emulator.protocol.bodies.extensions import MemberView, MisuseView
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse

COLUMNS = 100


def an_overview(
    stored: int = 1_000, committed: int = 900, members: int = 2, brokers: int = 1
) -> Overview:
    names = tuple(f"broker-{number}" for number in range(1, brokers + 1))
    return Overview(
        namesrv="127.0.0.1:9876",
        brokers=(
            BrokerView("broker-a", "127.0.0.1:10911", "DefaultCluster", 1, stored),
            BrokerView("broker-b", "127.0.0.1:11011", "DefaultCluster", problem="it is silent"),
        ),
        topics=(TopicView("orders", 4, stored, stored, names),),
        groups=(
            GroupView(
                name="billing",
                model="CLUSTERING",
                members=tuple(
                    MemberView(f"127.0.0.1@{number}#1", f"127.0.0.1:{number}", "JAVA")
                    for number in range(members)
                ),
                subscriptions={"%RETRY%billing": "*", "orders": "TagA || TagB"},
                queues=(
                    QueueView("%RETRY%billing", "broker-a", 0, 0, 0),
                    QueueView("orders", "broker-a", 0, stored, committed),
                ),
            ),
        ),
    )


def drawn(screen, columns: int = COLUMNS) -> str:
    console = Console(width=columns, file=StringIO())
    console.print(screen)
    return console.file.getvalue()


def test_a_screen_shows_brokers_topics_groups_members_lag_and_what_is_wrong() -> None:
    text = drawn(cluster_screen(an_overview()))
    for part in ("broker-a", "127.0.0.1:10911", "it is silent", "orders", "127.0.0.1@1#1"):
        assert part in text
    assert "orders: TagA || TagB" in text
    assert "%RETRY%" not in text
    billing = next(line for line in text.splitlines() if "billing" in line)
    assert billing.split()[:4] == ["billing", "2", "1", "100"]


def test_roles_have_columns_only_where_there_are_slaves_or_epochs() -> None:
    master, other = an_overview().brokers
    replace = msgspec.structs.replace
    slave = replace(master, broker_id=1, role="slave", behind_bytes=1_234)
    whole = replace(slave, behind_bytes=0)
    good, bad = (replace(slave, is_in_sync=is_in_sync) for is_in_sync in (True, False))
    elected = replace(master, epoch=4)
    acting = replace(master, broker_id=2, role="acting master")
    assert "role" not in drawn(brokers_table([master, other]))
    every = [master, slave, whole, good, bad, acting, elected]
    lines = drawn(brokers_table(every)).splitlines()
    assert lines[0].split() == ["broker", "role", "copy", "address", "topics", "stored"]
    assert [line.partition("127")[0].split(maxsplit=1)[1].strip() for line in lines[1:]] == [
        "master",
        "slave 1          1,234 B behind",
        "slave 1          complete",
        "slave 1          in sync, 1,234 B behind",
        "slave 1          not in sync, 1,234 B behind",
        "acting master 2",
        "master, epoch 4",
    ]


@pytest.mark.parametrize("columns", [40, 80, 100])
@pytest.mark.parametrize("members", [0, 3, 40])
def test_no_line_is_wider_than_the_terminal_however_many_members_there_are(
    members, columns
) -> None:
    screen = cluster_screen(an_overview(10**9, members=members))
    lines = drawn(screen, columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) < 24
    assert any("+34 more" in line for line in lines) == (members == 40)


def test_likely_mistakes_of_clients_are_shown_whole_in_lines_that_fit() -> None:
    found = FoundMisuse("single_bar", "c\x1b[31m1", "billing", "orders", "'a | b'")
    overview = msgspec.structs.replace(an_overview(), misuses=(MisuseView.of(found),))
    text = drawn(cluster_screen(overview), 60)
    shown = text[text.index("likely mistake") :]
    assert " ".join(shown.split()).endswith("by two bars, as in 'TagA || TagB'")
    assert max(map(len, text.splitlines())) <= 60
    assert "\x1b" not in text
    assert "likely" not in drawn(cluster_screen(an_overview()))


def test_in_a_pipe_nothing_is_cut() -> None:
    text = drawn(cluster_screen(an_overview(brokers=50)), WIDTH_IN_A_PIPE)
    assert "…" not in text
    assert "broker-9 broker-10" in text
    assert "50 brokers" in drawn(cluster_screen(an_overview(brokers=50)))


def test_what_is_too_much_to_be_listed_is_counted() -> None:
    overview = msgspec.structs.replace(an_overview(), more_topics=7, more_groups=3)
    text = drawn(cluster_screen(overview))
    assert "+7 more" in text
    assert "+3 more" in text


def test_a_cluster_without_brokers_topics_and_groups_says_so() -> None:
    text = drawn(cluster_screen(Overview("x", (), (), ())))
    assert "address" not in text
    assert "no brokers yet" in text
    assert "no topics yet" in text
    assert "no groups yet" in text


@pytest.mark.parametrize("columns", [80, 100])
def test_topics_that_are_not_written_everywhere_have_a_line_of_their_own(columns) -> None:
    overview = an_overview()
    assert "no-load" not in drawn(cluster_screen(overview))
    (orders,) = overview.topics
    half = {"no_load_ratio": 0.5, "read_only": ("broker-b",), "idle_queues": {"billing": 4}}
    topic = msgspec.structs.replace(orders, **half)
    text = drawn(cluster_screen(msgspec.structs.replace(overview, topics=(topic,))), columns)
    assert any(
        line.split() == ["orders", "0.50", "broker-b", "billing", "4"]
        for line in text.splitlines()
    )
    assert max(map(len, text.splitlines())) <= columns
