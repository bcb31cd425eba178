"""Rebalance passes: when they come, by timer or by notice, and which queues they share out.

A pass is a pure function of the topic's queues and the members' ids; so once every member has
passed with the same ids and the same number of queues, their shares must add up.  A pass also
shows how a member uses its routes: it shares out every readable queue.

A group that changes is rebalanced at once, by a notice of its brokers, not with the next timer.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from rocketmq_emulator.checks.monitors.convergence import (
    HEARTBEAT_US,
    LATE_US,
    MERGED_US,
    NOTICE_US,
    PASS_US,
    ROUTE_US,
    UNKNOWN,
    last_path_fault_us,
)
from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.rules.split_shares import EXCLUSIVE_STRATEGIES
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.cluster_state import ConsumerRecord
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    QueuesClaimed,
    RebalancePassed,
    RouteChanged,
    SettingsChanged,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.flags import is_readable
from rocketmq_emulator.protocol.messages.names import is_retry_topic

INTERVAL_US = 20_000_000  # rocketmq.client.rebalance.waitInterval
INTERVAL_US_MIN = 1_000_000  # rocketmq.client.rebalance.minInterval
MIN_INTERVAL_KEPT = (5, 2, 0)
MILLISECOND_US = 1_000  # clients wait in whole ones
INTERVALS = ("rebalance_interval_ms", "rebalance_interval_ms_min")
EVEN = frozenset({"averagely", "by_circle"})  # strategies whose shares differ by one at most


class PassTimes(Monitor):
    """Client invariants 25 and 26."""

    name = "pass_times"
    rule = (
        "passes of the timer are 20 s apart (client invariant 25), since 5.2.0 never two "
        "within 1 s (26)"
    )
    invariants = (25, 26)
    needs = (RebalancePassed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._last: dict[tuple[str, str, str], EntryKey] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {RebalancePassed: self._passed, ConsumerStarted: self._started}

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new process has a new timer."""
        for known in [each for each in self._last if each[0] == entry.node]:
            del self._last[known]

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        release = self.release_at(fact.group, entry.node)
        if not release or (release < MIN_INTERVAL_KEPT and fact.cause != "timer"):
            return
        known = entry.node, fact.group, fact.topic
        before = self._last.get(known)
        self._last[known] = EntryKey(entry.mono_us, entry.node, entry.seq)
        self.count_tried(before is not None)
        least_us = INTERVAL_US if release < MIN_INTERVAL_KEPT else INTERVAL_US_MIN
        if before is None or entry.mono_us - before.mono_us >= least_us - MILLISECOND_US:
            return
        if not self.sets(fact.group, *INTERVALS):
            self.report_violation(
                f"{entry.node} rebalanced {fact.topic} of {fact.group} "
                f"{(entry.mono_us - before.mono_us) / 1e6:.3f} s after the pass before",
                before,
                entry,
            )


class SharesAddUp(Monitor):
    """Client invariants 27, 28 and 32."""

    name = "shares_add_up"
    rule = (
        "members with equal inputs take every queue once (client invariant 27), averagely and by "
        "circle in shares that differ by one at most (28); members not in the list take none (32)"
    )
    invariants = (27, 28, 32)
    needs = (RebalancePassed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._passes: dict[tuple[str, str], dict[str, tuple[RebalancePassed, EntryKey]]] = {}
        self._routes: dict[tuple[str, str], frozenset[str]] = {}  # by node and topic

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            RebalancePassed: self._passed,
            ConsumerStarted: self._started,
            RouteChanged: self._route_changed,
        }

    def reason_not_judged(self) -> str:
        """Custom strategies are not judged, and only the plan names the strategies."""
        if not self.cluster.plan.get("consumers"):
            return "the journal has no plan: which strategies its groups have is not known"
        return ""

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new member may have another strategy than the one before it on the node."""
        for (group, _), passes in self._passes.items():
            if group == fact.group:
                passes.pop(fact.client, None)

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        """Forget passes over the topic: an equal number of queues may be different queues."""
        self._routes[entry.node, fact.topic] = frozenset(fact.brokers)
        for (_, topic), passes in self._passes.items():
            if topic == fact.topic:
                passes.clear()

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        strategies = {part.get("strategy", "averagely") for part in self.plans_of(fact.group)}
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None or not strategies or not strategies <= EXCLUSIVE_STRATEGIES:
            return
        if len(strategies) > 1 or self.sets(fact.group, "strategy"):
            return
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        client = consumer.started.client
        if client not in fact.members and fact.own_count:
            self.report_violation(
                f"{entry.node} is not in the list of {fact.group}, and took {fact.own_count} "
                f"queues of {fact.topic}",
                entry,
            )
        passes = self._passes.setdefault((fact.group, fact.topic), {})
        passes[client] = fact, key
        self._add_up(fact, passes, is_even=strategies <= EVEN)

    def _add_up(
        self,
        fact: RebalancePassed,
        passes: dict[str, tuple[RebalancePassed, EntryKey]],
        *,
        is_even: bool,
    ) -> None:
        if len(set(fact.members)) < len(fact.members):
            return
        mine = [passes[member] for member in fact.members if member in passes]
        if len(mine) < len(fact.members):
            return
        if any(e.queue_count != fact.queue_count or e.members != fact.members for e, _ in mine):
            return
        counts = [each.own_count for each, _ in mine]
        if len({self._routes.get((key.node, fact.topic)) for _, key in mine}) > 1:
            if sum(counts) != fact.queue_count:
                self.count_excused()  # the same number of queues, of other brokers
            return
        self.count_tried()
        keys = sorted(key for _, key in mine)
        if sum(counts) != fact.queue_count:
            self.report_violation(
                f"the members of {fact.group} share {fact.queue_count} queues of {fact.topic} as "
                f"{' + '.join(map(str, counts))}",
                *keys,
            )
        elif is_even and max(counts) - min(counts) > 1:
            self.report_violation(
                f"the shares of {fact.topic} in {fact.group} are {', '.join(map(str, counts))}",
                *keys,
            )


class BroadcastersShareNothing(Monitor):
    """Client invariant 34."""

    name = "broadcasters_share_nothing"
    rule = "a broadcasting member holds all queues and asks for no list (client invariant 34)"
    invariants = (34,)
    needs = (ConsumerStarted,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {RebalancePassed: self._passed, QueuesClaimed: self._claimed}

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        self.count_tried(fact.group in self.cluster.broadcast)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        if fact.group in self.cluster.broadcast:
            self.report_violation(
                f"{entry.node} broadcasts, and computed {fact.own_count} of {fact.queue_count} "
                f"queues of {fact.topic} as its share",
                entry,
            )


# Queues of the route ------------------------------------------------------------------


ROUTES_MAX = 8  # of one topic at one node: the last ones
SETTING = "brokerPermission="


class RoutesAreShared(Monitor):
    """Client invariant 9: MQClientInstance.topicRouteData2TopicSubscribeInfo."""

    name = "routes_are_shared"
    rule = (
        "members share out all readable queues of the brokers in their route, also while "
        "nothing may be written to them (client invariant 9)"
    )
    invariants = (9,)
    needs = (RebalancePassed, RouteChanged)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        # By node and topic: its routes; by topic and broker: the fewest queues it ever had.
        self._routes: dict[tuple[str, str], deque[tuple[EntryKey, tuple[str, ...]]]] = {}
        self._least: dict[tuple[str, str], int] = {}
        self._unreadable: set[str] = set()  # brokers ever set to be unreadable

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            ConsumerStarted: self._started,
            RouteChanged: self._changed,
            TopicCreated: self._shaped,
            TopicChanged: self._shaped,
            SettingsChanged: self._set,
            RebalancePassed: self._passed,
        }

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new process has no routes yet."""
        for known in [each for each in self._routes if each[0] == entry.node]:
            del self._routes[known]

    def _changed(self, fact: RouteChanged, entry: Entry) -> None:
        known = entry.node, fact.topic
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        self._routes.setdefault(known, deque(maxlen=ROUTES_MAX)).append((key, fact.brokers))

    def _shaped(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        count = fact.read_queue_count if is_readable(fact.perm) else 0
        known = fact.topic, entry.node
        self._least[known] = min(count, self._least.get(known, count))

    def _set(self, fact: SettingsChanged, entry: Entry) -> None:
        for text in fact.settings:
            value = text.removeprefix(SETTING)
            if value != text and not (value.isdecimal() and is_readable(int(value))):
                self._unreadable.add(entry.node)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        """A pass that began before the last change may use the route before it."""
        routes = self._routes.get((entry.node, fact.topic))
        if not routes or is_retry_topic(fact.topic):
            return
        since_us, until_us = entry.mono_us - LATE_US, entry.mono_us
        (key, _), least = routes[-1], UNKNOWN
        for since, brokers in reversed(routes):
            if until_us >= since_us and (count := self._count(fact.topic, brokers)) <= least:
                key, least = since, count
            until_us = since.mono_us
        self.count_tried(least > 0)
        if fact.queue_count < least:
            self.report_violation(
                f"{entry.node} shares out {fact.queue_count} queues of {fact.topic}, where the "
                f"brokers of its route have {least}",
                key,
                entry,
            )

    def _count(self, topic: str, brokers: tuple[str, ...]) -> int:
        """The least number of readable queues of *brokers*; unknown queues count as none."""
        readable = (broker for broker in brokers if broker not in self._unreadable)
        return sum(self._least.get((topic, broker), 0) for broker in readable)


# Notices ------------------------------------------------------------------------------


class _MemberChange(NamedTuple):
    """A member joined or left, and a pass that takes this into account is due."""

    since: EntryKey
    has_come: bool
    is_disputed: bool = False  # a pass came at once, and may have asked another broker


class NoticesTriggerRebalance(Monitor):
    """Client invariant 35.  Brokers that merge notices send them every 15 s."""

    name = "notices_wake"
    rule = (
        "a member that joins or leaves wakes all members that its broker lists: they rebalance "
        "each of their topics at once (client invariant 35)"
    )
    invariants = (35,)
    needs = (MemberJoined, RebalancePassed)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._peers: dict[tuple[str, str], dict[str, set[str]]] = {}  # broker, group: client
        self._began_us: dict[str, int] = {}  # by broker: its last start
        # By broker, group and client: when it was first listed since the broker's last start.
        self._listed_us: dict[tuple[str, str, str], int] = {}
        # By group and client: when it last passed each of its topics.
        self._topics: dict[tuple[str, str], dict[str, int]] = {}
        # By group and client: the changed member, and the topic whose pass is due; "": any.
        self._woken: dict[tuple[str, str], dict[tuple[str, str], _MemberChange]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MemberJoined: self._joined,
            MemberLeft: self._left,
            NodeStarted: self._broker_started,
            RebalancePassed: self._passed,
        }

    def end(self) -> None:
        """Check members whose pass had not come when the journal ended."""
        for (group, client), changes in self._woken.items():
            for (changed, _), change in changes.items():
                if self.cluster.last is not None:
                    self._check(group, client, changed, change, self.cluster.last)

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        clients = self._peers.setdefault((entry.node, fact.group), {})
        if fact.message_model != "BROADCASTING":
            others = [each for each in clients if each != fact.client]
            self._wakes(fact, others, entry, has_come=True)
        clients.setdefault(fact.client, set()).add(fact.peer)
        self._listed_us.setdefault((entry.node, fact.group, fact.client), entry.mono_us)

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        clients = self._peers.get((entry.node, fact.group), {})
        clients.get(fact.client, set()).discard(fact.peer)
        if not clients.get(fact.client):
            clients.pop(fact.client, None)
        if fact.reason != "expired":  # an expiry sends no notice
            self._wakes(fact, list(clients), entry, has_come=fact.client in clients)

    def _broker_started(self, fact: NodeStarted, entry: Entry) -> None:
        """A restarted broker lists no member."""
        self._began_us[entry.node] = entry.mono_us
        if (
            move := self.cluster.roles.move
        ) is not None:  # its members stay, as a slave lists them
            move.rekey(self._peers)
            move.rekey(self._listed_us)
            return
        for known in [each for each in self._peers if each[0] == entry.node]:
            del self._peers[known]
        for listed in [each for each in self._listed_us if each[0] == entry.node]:
            del self._listed_us[listed]

    def _wakes(
        self, fact: MemberJoined | MemberLeft, clients: list[str], entry: Entry, *, has_come: bool
    ) -> None:
        if fact.group in self.cluster.broadcast:
            return
        for (group, _), changes in self._woken.items():
            if group == fact.group:  # replaces its earlier change, also for members not listed now
                for over in [each for each in changes if each[0] == fact.client]:
                    del changes[over]
        for client in clients:
            changes = self._woken.setdefault((fact.group, client), {})
            known = self._topics.get((fact.group, client), {})
            since_us = entry.mono_us - 2 * PASS_US - LATE_US  # topics that it passes regularly
            topics = [topic for topic, at_us in known.items() if at_us >= since_us]
            for topic in topics or [""]:
                changes[fact.client, topic] = _MemberChange(key_of(entry), has_come)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        """Check the delay of this pass after each change that it takes into account."""
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None:
            return
        known = fact.group, consumer.started.client
        self._topics.setdefault(known, {})[fact.topic] = entry.mono_us
        changes = self._woken.get(known, {})
        for (client, topic), change in list(changes.items()):
            if topic not in ("", fact.topic):
                continue
            if (client in fact.members) is change.has_come:
                del changes[client, topic]
                self._check(fact.group, consumer.started.client, client, change, entry)
            elif self._is_disputed(*known, client, has_come=change.has_come):
                is_at_once = entry.mono_us - change.since.mono_us <= NOTICE_US
                is_disputed = change.is_disputed or is_at_once
                changes[client, topic] = change._replace(is_disputed=is_disputed)

    def _is_unlisted(self, group: str, consumer: ConsumerRecord, since: EntryKey) -> bool:
        """Whether the pass may have asked a restarted broker that does not list the member yet."""
        for topic in consumer.topics:
            for broker in self.cluster.topics.brokers_of(topic):
                began_us = self._began_us.get(broker, 0)
                listed_us = self._listed_us.get((broker, group, consumer.started.client), 0)
                if not consumer.from_us < began_us < since.mono_us:
                    continue
                quiet_us = self.cluster.undisturbed_us(
                    (consumer.node, broker), began_us, since.mono_us
                )
                is_listed = began_us < listed_us < since.mono_us
                if not is_listed and quiet_us <= ROUTE_US + HEARTBEAT_US + LATE_US:
                    return True
        return False

    def _is_disputed(self, group: str, client: str, changed: str, *, has_come: bool) -> bool:
        """Whether brokers that list *client* disagree about *changed*: a pass asks any of them."""
        listing = (
            clients
            for (broker, of), clients in self._peers.items()
            if of == group and client in clients and not self.cluster.is_gone(broker)
        )
        return any((changed in clients) is not has_come for clients in listing)

    def _check(
        self, group: str, client: str, changed: str, change: _MemberChange, entry: Entry
    ) -> None:
        since = change.since
        consumers = [s for s in self.cluster.running(group) if s.started.client == client]
        if len(consumers) != 1 or consumers[0].started.consumer_kind == "pull":
            return
        if consumers[0].from_us > since.mono_us:
            return
        us_max, late_us = self._us_max(), entry.mono_us - since.mono_us
        if (
            us_max is None
            or change.is_disputed
            or self._is_touched(group, client, changed, since, entry)
            or self._is_unlisted(group, consumers[0], since)
        ):
            if late_us > NOTICE_US:
                self.count_excused()
            return
        self.count_tried()
        if late_us > us_max:
            self.report_violation(
                f"{consumers[0].node} did not rebalance for {late_us / 1e6:.1f} s after the "
                f"members of {group} had changed",
                since,
                key_of(entry),
                node=consumers[0].node,
            )

    def _is_touched(
        self, group: str, client: str, changed: str, since: EntryKey, entry: Entry
    ) -> bool:
        """Whether a fault may have stopped the notice or the pass."""
        brokers = self.cluster.topics.brokers
        # The changed member may have reached one broker, and the pass asks another one.
        clients = {
            s.node for s in self.cluster.consumers[group] if s.started.client in (client, changed)
        }
        # A pass that changes the member's share sends heartbeats first, also to slaves.
        # Upstream: RebalancePushImpl.messageQueueChanged, sendHeartbeatToAllBrokerWithLock.
        brokers = {*brokers, *self.cluster.replicas.slaves}
        touched_us = last_path_fault_us(self.cluster, brokers, clients, entry.mono_us)
        if touched_us < since.mono_us - LATE_US:
            return False
        nodes = {*brokers, *clients}
        return (
            self.cluster.undisturbed_us(nodes, since.mono_us, entry.mono_us) <= PASS_US + LATE_US
        )

    def _us_max(self) -> int | None:
        """How long a notice and its pass may take, by the settings of brokers; None: no limit."""
        cluster = self.cluster.plan.get("cluster", {})
        all_settings = (
            cluster.get("broker_settings", {}),
            *cluster.get("settings_of", {}).values(),
        )
        if any(not each.get("notify_consumer_ids_changed", True) for each in all_settings):
            return None
        merges = any(not each.get("real_time_notices", True) for each in all_settings)
        return NOTICE_US + MERGED_US * merges
