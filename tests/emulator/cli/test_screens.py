"""Tables for terminals of a hundred columns, and facts as log lines."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from emulator.cli.screens import cluster_screen, rates_between
from emulator.cluster.overview import (
    BrokerView,
    GroupView,
    MemberView,
    Overview,
    QueueView,
    TopicView,
)

COLUMNS = 100


def an_overview(stored: int = 1_000, committed: int = 900, members: int = 2) -> Overview:
    return Overview(
        namesrv="127.0.0.1:9876",
        brokers=(
            BrokerView("broker-a", "127.0.0.1:10911", "DefaultCluster", 1, stored),
            BrokerView("broker-b", "127.0.0.1:11011", "DefaultCluster", problem="it is silent"),
        ),
        topics=(TopicView("orders", 4, stored, stored, ("broker-a",)),),
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


def drawn(screen) -> str:
    console = Console(width=COLUMNS, file=StringIO())
    console.print(screen)
    return console.file.getvalue()


def test_a_screen_shows_brokers_topics_groups_members_lag_and_what_is_wrong() -> None:
    text = drawn(cluster_screen(an_overview()))
    for part in ("broker-a", "127.0.0.1:10911", "it is silent", "orders", "billing"):
        assert part in text
    assert "orders: TagA || TagB" in text
    assert "%RETRY%" not in text
    billing = next(line for line in text.splitlines() if "billing" in line)
    assert billing.split()[-3:] == ["2", "1", "100"]


def test_rates_are_what_came_and_went_between_two_looks() -> None:
    rates = rates_between(an_overview(1_000, 900), an_overview(1_500, 1_000), seconds=2)
    assert rates.brokers == {"broker-a": 250}
    assert rates.topics == {"orders": 250}
    assert rates.groups == {"billing": 50}


def test_a_broker_that_came_back_empty_has_no_negative_rate() -> None:
    rates = rates_between(an_overview(1_000), an_overview(10), seconds=1)
    assert rates.brokers["broker-a"] == 0


@pytest.mark.parametrize("members", [0, 3, 40])
def test_no_line_is_wider_than_the_terminal_however_many_members_there_are(members) -> None:
    lines = drawn(cluster_screen(an_overview(10**9, members=members))).splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert len(lines) < 30
    assert any("and 34 more" in line for line in lines) == (members == 40)


def test_columns_of_rates_are_there_where_rates_are_known() -> None:
    without = drawn(cluster_screen(an_overview()))
    rates = rates_between(an_overview(committed=400), an_overview(), seconds=1)
    text = drawn(cluster_screen(an_overview(), rates))
    for column in ("in/s", "out/s"):
        assert column not in without
        assert column in text
    billing = next(line for line in text.splitlines() if "billing" in line)
    assert billing.split()[-2:] == ["100", "500"]


def test_a_cluster_without_brokers_topics_and_groups_says_so() -> None:
    text = drawn(cluster_screen(Overview("x", (), (), ())))
    assert "address" not in text
    assert "no brokers yet" in text
    assert "no topics yet" in text
    assert "no groups yet" in text
