"""Queues that move between members: only for a cause, by a pass, with a newer subscription.

A share is a function of the members and the queues; while these stay the same it does, too.
"""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.convergence import (
    HEARTBEAT_US,
    LATE_US,
    PASS_US,
    ROUTE_US,
    SILENT_US,
)
from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.rules.locks import BROKER_LOCK_US
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.cluster_state import ConsumerRecord
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    MemberJoined,
    NodeStarted,
    PullFailed,
    Queue,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    RebalancePassed,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

STABLE_AFTER_US = ROUTE_US + PASS_US + LATE_US + 2_000_000
ORDERLY_STABLE_AFTER_US = STABLE_AFTER_US + 30_000_000  # a member's lock outlives it by 60 s
FIRST_HEARTBEAT_US = 990_000  # MQClientInstance.startScheduledTask: after a second
PASS_ORDER_US = 3_000_000  # a release follows the pass that decided it


class SharesAreStable(Monitor):
    """S19, S23: RebalanceImpl.rebalanceByTopic; allocation is a function of members and queues."""

    name = "shares_rest"
    rule = (
        "while members, queues and brokers stay the same no queue moves between members (client "
        "invariant 27): from 60 s after the last change on, with orderly members from 90 s on"
    )
    invariants = (27,)
    needs = (QueuesClaimed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._gave_up: dict[tuple[str, Queue], set[str]] = {}  # group, queue: nodes that left it
        self._regranted_locks = _RegrantedLocks()

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            QueuesLocked: self._regranted_locks.locked,
            QueuesUnlocked: self._regranted_locks.unlocked,
            RebalancePassed: self._passed,
        }

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        """Count a pass over a stable group: the rule was tried."""
        now_us = entry.mono_us
        brokers = self._brokers_of(fact.group)
        if now_us - self._changed_us(fact.group, brokers) > STABLE_AFTER_US:
            rests_us = now_us - self._since_us(fact.group, brokers, now_us)
            self.count_tried(rests_us > self._least_us(fact.group, brokers, now_us))

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        if (consumer := self.cluster.consumer(fact.group, entry.node)) is not None:
            self._regranted_locks.released(fact, consumer.started.client, entry.mono_us)
        if fact.reason == "not mine":
            self._changed(fact, entry)
        else:  # its pull expired, or its offset was reset: it claims the queue again
            for queue in fact.queues:
                self._gave_up.setdefault((fact.group, queue), set()).add(entry.node)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        gave_up = [self._gave_up.get((fact.group, queue), set()) for queue in fact.queues]
        if not all(entry.node in nodes for nodes in gave_up):
            self._changed(fact, entry)
        for nodes in gave_up:
            nodes.discard(entry.node)
        self._regranted_locks.claimed(fact)

    def _changed(self, fact: QueuesClaimed | QueuesReleased, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None or consumer.started.consumer_kind == "pull":
            return
        now_us, brokers = entry.mono_us, self._brokers_of(fact.group)
        least_us = self._least_us(fact.group, brokers, now_us)
        if now_us - self._changed_us(fact.group, brokers) <= least_us:
            return
        rests_us = now_us - self._since_us(fact.group, brokers, now_us)
        waited = isinstance(fact, QueuesClaimed) and self._regranted_locks.explains(fact, now_us)
        if rests_us > least_us and not waited:
            verb = "claimed" if isinstance(fact, QueuesClaimed) else "gave up"
            self.report_violation(
                f"{entry.node} {verb} {place_of(fact.queues[0])}, although nothing has changed "
                f"for {fact.group} for {rests_us / 1e6:.0f} s",
                entry,
            )
        else:
            self.count_excused()

    def _since_us(self, group: str, brokers: set[str], now_us: int) -> int:
        """The last time of a change or fault that may change the group's shares."""
        recent_us = now_us - SILENT_US - PASS_US - LATE_US
        consumers = self.cluster.consumers.get(group, ())
        nodes = {
            *(
                consumer.node
                for consumer in consumers
                if consumer.until_us is None or consumer.until_us > recent_us
            ),
            *brokers,
            *self.cluster.topics.name_servers,
        }
        gone_us = (
            self.cluster.ended_us(node, now_us) + SILENT_US
            for node in nodes
            if self.cluster.is_gone(node)
        )
        return max(
            self._changed_us(group, brokers),
            self.cluster.last_touched_us(nodes, now_us, but=PROCESS_ENDING),
            self.cluster.topics.partial.last_us(brokers, now_us),
            max(gone_us, default=0),  # a silent end is noticed so late
        )

    def _changed_us(self, group: str, brokers: set[str]) -> int:
        """When a member joined or left, or a broker of the group or its topics changed, last."""
        changes = [
            consumer.until_us or consumer.from_us
            for consumer in self.cluster.consumers.get(group, ())
        ]
        changes += map(self.cluster.topics.changed_us, brokers)
        return max(changes, default=0)

    def _brokers_of(self, group: str) -> set[str]:
        """The brokers that have a topic of the group; all brokers if that is not known."""
        topics = self.cluster.topics
        found = set().union(*map(topics.brokers_of, self.cluster.topics_of(group)))
        return found or topics.brokers

    def _least_us(self, group: str, brokers: set[str], now_us: int) -> float:
        if group not in self.cluster.orderly:
            return STABLE_AFTER_US
        # A lock granted while the broker's clock was ahead expires later by the same time.
        ahead = (self.cluster.clock_moved_us(b, 0, now_us) for b in brokers)
        return ORDERLY_STABLE_AFTER_US + max(ahead, default=0)


class _RegrantedLocks:
    """Queues whose lock a member got again just after it had released them.

    A round of renewals that had already begun still named them (RebalanceImpl.lockAll).  No member
    unlocks such a queue: the lock expires, and the next pass of the new owner gets the queue.
    """

    def __init__(self) -> None:
        self._released_us: dict[tuple[str, Queue], dict[str, int]] = {}  # group, queue: client
        self._granted: dict[tuple[str, Queue], tuple[str, int]] = {}  # group, queue: client, when

    def released(self, fact: QueuesReleased, client: str, now_us: int) -> None:
        """*client* released the queues."""
        for queue in fact.queues:
            self._released_us.setdefault((fact.group, queue), {})[client] = now_us

    def locked(self, fact: QueuesLocked, entry: Entry) -> None:
        """Keep locks granted just after a release; a round is short, so later ones are new."""
        for queue in fact.granted:
            released_us = self._released_us.get((fact.group, queue), {}).get(fact.client)
            if released_us is not None and entry.mono_us - released_us <= LATE_US:
                self._granted[fact.group, queue] = fact.client, entry.mono_us

    def unlocked(self, fact: QueuesUnlocked, entry: Entry) -> None:
        """The client unlocked the queues itself."""
        for queue in fact.queues:
            client, _ = self._granted.get((fact.group, queue), ("", 0))
            if client == fact.client:
                del self._granted[fact.group, queue]

    def claimed(self, fact: QueuesClaimed) -> None:
        """The queues have an owner again."""
        for queue in fact.queues:
            self._granted.pop((fact.group, queue), None)
            self._released_us.pop((fact.group, queue), None)

    def explains(self, fact: QueuesClaimed, now_us: int) -> bool:
        """Whether such a lock delayed the claim of each of the claimed queues."""
        since_us = now_us - BROKER_LOCK_US - PASS_US - LATE_US
        granted = (self._granted.get((fact.group, queue)) for queue in fact.queues)
        return all(found is not None and found[1] >= since_us for found in granted)


class ReleasesFollowPasses(Monitor):
    """Client invariant 32."""

    name = "releases_follow_passes"
    rule = (
        "a queue is given up as not mine by a pass that got a list of members; without a list "
        "nothing changes (client invariant 32)"
    )
    invariants = (32,)
    needs = (QueuesReleased,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._passed_us: dict[tuple[str, str, str], int] = {}  # node, group, topic

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {RebalancePassed: self._passed, QueuesReleased: self._released}

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        self._passed_us[entry.node, fact.group, fact.topic] = entry.mono_us

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        group = fact.group
        if fact.reason != "not mine" or group in self.cluster.broadcast | self.cluster.orderly:
            return
        for topic in sorted({queue.topic for queue in fact.queues}):
            passed_us = self._passed_us.get((entry.node, group, topic))
            since_us = entry.mono_us - PASS_ORDER_US
            is_stray = passed_us is None or passed_us < since_us
            if self.cluster.touched((entry.node,), since_us, entry.mono_us):
                if is_stray:
                    self.count_excused()
                continue
            self.count_tried()
            if is_stray:
                self.report_violation(
                    f"{entry.node} gave up {len(fact.queues)} queues of {topic} as not its own, "
                    "without a list of the members of its group",
                    entry,
                )


class SubscriptionsAreLatest(Monitor):
    """Client invariant 45."""

    name = "subscriptions_are_latest"
    rule = (
        "a member sends its newer subscription to brokers at once: pulls that are refused for an "
        "old subscription are not refused for seconds (client invariant 45)"
    )
    invariants = (45,)
    needs = (QueuesClaimed,)

    LATEST_US = 3_000_000
    REFUSED = "SUBSCRIPTION_NOT_LATEST"

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._refused: dict[tuple[str, str, Queue], EntryKey] = {}  # the first refusal
        self._joined_us: dict[tuple[str, str, str], int] = {}  # broker, group, client
        self._started_us: dict[str, int] = {}  # when the broker's process began
        self._changed_us: dict[tuple[str, str], int] = {}  # node, group: last change of its queues

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            NodeStarted: self._started,
            MemberJoined: self._joined,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._claimed,
            PullFailed: self._failed,
        }

    def _is_in_a_round(self, consumer: ConsumerRecord, at_us: int) -> bool:
        """Whether heartbeats were being sent: 1 s after a client's start, and every 30 s again.

        It asks one broker after another, and waits 3 s for each that does not answer.
        Upstream: MQClientInstance.sendHeartbeatToAllBroker.
        """
        lasts_us = (at_us - consumer.from_us - FIRST_HEARTBEAT_US) % HEARTBEAT_US
        brokers, began_us = self.cluster.topics.brokers, at_us - lasts_us
        silent = sum(self.cluster.touched({broker}, began_us, at_us) for broker in brokers)
        return lasts_us < self.LATEST_US * max(silent, 1)

    def _waits_for_others(self, changed_us: int, now_us: int) -> bool:
        """Whether brokers that do not answer, 3 s each, delayed the round of heartbeats."""
        if now_us - changed_us > LATE_US:
            return False
        return self.cluster.touched(self.cluster.topics.brokers, changed_us - LATE_US, now_us)

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._started_us[entry.node] = entry.mono_us

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._joined_us[entry.node, fact.group, fact.client] = entry.mono_us

    def _claimed(self, fact: QueuesClaimed | QueuesReleased, entry: Entry) -> None:
        self.count_tried(len(fact.queues))
        self._changed_us[entry.node, fact.group] = entry.mono_us
        for queue in fact.queues:
            self._refused.pop((entry.node, fact.group, queue), None)

    def _failed(self, fact: PullFailed, entry: Entry) -> None:
        known = entry.node, fact.group, fact.queue
        if self.REFUSED not in fact.error and "code 25" not in fact.error:
            self._refused.pop(known, None)
            return
        first = self._refused.setdefault(known, key_of(entry))
        late_us = entry.mono_us - first.mono_us
        if late_us <= self.LATEST_US:
            return
        consumer = self.cluster.consumer(fact.group, entry.node)
        client = "" if consumer is None else consumer.started.client
        joined_us = self._joined_us.get((fact.queue.broker, fact.group, client), 0)
        is_joining = abs(first.mono_us - joined_us) < self.LATEST_US
        started_us = self._started_us.get(fact.queue.broker, 0)
        nodes = {entry.node, fact.queue.broker}
        if consumer is not None and joined_us < started_us and consumer.from_us < started_us:
            quiet_us = self.cluster.undisturbed_us(nodes, started_us, entry.mono_us)
            if quiet_us <= ROUTE_US + HEARTBEAT_US + LATE_US:  # a route poll, then a heartbeat
                self.count_excused()  # the broker restarted and got no heartbeat since
                return
        changed_us = self._changed_us.get((entry.node, fact.group), 0)
        is_left_out = is_joining or (
            consumer is not None and self._is_in_a_round(consumer, changed_us)
        )
        if is_left_out and entry.mono_us - max(changed_us, joined_us) <= HEARTBEAT_US + LATE_US:
            self.count_excused()  # the round in progress skips the newer subscription
            return
        # The heartbeat with the new subscription may have failed; the next comes 30 s later.
        since_us = first.mono_us - HEARTBEAT_US - LATE_US
        if self._waits_for_others(changed_us, entry.mono_us) or self.cluster.touched(
            nodes, since_us, entry.mono_us
        ):
            self.count_excused()
        else:
            self.report_violation(
                f"{fact.queue.broker} refuses pulls of {place_of(fact.queue)} by {entry.node} "
                f"for {late_us / 1e6:.1f} s, as it has an older subscription",
                first,
                entry,
            )
        del self._refused[known]
