"""What members and servers know of each other, once nothing has happened to them for a while.

Heartbeats come every 30 s, routes are asked for every 30 s, passes run every 20 s: so after all
of them whoever lives is listed, whoever left is not, and every member shares out the same queues.
Until then, and while a fault touches the nodes concerned, nothing is objected to.
"""

from __future__ import annotations

from itertools import chain

from emulator.checks.checker import Shared, key_of
from emulator.checks.folding import Table
from emulator.checks.monitors.monitor import Monitor
from emulator.checks.monitors.paths import NO_MATTER, last_on_the_way_us
from emulator.checks.scene import Seat
from emulator.facts import (
    ConsumerStarted,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    RebalancePassed,
)
from emulator.journal import Entry
from protocol.names import is_retry_topic

HEARTBEAT_US = 30_000_000  # heartbeatBrokerInterval
ROUTE_US = 30_000_000  # pollNameServerInterval
PASS_US = 20_000_000  # rocketmq.client.rebalance.waitInterval
LATE_US = 8_000_000  # by calls to brokers that do not answer, one after the other
NOTICE_US = 6_000_000  # a pass begins at once, and asks a broker for each topic and group
MERGED_US = 15_000_000  # until brokers send them that merge notices (realTimeNotifyConsumerChange)
CLOSING = ("kill", "stop")  # faults that end a process and leave its machine
CURRENT_US = ROUTE_US + PASS_US + LATE_US  # until every member has shared out what changed
UNKNOWN = 1 << 20  # queues: more than any topic has
SILENT_US = 120_000_000 + 10_000_000  # channelExpiredTimeout, and until brokers look


class MembersAreListed(Monitor):
    """Client invariants 1 and 3, as brokers see them."""

    name = "members_are_listed"
    rule = (
        "a member that runs is listed at each broker of its topics within a heartbeat, 30 s "
        "(client invariants 1, 3)"
    )
    invariants = (1, 3)
    needs = (MemberJoined, ConsumerStarted)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._listed: dict[tuple[str, str, str], set[str]] = {}  # broker, group, client: peers

    def table(self) -> Table:
        """What it reads."""
        return {
            MemberJoined: self._joined,
            MemberLeft: self._left,
            NodeStarted: self._broker_started,
        }

    def end(self) -> None:
        """Look at every member that runs."""
        for group, seats in self.scene.seats.items():
            for seat in seats:
                if seat.lives and seat.started.consumer_kind != "pull":
                    for topic in seat.topics:
                        for broker in sorted(self.scene.topics.brokers_of(topic)):
                            self._looks(group, seat, broker)

    def _looks(self, group: str, seat: Seat, broker: str) -> None:
        now_us = self.scene.now_us
        topics = self.scene.topics
        nodes = {seat.node, broker, *topics.name_servers}
        since_us = max(
            seat.from_us,
            self.scene.last_touched_us(nodes, now_us),
            topics.partial.last_us((broker,), now_us),
            topics.changed_us(broker),
        )
        is_listed = bool(self._listed.get((broker, group, seat.started.client)))
        if now_us - since_us < HEARTBEAT_US + LATE_US or topics.is_down(broker):
            is_new = now_us - seat.from_us < HEARTBEAT_US + LATE_US
            if not (is_listed or is_new or self.scene.is_gone(broker)):
                self.excuses()
            return
        self.tries()
        if not is_listed:
            assert self.scene.last is not None
            self.objects(
                f"{broker} does not list {seat.node} in {group}, "
                f"{(now_us - since_us) / 1e6:.0f} s after anything happened to them",
                key_of(self.scene.last),
                node=seat.node,
            )

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        known = entry.node, fact.group, fact.client
        self._listed.setdefault(known, set()).add(fact.peer)

    def _broker_started(self, fact: NodeStarted, entry: Entry) -> None:
        """A broker that was started again lists nobody."""
        for known in [each for each in self._listed if each[0] == entry.node]:
            del self._listed[known]

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        self._listed.get((entry.node, fact.group, fact.client), set()).discard(fact.peer)


class LeaversAreForgotten(Monitor):
    """Client invariant 35; S27, S36."""

    name = "leavers_are_forgotten"
    rule = (
        "a member that ended is in no list after a few seconds, or after 130 s if its brokers "
        "could not see it end (client invariant 35)"
    )
    invariants = (35,)
    needs = (RebalancePassed,)

    def table(self) -> Table:
        """What it reads."""
        return {RebalancePassed: self._passed}

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        for seat in self.scene.seats.get(fact.group, ()):
            if seat.lives or seat.until_us is None or seat.started.client not in fact.members:
                continue
            if any(s.started.client == seat.started.client for s in self.scene.living(fact.group)):
                continue
            self.tries()
            gone_us = entry.mono_us - seat.until_us
            if gone_us <= NOTICE_US:
                continue
            is_seen = self._is_seen(seat, fact.topic, seat.until_us, entry.mono_us)
            if not is_seen and gone_us <= SILENT_US + PASS_US:
                self.excuses()
            else:
                self.objects(
                    f"{entry.node} was told that {seat.node} is in {fact.group}, "
                    f"{gone_us / 1e6:.1f} s after it had ended",
                    entry,
                )

    def _is_seen(self, seat: Seat, topic: str, since_us: int, now_us: int) -> bool:
        """Its brokers ran, and saw its connections close: a process that ends closes its own."""
        if self.scene.touched(self.scene.topics.brokers_of(topic), since_us, now_us):
            return False
        return not any(
            fault.word not in CLOSING and seat.node in fault.nodes and fault.held(since_us, now_us)
            for fault in self.scene.all_faults
        )


class RoutesAreCurrent(Monitor):
    """RouteInfoManager, MQClientInstance.updateTopicRouteInfoFromNameServer."""

    name = "routes_are_current"
    rule = (
        "members share out the queues of every broker that has been in the routes since they "
        "started, or for 60 s, and of no broker that ended 60 s before: NameServers are told at "
        "once, clients ask every 30 s and rebalance every 20 s"
    )
    needs = (RebalancePassed,)

    def table(self) -> Table:
        """What it reads."""
        return {RebalancePassed: self._passed}

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        if is_retry_topic(fact.topic):
            return
        topics = self.scene.topics
        since_us = self._first_us(fact.group, entry.node)
        if since_us is None:
            return
        least, most, running, gone = 0, 0, 0, []
        for broker in sorted(topics.brokers_of(fact.topic)):
            count = topics.readable_count(fact.topic, broker)
            running += 0 if self.scene.is_gone(broker) else count
            if not topics.is_sure(fact.topic, broker):
                most += UNKNOWN
                continue
            if self._is_gone(broker, entry):
                gone.append(broker)
                continue
            if self._is_known(broker, since_us, entry):
                least += count
            most += count if self._has_rested(broker, entry.mono_us) else UNKNOWN
        self.tries(bool(least or gone))
        if fact.queue_count < least:
            self.objects(
                f"{entry.node} shares out {fact.queue_count} queues of {fact.topic}, where "
                f"brokers that were there all the time have {least}",
                entry,
            )
        elif fact.queue_count > most:
            self.objects(
                f"{entry.node} shares out {fact.queue_count} queues of {fact.topic}, which has "
                f"{most}" + f" without {', '.join(gone)}" * bool(gone),
                entry,
            )
        elif fact.queue_count != running and self._is_touched(entry):
            self.excuses()

    def _is_touched(self, entry: Entry) -> bool:
        nodes = {entry.node, *self.scene.topics.brokers, *self.scene.topics.name_servers}
        return self.scene.touched(nodes, entry.mono_us - CURRENT_US, entry.mono_us)

    def _first_us(self, group: str, node: str) -> int | None:
        """When the first of the members began that use the routes of this process."""
        if self.scene.seat(group, node) is None:
            return None
        everybody = chain.from_iterable(self.scene.seats.values())
        return min((s.from_us for s in everybody if s.node == node and s.lives), default=None)

    def _is_known(self, broker: str, from_us: int, entry: Entry) -> bool:
        """It was in the routes before the member began, or is for as long as a change takes."""
        if self.scene.topics.is_down(broker):
            return False
        now_us = entry.mono_us
        last_us = self._last_us(broker, now_us)
        if last_us < from_us and all(
            self.scene.topics.was_registered(each, broker, last_us - 1, from_us)
            for each in self.scene.topics.name_servers
        ):
            return True
        if now_us - last_us < CURRENT_US:
            return False
        member_us = self.scene.last_touched_us((entry.node,), now_us, but=NO_MATTER)
        return now_us - member_us >= CURRENT_US

    def _has_rested(self, broker: str, now_us: int) -> bool:
        """Nobody can have a route with more queues of it."""
        return now_us - self.scene.topics.changed_us(broker) >= CURRENT_US

    def _last_us(self, broker: str, now_us: int) -> int:
        topics = self.scene.topics
        return max(
            last_on_the_way_us(self.scene, {broker}, topics.name_servers, now_us),
            topics.partial.last_us((broker,), now_us),
            topics.changed_us(broker),
        )

    def _is_gone(self, broker: str, entry: Entry) -> bool:
        """Its process ended long ago, which closed its connections: it is in no route."""
        scene = self.scene
        if not scene.is_gone(broker):
            return False
        ended_us, now_us = scene.ended_us(broker, entry.mono_us), entry.mono_us
        if now_us - ended_us < CURRENT_US:
            return False
        since_us = ended_us - CURRENT_US
        if scene.touched({entry.node, *scene.topics.name_servers}, since_us, now_us):
            return False
        return all(
            fault.word in CLOSING or not fault.held(since_us, now_us)
            for fault in scene.all_faults
            if broker in fault.nodes
        )
