"""Two snapshots of a cluster: the rates between them, and one line for each event."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.admin.overview import (
    BrokerReport,
    BrokerSample,
    BrokerView,
    ClusterSnapshot,
    NodeSnapshot,
    Rates,
    changes_between,
    overview_of,
    rates_between,
)
from rocketmq_emulator.protocol.bodies.extensions import (
    BrokerOverview,
    GroupRow,
    MemberView,
    QueueRow,
    ReplicaRole,
    TopicRow,
)


def a_look(at_s: float, stored: int, committed: int) -> BrokerSample:
    queues = (QueueRow("orders", 0, stored, committed), QueueRow("%RETRY%billing", 0, 0, 0))
    found = BrokerOverview(
        (TopicRow("orders", 4, 1, stored),), (GroupRow("billing", queues=queues),)
    )
    return BrokerSample(at_s, found)


def a_snapshot(topics=(), members=None, *, is_complete=True, **states) -> ClusterSnapshot:
    """*members*: names by group; *states*: by node name, a state or a tuple of pid and state."""
    found = BrokerOverview(
        tuple(TopicRow(name, 4, 0, 0) for name in topics),
        tuple(
            GroupRow(group, members=tuple(MemberView(name, "x:1", "JAVA") for name in names))
            for group, names in (members or {}).items()
        ),
    )
    nodes = tuple(
        NodeSnapshot(
            name, "broker", "x:1", *(state if isinstance(state, tuple) else (7, state)), 0
        )
        for name, state in states.items()
    )
    overview = overview_of("n", [BrokerReport("b", "x:1", "c", found)])
    return ClusterSnapshot(nodes, overview, Rates(), {}, is_complete)


def test_rates_are_of_the_time_between_the_two_looks_of_each_broker() -> None:
    rates = rates_between(
        [
            ("broker-a", a_look(1.0, 1_000, 900), a_look(3.0, 1_500, 1_000)),
            ("broker-b", a_look(1.5, 0, 0), a_look(2.5, 100, 10)),
            ("broker-c", a_look(2.0, 7, 7), a_look(2.0, 7, 7)),
        ]
    )
    assert rates.brokers == {"broker-a": 250, "broker-b": 100, "broker-c": 0}
    assert rates.topics == {"orders": 350}
    assert rates.groups == {"billing": 60}


def test_a_broker_that_came_back_empty_has_no_negative_rate() -> None:
    rates = rates_between([("broker-a", a_look(1, 1_000, 900), a_look(2, 10, 0))])
    assert (rates.brokers["broker-a"], rates.groups["billing"]) == (0, 0)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("running", (None, "stopped"), "b1 was stopped"),
        ("running", "paused", "b1 is paused"),
        ("running", "silent", "b1 does not answer"),
        ("running", (8, "running"), "b1 was restarted"),
        ((None, "dead"), "running", "b1 is back"),
        ((None, "stopped"), "running", "b1 was started"),
        ((None, "stopped"), "starting", "b1 is starting"),
        ("starting", "running", "b1 is ready"),
        ("paused", "running", "b1 goes on"),
        ("silent", "running", "b1 answers again"),
        ("unlisted", "running", "b1 is in the route"),
        ("running", "unlisted", "b1 is not in the route"),
    ],
)
def test_a_node_that_changes_is_a_line(before, after, line) -> None:
    assert changes_between(
        a_snapshot(b1=before, b2="running"), a_snapshot(b1=after, b2="running")
    ) == [line]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("slave", "master", "b1 is the master now, epoch 2"),
        ("master", "slave", "b1 is a slave now, epoch 2"),
        ("slave", "acting master", "b1 is the acting master now, epoch 2"),
        ("slave", "none", "b1 is without a role now, epoch 2"),
    ],
)
def test_a_change_of_role_is_a_line(before, after, line) -> None:
    def in_role(role: ReplicaRole) -> ClusterSnapshot:
        view = BrokerView("b", "x:1", "c", role=role, epoch=2)
        node = NodeSnapshot("b1", "broker", "x:1", 7, "running", 0, replica=view)
        return ClusterSnapshot((node,), a_snapshot().overview, Rates())

    assert changes_between(in_role(before), in_role(after)) == [line]
    assert changes_between(in_role(before), in_role(before)) == []


def test_the_copies_of_a_slave_are_counted_in_its_own_rate_only() -> None:
    looks = [msgspec.structs.replace(a_look(at_s, 100 * at_s, 0), leads=False) for at_s in (1, 3)]
    rates = rates_between([("broker-a-1", *looks)])
    assert (rates.brokers, rates.topics, rates.groups) == ({"broker-a-1": 100}, {}, {})


def test_a_dead_node_is_told_with_how_it_ended() -> None:
    died = NodeSnapshot("b1", "broker", "x", None, "dead", 0, ending="was killed by signal 9")
    after = ClusterSnapshot((died,), a_snapshot().overview, Rates())
    assert changes_between(a_snapshot(b1="running"), after) == ["b1 was killed by signal 9"]


def test_topics_and_groups_come_and_go_in_one_line_each() -> None:
    before = a_snapshot(["old"], {"g1": []})
    after = a_snapshot(["t1", "t2", "t3", "t10"], {"g2": []})
    assert changes_between(before, after) == [
        "4 topics created: t1, t2, t3 …",
        "topic old deleted",
        "group g2 created",
        "group g1 deleted",
    ]
    assert changes_between(before, before) == []


def test_a_topic_that_another_broker_has_not_copied_yet_is_not_called_deleted() -> None:
    before, after = a_snapshot(["old"], b1="running"), a_snapshot([], b1="dead")
    assert changes_between(before, after) == ["b1 is dead"]
    assert changes_between(before, a_snapshot([], b1="running")) == ["topic old deleted"]


def test_members_that_come_go_or_are_others_are_told() -> None:
    one, two, other = (a_snapshot((), {"g": names}) for names in (["a"], ["a", "b"], ["c"]))
    assert changes_between(one, two) == ["group g: 1 → 2 members"]
    assert changes_between(two, one) == ["group g: 2 → 1 member"]
    assert changes_between(one, other) == ["group g: 1 member of 1 replaced"]
    assert changes_between(a_snapshot(), two) == ["group g: 0 → 2 members"]


def test_what_is_read_for_the_first_time_is_no_news() -> None:
    assert changes_between(a_snapshot(is_complete=False), a_snapshot(["t"], {"g": ["a"]})) == []
