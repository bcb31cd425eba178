"""Checks that member lists and routes converge after the last change or fault.

Heartbeats come every 30 s, clients poll routes every 30 s, passes run every 20 s.  So after these
times brokers list the members that run and no others, and all members share out the same queues.
Before that, and while a fault is on the path between the nodes concerned, nothing is reported.

A fault of a link names the nodes at both ends; a fault that names none may touch any node.
Links to other nodes do not count: a partition between a broker and a producer delays no
registration of the broker.
"""

from __future__ import annotations

from itertools import chain

from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.cluster_state import ClusterState, ConsumerRecord
from rocketmq_emulator.checks.state.disturbances import (
    CONNECTION_CLOSING,
    DISK_FAULTS,
    FaultInterval,
)
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    RebalancePassed,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import is_retry_topic

HEARTBEAT_US = 30_000_000  # heartbeatBrokerInterval
ROUTE_US = 30_000_000  # pollNameServerInterval
PASS_US = 20_000_000  # rocketmq.client.rebalance.waitInterval
LATE_US = 8_000_000  # for calls to brokers that do not answer, one after the other
NOTICE_US = 6_000_000  # a pass begins at once, and asks a broker for each topic and group
MERGED_US = 15_000_000  # for brokers that merge notices (realTimeNotifyConsumerChange)
CURRENT_US = ROUTE_US + PASS_US + LATE_US  # until every member has shared out the change
UNKNOWN = 1 << 20  # queues: more than any topic has
SILENT_US = 120_000_000 + 10_000_000  # channelExpiredTimeout, and until brokers look


class MembersAreListed(Monitor):
    """Client invariants 1 and 3, from facts of brokers."""

    name = "members_are_listed"
    rule = (
        "a member that runs is listed at each broker of its topics within a heartbeat, 30 s "
        "(client invariants 1, 3)"
    )
    invariants = (1, 3)
    needs = (MemberJoined, ConsumerStarted)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._listed: dict[tuple[str, str, str], set[str]] = {}  # broker, group, client: peers

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MemberJoined: self._joined,
            MemberLeft: self._left,
            NodeStarted: self._broker_started,
        }

    def end(self) -> None:
        """Check every running member."""
        for group, consumers in self.cluster.consumers.items():
            for consumer in consumers:
                if consumer.is_running and consumer.started.consumer_kind != "pull":
                    for topic in consumer.topics:
                        for broker in sorted(self.cluster.topics.brokers_of(topic)):
                            self._check(group, consumer, broker)

    def _check(self, group: str, consumer: ConsumerRecord, broker: str) -> None:
        now_us = self.cluster.now_us
        topics = self.cluster.topics
        nodes = {consumer.node, broker, *topics.name_servers}
        since_us = max(
            consumer.from_us,
            self.cluster.last_touched_us(nodes, now_us),
            topics.partial.last_us((broker,), now_us),
            topics.changed_us(broker),
        )
        is_listed = bool(self._listed.get((broker, group, consumer.started.client)))
        if now_us - since_us < HEARTBEAT_US + LATE_US or topics.is_down(broker):
            is_new = now_us - consumer.from_us < HEARTBEAT_US + LATE_US
            if not (is_listed or is_new or self.cluster.is_gone(broker)):
                self.count_excused()
            return
        self.count_tried()
        if not is_listed:
            assert self.cluster.last is not None
            self.report_violation(
                f"{broker} does not list {consumer.node} in {group}, "
                f"{(now_us - since_us) / 1e6:.0f} s after anything happened to them",
                key_of(self.cluster.last),
                node=consumer.node,
            )

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        known = entry.node, fact.group, fact.client
        self._listed.setdefault(known, set()).add(fact.peer)

    def _broker_started(self, fact: NodeStarted, entry: Entry) -> None:
        """A restarted broker lists no member; an elected one those that it listed as a slave."""
        if (move := self.cluster.roles.move) is not None:
            move.rekey(self._listed)
            return
        for known in [each for each in self._listed if each[0] == entry.node]:
            del self._listed[known]

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        self._listed.get((entry.node, fact.group, fact.client), set()).discard(fact.peer)


class EndedMembersAreUnlisted(Monitor):
    """Client invariant 35; S27, S36."""

    name = "leavers_are_forgotten"
    rule = (
        "a member that ended is in no list after a few seconds, or after 130 s if its brokers "
        "could not see its connection close (client invariant 35)"
    )
    invariants = (35,)
    needs = (RebalancePassed,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {RebalancePassed: self._passed}

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        for consumer in self.cluster.consumers.get(fact.group, ()):
            if (
                consumer.is_running
                or consumer.until_us is None
                or consumer.started.client not in fact.members
            ):
                continue
            if any(
                s.started.client == consumer.started.client
                for s in self.cluster.running(fact.group)
            ):
                continue
            self.count_tried()
            gone_us = entry.mono_us - consumer.until_us
            if gone_us <= NOTICE_US:
                continue
            is_seen = self._is_seen(consumer, fact.topic, consumer.until_us, entry.mono_us)
            if not is_seen and gone_us <= SILENT_US + PASS_US:
                self.count_excused()
            else:
                self.report_violation(
                    f"{entry.node} got a list with {consumer.node} in {fact.group}, "
                    f"{gone_us / 1e6:.1f} s after it had ended",
                    entry,
                )

    def _is_seen(self, consumer: ConsumerRecord, topic: str, since_us: int, now_us: int) -> bool:
        """Whether its brokers ran and saw its connections close when its process ended."""
        if self.cluster.touched(self.cluster.topics.brokers_of(topic), since_us, now_us):
            return False
        return not any(
            fault.word not in CONNECTION_CLOSING
            and consumer.node in fault.nodes
            and fault.held(since_us, now_us)
            for fault in self.cluster.all_faults
        )


class RoutesAreCurrent(Monitor):
    """RouteInfoManager, MQClientInstance.updateTopicRouteInfoFromNameServer."""

    name = "routes_are_current"
    rule = (
        "members share out the queues of every broker that has been in the routes since they "
        "started, or for 60 s, and of no broker that ended 60 s before: NameServers notice at "
        "once, clients ask every 30 s and rebalance every 20 s"
    )
    needs = (RebalancePassed,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {RebalancePassed: self._passed}

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        if is_retry_topic(fact.topic):
            return
        topics = self.cluster.topics
        since_us = self._first_us(fact.group, entry.node)
        if since_us is None:
            return
        least, most, running, gone = 0, 0, 0, []
        for broker in sorted(topics.brokers_of(fact.topic)):
            count = topics.readable_count(fact.topic, broker)
            running += 0 if self.cluster.is_gone(broker) else count
            if not topics.is_sure(fact.topic, broker):
                most += UNKNOWN
                continue
            if self._is_gone(broker, entry):
                gone.append(broker)
                continue
            if self._is_known(broker, since_us, entry):
                least += count
            most += count if self._has_rested(broker, entry.mono_us) else UNKNOWN
        self.count_tried(bool(least or gone))
        if fact.queue_count < least:
            self.report_violation(
                f"{entry.node} shares out {fact.queue_count} queues of {fact.topic}, where "
                f"brokers that were there all the time have {least}",
                entry,
            )
        elif fact.queue_count > most:
            self.report_violation(
                f"{entry.node} shares out {fact.queue_count} queues of {fact.topic}, which has "
                f"{most}" + f" without {', '.join(gone)}" * bool(gone),
                entry,
            )
        elif fact.queue_count != running and self._is_touched(entry):
            self.count_excused()

    def _is_touched(self, entry: Entry) -> bool:
        nodes = {entry.node, *self.cluster.topics.brokers, *self.cluster.topics.name_servers}
        return self.cluster.touched(nodes, entry.mono_us - CURRENT_US, entry.mono_us)

    def _first_us(self, group: str, node: str) -> int | None:
        """The start of the first member in the process on *node*: members share its routes."""
        if self.cluster.consumer(group, node) is None:
            return None
        everybody = chain.from_iterable(self.cluster.consumers.values())
        return min((s.from_us for s in everybody if s.node == node and s.is_running), default=None)

    def _is_known(self, broker: str, from_us: int, entry: Entry) -> bool:
        """Whether *broker* was in the routes before the member started, or for ``CURRENT_US``."""
        if self.cluster.topics.is_down(broker):
            return False
        now_us = entry.mono_us
        last_us = self._last_us(broker, now_us)
        if last_us < from_us and all(
            self.cluster.topics.was_registered(each, broker, last_us - 1, from_us)
            for each in self.cluster.topics.name_servers
        ):
            return True
        if now_us - last_us < CURRENT_US:
            return False
        member_us = self.cluster.last_touched_us((entry.node,), now_us, but=READABLE_FAULTS)
        return now_us - member_us >= CURRENT_US

    def _has_rested(self, broker: str, now_us: int) -> bool:
        """Whether no client can still have a route with more queues of *broker*."""
        return now_us - self.cluster.topics.changed_us(broker) >= CURRENT_US

    def _last_us(self, broker: str, now_us: int) -> int:
        topics = self.cluster.topics
        return max(
            last_path_fault_us(self.cluster, {broker}, topics.name_servers, now_us),
            topics.partial.last_us((broker,), now_us),
            topics.changed_us(broker),
        )

    def _is_gone(self, broker: str, entry: Entry) -> bool:
        """Whether its process ended long ago and closed its connections, so no route has it.

        A slave keeps the queues of its name in the routes.  Upstream:
        RouteInfoManager.onChannelDestroy, which removes the queues with the last address.
        """
        cluster = self.cluster
        master = cluster.replicas.of(broker)
        slaves = () if master is None else master.slaves
        if not all(map(cluster.is_gone, (broker, *slaves))):
            return False
        ended_us, now_us = cluster.ended_us(broker, entry.mono_us), entry.mono_us
        if now_us - ended_us < CURRENT_US:
            return False
        since_us = ended_us - CURRENT_US
        if cluster.touched({entry.node, *cluster.topics.name_servers}, since_us, now_us):
            return False
        return all(
            fault.word in CONNECTION_CLOSING or not fault.held(since_us, now_us)
            for fault in cluster.all_faults
            if broker in fault.nodes
        )


# Faults on the path between nodes -----------------------------------------------------


LINK_FAULTS = frozenset({"slow_link", "stall", "partition", "refuse", "cut"})
# Faults that leave every queue readable.
READABLE_FAULTS = frozenset({"read_only", "lag", *DISK_FAULTS})


def last_path_fault_us(
    cluster: ClusterState, servers: set[str], others: set[str], now_us: int
) -> int:
    """When *servers*, *others* or a link between them were last touched, up to *now_us*; 0: never.

    Disk faults do not count: no route and no list of members depends on a disk.
    """
    last_us = cluster.last_restart_us(servers | others)
    for fault in reversed(cluster.all_faults):  # stops at the first that ended earlier
        at_us = now_us if fault.ended_us is None else fault.ended_us
        if at_us > last_us and _is_on_path(fault, servers, others):
            last_us = at_us
    return last_us


def _is_on_path(fault: FaultInterval, servers: set[str], others: set[str]) -> bool:
    if fault.word in READABLE_FAULTS:
        return False
    if not others.isdisjoint(fault.nodes):
        return True
    if fault.word in LINK_FAULTS and not servers.issuperset(fault.nodes):
        return False
    return not servers.isdisjoint(fault.nodes)
