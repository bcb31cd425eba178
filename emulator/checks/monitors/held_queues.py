"""Duties of a member for a queue: pull it while holding it, unlock it when giving it up.

A held queue is pulled all the time: an empty one every 15 s, as brokers hold a pull so long.
An orderly queue has one running listener.  A queue that was given up is unlocked, so that its
next owner need not wait until the lock expires.
"""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.cluster_state import ConsumerRecord
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    ConsumerStarted,
    ConsumerStopped,
    MemberJoined,
    MessageGivenToListener,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    RebalancePassed,
    RouteChanged,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

PULLED_US = 35_000_000  # a hold of 15 s, a sweep every 5 s, a timeout of 30 s
HELD_US = 25_000_000  # for a pull at the broker when its queue was dropped
EXPIRED_US = 145_000_000  # rocketmq.client.pull.pullMaxIdleTime and a pass, since it was dropped
FORCED_US = 20_000_000  # rocketmq.client.unlockDelayTimeMills, since the last lock
UNLOCKED_US = 25_000_000  # upstream waits 20 s if the listener has messages of the queue
UNLOCKED_AT_ONCE = (5, 2, 0)  # since this release a queue is unlocked at once
CALLS_US = 10_000_000  # calls to brokers that do not answer
LOCK_US = 60_000_000  # rocketmq.broker.rebalance.lockMaxLiveTime
Claim = tuple[str, str, Queue]  # node, group, queue


class QueuesArePulled(Monitor):
    """S03, S35: PullMessageService; client invariant 38."""

    name = "queues_are_pulled"
    rule = (
        "a member that holds a queue has one pull of it at the broker, or pulls again (client "
        "invariant 38): a queue is not forgotten"
    )
    invariants = (38,)
    needs = (PullAnswered, PullHeld)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._held: dict[Claim, EntryKey] = {}
        self._pulled: dict[str, dict[Queue, Entry]] = {}  # by address: last pull of each queue
        self._failed_us: dict[Claim, int] = {}  # when a pull of it failed last
        # By client, group and queue: when its broker last refused the lock to the client.
        self._refused_us: dict[tuple[str, str, Queue], int] = {}
        self._peers: dict[str, set[str]] = {}  # by client: its addresses
        self._kept_us: dict[Claim, list[int]] = {}  # when passes could not give it up
        self._last_kept: dict[tuple[str, str, str], int] = {}  # node, group, topic: last of these

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MemberJoined: self._joined,
            RebalancePassed: self._passed,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            ConsumerStarted: self._ended,
            ConsumerStopped: self._ended,
            PullHeld: self._pull,
            PullAnswered: self._pull,
            PullFailed: self._failed,
            QueuesLocked: self._locked,
        }

    def end(self) -> None:
        """Check every held queue."""
        for (node, group, queue), claimed in self._held.items():
            consumer = self.cluster.consumer(group, node)
            if (
                consumer is not None
                and consumer.is_running
                and consumer.started.consumer_kind == "push"
            ):
                self._check(consumer, group, queue, claimed)

    def _check(
        self, consumer: ConsumerRecord, group: str, queue: Queue, claimed: EntryKey
    ) -> None:
        peers = self._peers.get(consumer.started.client, ())
        pulls = [self._pulled.get(peer, {}).get(queue) for peer in peers]
        since = max([claimed, *(key_of(pull) for pull in pulls if pull is not None)])
        failed_us = self._failed_us.get((consumer.node, group, queue), 0)
        now_us = self.cluster.now_us
        topics = self.cluster.topics
        nodes = {consumer.node, queue.broker}
        touched_us = self.cluster.last_touched_us(nodes, now_us)
        self.count_tried()
        # A member without the lock of an orderly queue does not pull, and asks every 20 s.
        refused_us = self._refused_us.get((consumer.started.client, group, queue), 0)
        silent_us = now_us - max(since.mono_us, failed_us, touched_us, refused_us)
        # A member with a full cache does not pull; a queue still being consumed is not forgotten.
        reading = self.progress.readers.get(self.progress.reader(group, consumer.node), {}).get(
            queue
        )
        hold = None if reading is None else reading.claims.get(consumer.node)
        is_busy = hold is not None and bool(hold.in_flight)
        if is_busy or self.cluster.is_gone(queue.broker):
            return
        is_dropped = self._is_dropped((consumer.node, group, queue), since.mono_us)
        if is_dropped or topics.is_down(queue.broker) or silent_us <= PULLED_US:
            if now_us - max(since.mono_us, failed_us) > PULLED_US:
                self.count_excused()
        else:
            assert self.cluster.last is not None
            self.report_violation(
                f"{consumer.node} holds {place_of(queue)} for {group}, and did not pull it for "
                f"{silent_us / 1e6:.0f} s",
                since,
                key_of(self.cluster.last),
                node=consumer.node,
            )

    def _is_dropped(self, held: Claim, pulled_us: int) -> bool:
        """Whether a pass could not give the queue up and assigned it again; see ``_passed``."""
        since_us = max(pulled_us - HELD_US, self.cluster.now_us - EXPIRED_US)
        return any(kept_us >= since_us for kept_us in self._kept_us.get(held, ()))

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._peers.setdefault(fact.client, set()).add(fact.peer)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        for queue in fact.queues:
            self._held[entry.node, fact.group, queue] = key_of(entry)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        """An orderly member cannot give a queue up while its listener runs.

        The process queue stays in the table, dropped; if a later pass assigns it to the member
        again, it is not pulled until its last pull is 120 s old.
        Upstream: RebalanceImpl.updateProcessQueueTableInRebalance, ProcessQueue.isPullExpired.
        """
        if fact.group not in self.cluster.orderly:
            return
        held = [
            each
            for each in self._held
            if each[:2] == (entry.node, fact.group) and each[2].topic == fact.topic
        ]
        if fact.own_count < len(held):
            since_us = entry.mono_us - EXPIRED_US
            for each in held:
                earlier = self._kept_us.get(each, ())
                known = [at_us for at_us in earlier if at_us > since_us]
                self._kept_us[each] = [*known, entry.mono_us]
            self._last_kept[entry.node, fact.group, fact.topic] = entry.mono_us

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        """The last pass gave up all that it had to; what an earlier one kept is dropped still."""
        for queue in fact.queues:
            self._held.pop((entry.node, fact.group, queue), None)
            self._kept_us.pop((entry.node, fact.group, queue), None)
        for topic in {queue.topic for queue in fact.queues}:
            last_us = self._last_kept.pop((entry.node, fact.group, topic), None)
            for kept, times in self._kept_us.items():
                is_its = (*kept[:2], kept[2].topic) == (entry.node, fact.group, topic)
                if is_its and last_us in times:
                    times.remove(last_us)

    def _ended(self, fact: ConsumerStarted | ConsumerStopped, entry: Entry) -> None:
        for known in [each for each in self._held if each[:2] == (entry.node, fact.group)]:
            del self._held[known]

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        pulled = self._pulled.get(fact.peer)
        if pulled is None:
            pulled = self._pulled[fact.peer] = {}
        pulled[fact.queue] = entry

    def _failed(self, fact: PullFailed, entry: Entry) -> None:
        self._failed_us[entry.node, fact.group, fact.queue] = entry.mono_us

    def _locked(self, fact: QueuesLocked, entry: Entry) -> None:
        for queue in fact.refused:
            self._refused_us[fact.client, fact.group, queue] = entry.mono_us


class QueuesAreUnlocked(Monitor):
    """S02: RebalancePushImpl.removeUnnecessaryMessageQueue."""

    name = "queues_are_unlocked"
    rule = (
        "an orderly member that gives up a queue unlocks it within 25 s, so that the "
        "next owner need not wait for 60 s (client invariant 51)"
    )
    invariants = (51,)
    needs = (QueuesLocked,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._locked: set[tuple[str, str, Queue]] = set()  # client, group
        self._given_up: dict[tuple[str, str, Queue], EntryKey] = {}  # not unlocked yet
        # Of these: unlocked perhaps 20 s later, by a thread that ends with its process.
        # Upstream: RebalancePushImpl.unlockDelay, by the scheduled executor of MQClientInstance.
        self._delayed_unlocks: set[tuple[str, str, Queue]] = set()

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            QueuesLocked: self._lock,
            QueuesUnlocked: self._unlock,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            RouteChanged: self._route_changed,
            BrokerRoleChanged: self._role_changed,
        }

    def end(self) -> None:
        """Check queues that were given up and not unlocked."""
        for known, released in self._given_up.items():
            self._check(known, released, self.cluster.now_us)

    def _check(self, known: tuple[str, str, Queue], released: EntryKey, now_us: int) -> None:
        """Report a queue that is not unlocked at *now_us*, unless a fault explains that."""
        client, group, queue = known
        if now_us - released.mono_us <= UNLOCKED_US:
            return
        nodes, until_us = {released.node, queue.broker}, released.mono_us + UNLOCKED_US
        is_over = known in self._delayed_unlocks and self._has_ended(group, client, until_us)
        # The member unlocks before it notes the release, by a call that may wait.
        if is_over or self.cluster.touched(nodes, released.mono_us - CALLS_US, until_us):
            self.count_excused()
        else:
            self.report_violation(
                f"{released.node} ({client}) gave up {place_of(queue)} of {group} and did not "
                f"unlock it for {(now_us - released.mono_us) / 1e6:.0f} s",
                released,
                node=released.node,
            )

    def _has_ended(self, group: str, client: str, until_us: int) -> bool:
        """Whether the member's process ended, and with it the delayed unlocking."""
        return any(
            consumer.started.client == client
            and consumer.until_us is not None
            and consumer.until_us < until_us
            for consumer in self.cluster.consumers.get(group, ())
        )

    def _lock(self, fact: QueuesLocked, entry: Entry) -> None:
        for queue in fact.granted:
            # A replaced master's locks are not those of the broker that a member asks later.
            is_other = entry.node != queue.broker
            if not (is_other and self.cluster.replicas.may_move(queue.broker)):
                self._locked.add((fact.client, fact.group, queue))

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """The elected master has no locks: RebalanceLockManager keeps them in memory."""
        if self.cluster.roles.move is not None:
            for known in [each for each in self._locked if each[2].broker == entry.node]:
                self._locked.discard(known)
            for known in [each for each in self._given_up if each[2].broker == entry.node]:
                del self._given_up[known]
                self.count_excused()

    def _unlock(self, fact: QueuesUnlocked, entry: Entry) -> None:
        for queue in fact.queues:
            known = fact.client, fact.group, queue
            self._locked.discard(known)
            if (released := self._given_up.pop(known, None)) is not None:
                self._check(known, released, entry.mono_us)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        for queue in fact.queues:
            if consumer is not None:
                self._given_up.pop((consumer.started.client, fact.group, queue), None)

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        """A member that lost the address of the broker's master unlocks nothing there."""
        for known, released in list(self._given_up.items()):
            queue = known[2]
            if released.node != entry.node:
                continue
            is_lost = queue.topic == fact.topic and queue.broker not in fact.brokers
            if is_lost or queue.broker in fact.without_master:
                del self._given_up[known]
                self.count_excused()

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None or fact.reason not in ("not mine", "shutdown"):
            return
        for queue in fact.queues:
            known = consumer.started.client, fact.group, queue
            if known in self._locked:
                if not self._has_address(entry.node, queue):
                    self.count_excused()
                    continue
                self.count_tried()
                self._given_up[known] = key_of(entry)
                is_later = fact.reason == "not mine" and (
                    self.release_at(fact.group, entry.node) < UNLOCKED_AT_ONCE
                )
                (self._delayed_unlocks.add if is_later else self._delayed_unlocks.discard)(known)

    def _has_address(self, node: str, queue: Queue) -> bool:
        """Whether the member's routes have the queue's broker, and its master's address.

        Upstream: RebalanceImpl.unlock.
        """
        cluster = self.cluster
        return cluster.has_in_route(node, queue) and cluster.has_master_address(node, queue.broker)


class OneListenerAQueue(Monitor):
    """Client invariant 51: ConsumeMessageOrderlyService, and S02."""

    name = "one_listener_a_queue"
    rule = (
        "a queue of an orderly group has one running listener: the next owner gets it after the "
        "last owner's listener has returned or its lock has expired (client invariant 51); so it "
        "is not unlocked before, except by force 20 s after the last lock (52)"
    )
    invariants = (51, 52)
    needs = (MessageGivenToListener, QueuesLocked)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._locked_us: dict[tuple[str, str, Queue], int] = {}  # client, group: last lock

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageGivenToListener: self._given,
            QueuesLocked: self._lock,
            QueuesUnlocked: self._unlocked,
        }

    def _lock(self, fact: QueuesLocked, entry: Entry) -> None:
        for queue in fact.granted:
            self._locked_us[fact.client, fact.group, queue] = entry.mono_us

    def _unlocked(self, fact: QueuesUnlocked, entry: Entry) -> None:
        """Only running members are judged: one that shuts down unlocks even queues in use."""
        consumers = (
            s for s in self.cluster.running(fact.group) if s.started.client == fact.client
        )
        consumer = next(consumers, None)
        if consumer is None or fact.group not in self.cluster.orderly:
            return
        for queue in fact.queues:
            reading = self.progress.readers.get(fact.group, {}).get(queue)
            hold = None if reading is None else reading.claims.get(consumer.node)
            if hold is None or not hold.given.ends:
                continue
            self.count_tried()
            if hold.in_flight and hold.ended_us is not None:
                self._gave_away(fact, queue, min(hold.in_flight.values(), key=key_of), entry)

    def _gave_away(self, fact: QueuesUnlocked, queue: Queue, given: Entry, entry: Entry) -> None:
        locked_us = self._locked_us.get((fact.client, fact.group, queue), 0)
        nodes = {given.node, queue.broker}
        is_forced = entry.mono_us - locked_us > FORCED_US
        # The member sent this request, and gave up waiting, long before: a fault delayed it.
        since_us = min(given.mono_us, entry.mono_us - FORCED_US)
        if is_forced or self.cluster.touched(nodes, since_us, entry.mono_us):
            self.count_excused()
            return
        self.report_violation(
            f"{given.node} unlocked {place_of(queue)} while its listener still worked at it",
            given,
            entry,
            node=given.node,
        )

    def _given(self, fact: MessageGivenToListener, entry: Entry) -> None:
        if fact.group not in self.cluster.orderly:
            return
        reading = self.progress.readers[fact.group][fact.queue]
        for hold in reading.claims.values():
            if hold.node != entry.node and self._is_alive(fact.group, hold.node):
                self.count_tried()
                if hold.in_flight:
                    self._check(fact, min(hold.in_flight.values(), key=key_of), entry)

    def _is_alive(self, group: str, node: str) -> bool:
        consumer = self.cluster.consumer(group, node)
        return consumer is not None and consumer.is_running

    def _check(self, fact: MessageGivenToListener, other: Entry, entry: Entry) -> None:
        nodes = {entry.node, other.node, fact.queue.broker}
        if self.cluster.touched(nodes, other.mono_us - LOCK_US, entry.mono_us):
            self.count_excused()
            return
        self.report_violation(
            f"{entry.node} was given offset {fact.offset} of {place_of(fact.queue)} while "
            f"the listener of {other.node} still ran for it",
            other,
            entry,
        )
