"""Queue locks of orderly groups: one holder at the broker, and a listener only under the lock.

A lock is valid for 60 s at the broker after its last renewal, for 30 s at its holder; so a
listener call while another member has the lock is a violation (client invariant 51).  The
exception is a broker restart: it has no locks then and grants them again, while the old holders
use theirs up to 30 s longer.  A slave that acts as the master has locks of its own, too: without
lockInStrictMode neither of both knows those of the other (RebalanceLockManager).  RocketMQ allows
both, so they are counted and no violation.
"""

from __future__ import annotations

from collections import deque

from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    key_of,
    numbers_of,
)
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    BrokerReset,
    MessageGivenToListener,
    NodeStarted,
    Queue,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

BROKER_LOCK_US = 60_000_000  # rocketmq.broker.rebalance.lockMaxLiveTime
CLIENT_LOCK_US = 30_000_000  # rocketmq.client.rebalance.lockMaxLiveTime
ANSWER_US = 1_000_000  # the longest lock call
CLOCK_US = 10_000  # brokers count in whole milliseconds
LATE_UNLOCK_US = 20_000_000  # rocketmq.client.unlockDelayTimeMills
UNLOCKS_AT_ONCE = (5, 2, 0)
RELEASES_MAX = 32  # kept for each queue and client: those of the last 20 s


class LocksAreSafe(Checker):
    """Client invariant 51."""

    name = "locks"
    rule = (
        "no listener call with a lock older than 30 s, and never two members with the lock of one "
        "queue (client invariant 51); a lock that was not renewed for 60 s is free"
    )
    metrics = (
        Metric(
            "lock_violations", "times", "a lock was granted twice, or a listener had none", "group"
        ),
        Metric("locks_refused", "queues", "whose lock another member held, at each try", "group"),
        Metric(
            "kept_locks",
            "times",
            "a lock was refused for another that had not been renewed for 60 s",
            "group",
        ),
        Metric(
            "forgotten_locks",
            "times",
            "a listener ran under a lock that its broker lost in a restart and gave to another, "
            "or that another broker of the name gave",
            "group",
        ),
        Metric(
            "late_unlocks",
            "times",
            "a listener ran under a lock that its member unlocked 20 s after an earlier release, "
            "and that another member got (up to 5.1.4)",
            "group",
        ),
        Metric(
            "excused_wrong_clocks",
            "times",
            "a lock was too old, or granted twice, after the clock that measures it was moved",
            "group",
        ),
    )
    needs = (QueuesLocked,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._holders: dict[tuple[str, Queue], tuple[str, EntryKey]] = {}
        self._granted: dict[tuple[str, Queue, str], EntryKey] = {}  # to a client: last time
        self._started_us: dict[str, int] = {}  # brokers
        self._released_us: dict[tuple[str, Queue, str], deque[int]] = {}  # by a client
        self._late_unlocks: set[tuple[str, Queue, str]] = set()  # until its next lock request
        self._elsewhere: set[tuple[str, Queue, str]] = set()  # granted by a replaced master

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            QueuesLocked: self._locked,
            QueuesUnlocked: self._unlocked,
            QueuesReleased: self._released,
            MessageGivenToListener: self._given,
            NodeStarted: self._node_started,
            BrokerReset: self._reset,
        }

    def end(self) -> None:
        """Every orderly group has a number."""
        for group in self.cluster.orderly:
            for metric in self.metrics:
                self.add_to_metric(metric.name, 0, group)

    def _locked(self, fact: QueuesLocked, entry: Entry) -> None:
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        self.add_to_metric("locks_refused", len(fact.refused), fact.group)
        for queue in fact.refused:
            self._late_unlocks.discard((fact.group, queue, fact.client))
            if not self._is_no_master(entry, queue):
                self._refused(fact, queue, entry)
        for queue in fact.granted:
            if self._is_no_master(entry, queue):
                self._elsewhere.add((fact.group, queue, fact.client))
                self._granted[fact.group, queue, fact.client] = key
                continue
            self._elsewhere.discard((fact.group, queue, fact.client))
            client, granted = self._holders.get((fact.group, queue), (fact.client, key))
            is_own = granted.node == entry.node  # else the other broker of the name has granted it
            is_valid = is_own and entry.mono_us - granted.mono_us < BROKER_LOCK_US
            self.tried += 1
            left_us = BROKER_LOCK_US - (entry.mono_us - granted.mono_us)  # the clock may jump
            if (
                client != fact.client
                and is_valid
                and not self._is_excused(entry, granted.mono_us, left_us, fact.group)
            ):
                self.add_to_metric("lock_violations", 1, fact.group)
                self.report_violation(
                    f"{entry.node} gave {fact.client} the lock of {queue.topic}:{queue.queue_id}, "
                    f"which {client} was given {_seconds(granted, entry)} s before and has not "
                    "given back",
                    granted,
                    entry,
                )
            self._holders[fact.group, queue] = fact.client, key
            self._granted[fact.group, queue, fact.client] = key
            self._late_unlocks.discard((fact.group, queue, fact.client))

    def _is_no_master(self, entry: Entry, queue: Queue) -> bool:
        """Whether another broker is the master of the name: this one still grants its locks.

        Controllers have replaced it, and the member's routes do not show that yet.
        """
        return entry.node != queue.broker and self.cluster.replicas.may_move(queue.broker)

    def _refused(self, fact: QueuesLocked, queue: Queue, entry: Entry) -> None:
        """Report a lock refused for another member's lock that has expired.

        Upstream: RebalanceLockManager.LockEntry.isExpired.
        """
        client, granted = self._holders.get((fact.group, queue), (fact.client, None))
        if granted is None or client == fact.client or granted.node != entry.node:
            return
        self.tried += 1
        over_us = entry.mono_us - granted.mono_us - BROKER_LOCK_US - CLOCK_US
        if over_us <= 0 or self._is_excused(entry, granted.mono_us, over_us, fact.group):
            return
        self.add_to_metric("kept_locks", 1, fact.group)
        self.report_violation(
            f"{entry.node} refused {fact.client} the lock of {queue.topic}:{queue.queue_id} for "
            f"{client}, which got it last {_seconds(granted, entry)} s before",
            granted,
            entry,
        )

    def _unlocked(self, fact: QueuesUnlocked, entry: Entry) -> None:
        for queue in fact.queues:
            holder = self._holders.get((fact.group, queue))
            is_here = not self._is_no_master(entry, queue)
            if holder is not None and holder[0] == fact.client and is_here:
                del self._holders[fact.group, queue]
            known = fact.group, queue, fact.client
            for released_us in self._released_us.get(known, ()):
                late_us = entry.mono_us - released_us - LATE_UNLOCK_US + CLOCK_US
                granted = self._granted.get(known)
                granted_us = 0 if granted is None else granted.mono_us
                if 0 <= late_us <= ANSWER_US and released_us < granted_us:
                    self._late_unlocks.add(known)  # the member has claimed the queue again

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None or fact.group not in self.cluster.orderly:
            return
        if numbers_of(consumer.started.release) < UNLOCKS_AT_ONCE:
            for queue in fact.queues:
                known = fact.group, queue, consumer.started.client
                times = self._released_us.setdefault(known, deque(maxlen=RELEASES_MAX))
                times.append(entry.mono_us)

    def _given(self, fact: MessageGivenToListener, entry: Entry) -> None:
        if fact.group not in self.cluster.orderly:
            return
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None:
            return
        place = place_of(fact.queue)
        client = consumer.started.client
        granted = self._granted.get((fact.group, fact.queue, client))
        granted_us = 0 if granted is None else granted.mono_us
        holder = self._holders.get((fact.group, fact.queue))
        if granted is None:
            what = f"without ever having its lock: {place}"
        elif (
            over_us := entry.mono_us - granted_us - CLIENT_LOCK_US - ANSWER_US
        ) > 0 and not self._is_excused(entry, granted_us, over_us, fact.group):
            what = f"with a lock of {(entry.mono_us - granted_us) // 1_000_000} s ago: {place}"
        elif holder is not None and holder[0] != client and holder[1].mono_us > granted_us:
            is_forgotten = self._started_us.get(fact.queue.broker, 0) > granted_us
            is_elsewhere = (fact.group, fact.queue, client) in self._elsewhere
            if is_forgotten or is_elsewhere or granted.node != holder[1].node:
                self.add_to_metric("forgotten_locks", 1, fact.group)
                return
            if (fact.group, fact.queue, client) in self._late_unlocks:
                self.add_to_metric("late_unlocks", 1, fact.group)
                return
            left_us = BROKER_LOCK_US - (holder[1].mono_us - granted_us)  # until it expired there
            if self._is_excused(holder[1], granted_us, left_us, fact.group):
                return
            what = f"while {holder[0]} has its lock: {place}"
        else:
            return
        self.add_to_metric("lock_violations", 1, fact.group)
        evidence = () if holder is None else (holder[1],)
        self.report_violation(
            f"{entry.node} was given offset {fact.offset} {what}", *evidence, entry
        )

    def _reset(self, fact: BrokerReset, entry: Entry) -> None:
        """After a reset kept locks count from its moment."""
        for known, (client, _) in list(self._holders.items()):
            if known[1].broker == entry.node:
                self._holders[known] = client, key_of(entry)

    def _node_started(self, fact: NodeStarted, entry: Entry) -> None:
        """A broker starts without locks: they are in memory only."""
        for known in [each for each, held in self._holders.items() if held[1].node == entry.node]:
            del self._holders[known]
        self._started_us[entry.node] = entry.mono_us

    def _is_excused(
        self, entry: Entry | EntryKey, granted_us: int, wrong_us: int, group: str
    ) -> bool:
        """Whether the clock that measures the lock's age was moved by *wrong_us* meanwhile."""
        moved_us = self.cluster.clock_moved_us(entry.node, granted_us, entry.mono_us)
        if moved_us < wrong_us:
            return False
        self.add_to_metric("excused_wrong_clocks", 1, group)
        return True


def _seconds(before: EntryKey, entry: Entry) -> str:
    return f"{(entry.mono_us - before.mono_us) / 1e6:.1f}"
