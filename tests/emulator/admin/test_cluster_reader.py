"""Reading a cluster: all brokers at once, silent brokers named, names in natural order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, ClusterUnreachable, NotAnEmulator, admin_over_tcp
from rocketmq_emulator.admin.cluster_reader import BROKER_S_MAX, ClusterReader
from rocketmq_emulator.admin.overview import BrokerReport, overview_of
from rocketmq_emulator.client import Message, Producer, PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.errors.call_errors import NeverSent, NoAnswer, TimedOut
from rocketmq_emulator.protocol.bodies.extensions import (
    BrokerOverview,
    GroupRow,
    MemberView,
    QueueRow,
    ReplicaRole,
    ReplicaRow,
    TopicRow,
)
from rocketmq_emulator.protocol.bodies.groups import ConsumerConnection, SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.routes import BrokerData, ClusterInfo
from rocketmq_emulator.protocol.bodies.stats import (
    ConsumeStats,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.text.values import in_natural_order

ANSWER_S = 0.1  # how long a healthy broker takes to answer


class SomeBrokers:
    """The calls of ``Admin`` that a reader makes; *failures*: delay and error of each broker."""

    def __init__(self, names: list[str], failures: dict[str, tuple[float, Exception]]) -> None:
        self._names = names
        self._failures = failures

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo({name: BrokerData("main", name, {0: name}) for name in self._names})

    async def overview(self, broker: str) -> BrokerOverview:
        raise NotAnEmulator(f"{broker} is a real one")

    async def log_end(self, broker: str) -> int | None:
        return 700

    async def topics(self, broker: str) -> list[TopicConfig]:
        if broker in self._failures:
            after_s, error = self._failures[broker]
            await trio.sleep(after_s)
            raise ClusterUnreachable(f"the broker at {error}") from error
        await trio.sleep(ANSWER_S)
        return [TopicConfig(topic_name="orders", read_queue_nums=2)]

    async def groups(self, broker: str) -> list[SubscriptionGroupConfig]:
        return [SubscriptionGroupConfig(group_name="billing")]

    async def topic_stats(self, broker: str, topic: str) -> TopicStatsTable:
        return TopicStatsTable({MessageQueue(topic, broker, 0): TopicOffset(2, 7)})

    async def connections(self, broker: str, group: str) -> ConsumerConnection:
        return ConsumerConnection()

    async def consume_stats(self, broker: str, group: str, topic: str | None) -> ConsumeStats:
        return ConsumeStats({MessageQueue("orders", broker, 0): OffsetWrapper(7, 4)})


async def test_silent_brokers_are_named_and_cost_no_more_than_one_of_them(autojump_clock) -> None:
    failures = {
        "broker-1": (1.5, TimedOut("x", "no answer in time")),
        "broker-2": (1.5, NeverSent("x", "no connection in time")),
        "broker-3": (0.0, NoAnswer("x", "the connection ended")),
        "broker-4": (99.0, NoAnswer("x", "the connection ended")),
    }
    names = ["broker-10", *failures]
    found = await ClusterReader(SomeBrokers(names, failures), "n").read()
    assert trio.current_time() <= BROKER_S_MAX + 0.001
    assert [(broker.name, broker.problem) for broker in found.brokers] == [
        ("broker-1", "does not answer"),
        ("broker-2", "cannot be reached"),
        ("broker-3", "closed the connection"),
        ("broker-4", "has not answered all in 4 s"),
        ("broker-10", ""),
    ]
    assert [broker.name for broker in found.silent] == list(failures)
    (orders,), (billing,) = found.topics, found.groups
    assert (orders.messages, orders.stored, orders.brokers) == (5, 7, ("broker-10",))
    assert billing.lag == 3


def test_names_are_ordered_as_people_count() -> None:
    ordered = ["", "9", "T", "T9", "a9", "a10b2", "a10b10", "t-009", "t-9", "t-10"]
    assert in_natural_order(reversed(ordered)) == ordered


def test_what_brokers_report_becomes_one_whole() -> None:
    def a_report(number: int, members: tuple[str, ...]) -> BrokerReport:
        group = GroupRow(
            "g",
            model="CLUSTERING",
            members=tuple(MemberView(name, f"{name}:1", "JAVA") for name in members),
            subscriptions={"t-10": "*", "t-9": "A"},
            queues=(QueueRow("t-10", 0, 5, 5), QueueRow("t-9", 0, 1, 9), QueueRow("t-9", 1, 9, 2)),
        )
        topics = (TopicRow("t-10", 4, 1, 2), TopicRow("t-9", 4, 10, 20))
        found = BrokerOverview(topics, (group,), more_topics=number)
        return BrokerReport(f"b-{number}", "a", "main", found)

    found = overview_of("n", [a_report(10, ("m2", "m10")), a_report(9, ("m2",))])
    assert [broker.name for broker in found.brokers] == ["b-9", "b-10"]
    assert [broker.messages for broker in found.brokers] == [22, 22]
    assert [(t.name, t.queues, t.messages, t.stored) for t in found.topics] == [
        ("t-9", 8, 20, 40),
        ("t-10", 8, 2, 4),
    ]
    (group,) = found.groups
    assert [member.client for member in group.members] == ["m2", "m10"]
    places = [(queue.topic, queue.broker, queue.queue_id) for queue in group.queues]
    assert places[:3] == [("t-9", "b-9", 0), ("t-9", "b-9", 1), ("t-9", "b-10", 0)]
    assert group.lag == 14
    assert found.more_topics == 10


@pytest.mark.parametrize(("is_online", "idle"), [(True, {"g": 1}), (False, {})])
def test_queues_that_nobody_can_write_to_are_counted_as_load_that_does_not_come(
    is_online, idle
) -> None:
    members = (MemberView("m", "m:1", "JAVA"),) if is_online else ()
    queues = tuple(QueueRow("t", number, 5, committed) for number, committed in ((0, 5), (1, 4)))
    group = GroupRow("g", members=members, queues=queues)

    def a_report(broker: str, perm: int) -> BrokerReport:
        found = BrokerOverview((TopicRow("t", 2, 0, 0, 2, perm),), (group,))
        return BrokerReport(broker, "a", "main", found)

    (topic,) = overview_of("n", [a_report("b-1", 6), a_report("b-2", 4)]).topics
    assert (topic.no_load_ratio, topic.read_only) == (0.5, ("b-2",))
    assert topic.idle_queues == idle  # the other queue of b-2 still has a message


def of_name(
    broker_id: int, role: ReplicaRole, log_end: int, stored: int = 20, **report: Any
) -> BrokerReport:
    """The report of one of the brokers that are called b."""
    in_sync = (1, 7) if role == "master" else None
    replica = ReplicaRow("b", broker_id, role, log_end, 3, in_sync)
    found = BrokerOverview((TopicRow("t", 4, 10, stored),), (GroupRow("g"),), replica=replica)
    return BrokerReport("b", f"b:{broker_id}", "main", found, broker_id=broker_id, **report)


def test_slaves_are_shown_with_what_they_lack_and_their_copies_count_once() -> None:
    slaves = of_name(2, "slave", 900, 18), of_name(1, "slave", 1_000)
    found = overview_of("n", [*slaves, of_name(0, "master", 1_000)])
    assert [(each.broker_id, each.role, each.behind_bytes) for each in found.brokers] == [
        (0, "master", None),
        (1, "slave", 0),
        (2, "slave", 100),
    ]
    assert [each.is_in_sync for each in found.brokers] == [None, True, False]
    assert [each.messages for each in found.brokers] == [20, 20, 18]
    assert {each.epoch for each in found.brokers} == {3}
    assert [(topic.queues, topic.stored, topic.brokers) for topic in found.topics] == [
        (4, 20, ("b",))
    ]


@pytest.mark.parametrize(
    ("first", "second", "stored"),
    [
        (of_name(1, "acting master", 5, 7), of_name(2, "slave", 5, 9), 7),
        (of_name(2, "slave", 5, 7), of_name(3, "slave", 5, 9), 7),
        (of_name(0, "master", 5, 7, is_old=True), of_name(1, "slave", 5, 9), 9),
        (of_name(0, "master", 5, 7, is_old=True), of_name(0, "master", 5, 9), 9),
        (of_name(1, "none", 5, 7), of_name(0, "master", 5, 9), 9),
        (BrokerReport("b", "b:0", "main", problem="is silent"), of_name(1, "slave", 5, 9), 9),
    ],
)
def test_topics_are_read_from_the_broker_that_leads_a_name(first, second, stored) -> None:
    for reports in ((first, second), (second, first)):
        assert [topic.stored for topic in overview_of("n", reports).topics] == [stored]


class AnyRocketMQ(Admin):
    """An ``Admin`` with the calls that every RocketMQ answers: not the emulator's ``overview``."""

    async def overview(self, broker: str) -> BrokerOverview:
        raise NotAnEmulator(f"{broker} is a real one")


async def test_one_call_of_ours_tells_what_the_many_of_any_rocketmq_tell() -> None:
    async def consume(_messages, _context) -> None:
        """Every message succeeds."""

    with EmbeddedCluster(ClusterSpec(brokers=1)) as cluster:
        namesrv = cluster.namesrv
        async with admin_over_tcp(namesrv) as admin:
            topic = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)
            await admin.create_topic_everywhere(topic)
        async with (
            Producer(namesrv=namesrv, group="shop") as producer,
            PushConsumer(consume, {"orders": "paid"}, namesrv=namesrv, group="billing"),
            admin_over_tcp(namesrv) as admin,
        ):
            for number in range(9):
                await producer.send(Message("orders", b"x", tags=("paid", "new")[number % 2]))
            address = cluster.brokers["broker-a"]
            await admin.commit(address, "reporting", MessageQueue("orders", "broker-a", 2), 1)
            await admin.create_group(address, SubscriptionGroupConfig(group_name="reporting"))
            await admin.create_topic(address, msgspec.structs.replace(topic, perm=4))
            many = AnyRocketMQ(namesrv, admin._remoting)  # the same connection
            found = [await ClusterReader(each, namesrv).read() for each in (admin, many)]
    assert found[0] == found[1]
    (orders,), groups = found[0].topics, {group.name: group for group in found[0].groups}
    assert (orders.queues, orders.messages) == (4, 9)
    assert (orders.no_load_ratio, orders.read_only) == (1.0, ("broker-a",))
    assert groups["billing"].subscriptions["orders"] == "paid"
    assert len(groups["billing"].members) == 1
    assert groups["reporting"].lag == 8
