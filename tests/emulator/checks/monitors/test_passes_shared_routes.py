"""Members share the queues of all brokers in their route, also of those that are read-only."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.monitors.table import MONITORS
from rocketmq_emulator.facts import RouteChanged, SettingsChanged, TopicChanged
from tests.support.checks.journals_of_members import ONE, a_cluster, passed
from tests.support.checks.small_journals import AJournal, objections

BOTH = ("broker-a", "broker-b")


def found(journal: AJournal) -> list[str]:
    judgement = judge(journal.entries, [MONITORS["routes_are_shared"]])
    return objections(judgement, "routes_are_shared")


def routed(journal: AJournal, *brokers: str) -> AJournal:
    return journal.note(ONE, RouteChanged("orders", brokers))


def a_share(queues: int, *brokers: str, permission: int = 6) -> AJournal:
    """Each broker has 2 queues; *permission* is that of broker-b."""
    journal = a_cluster().at_s(10)
    if permission != 6:
        changed = SettingsChanged("admin", (f"brokerPermission={permission}",))
        journal.note("broker-b", changed)
    return passed(routed(journal.consumer(ONE), *brokers).at_s(11), ONE, ONE, queues=queues)


@pytest.mark.parametrize("permission", [6, 4])
def test_queues_that_may_be_read_are_shared_out_also_where_nothing_may_be_written(
    permission,
) -> None:
    assert found(a_share(4, *BOTH, permission=permission)) == []
    assert found(a_share(2, *BOTH, permission=permission)) == [
        "billing-1 shares out 2 queues of orders, where the brokers of its route have 4"
    ]


def test_a_broker_that_nobody_may_read_or_that_is_in_no_route_needs_no_share() -> None:
    assert found(a_share(2, *BOTH, permission=2)) == []
    assert found(a_share(2, "broker-a")) == []


@pytest.mark.parametrize(("after_s", "count"), [(5, 0), (9, 1)])
def test_a_pass_may_have_begun_before_the_route_changed(after_s, count) -> None:
    journal = routed(a_cluster().at_s(10).consumer(ONE), "broker-a").at_s(30)
    passed(routed(journal, *BOTH).at_s(30 + after_s), ONE, ONE, queues=2)
    assert len(found(journal)) == count


@pytest.mark.parametrize(("queues", "count"), [(4, 0), (3, 1)])
def test_a_route_may_lack_the_queues_that_a_topic_has_since(queues, count) -> None:
    journal = routed(a_cluster().at_s(10).consumer(ONE), *BOTH).at_s(20)
    journal.note("broker-b", TopicChanged("orders", 8, 8, 6))
    assert len(found(passed(journal.at_s(60), ONE, ONE, queues=queues))) == count


def test_a_new_process_has_no_route_of_the_one_before() -> None:
    journal = routed(a_cluster().at_s(10).consumer(ONE), *BOTH).at_s(30).consumer(ONE)
    assert found(passed(journal.at_s(31), ONE, ONE, queues=2)) == []
