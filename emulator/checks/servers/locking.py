"""The locks of orderly members: no pull without a lock, and each lock is renewed.

A member is orderly if it sends lock requests.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from rocketmq_emulator.checks.servers.members import GroupMember, MemberMonitor
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import PullAnswered, PullHeld, Queue, QueuesLocked, QueuesUnlocked
from rocketmq_emulator.facts.journal import Entry, EntryKey

RENEWED_US = 20_000_000  # ProcessQueue.REBALANCE_LOCK_INTERVAL
LATE_US = 15_000_000  # for brokers that do not answer
UNDER_WAY_US = 1_000_000  # a pull may have been sent before a refusal came
RESTARTED_US = RENEWED_US + LATE_US  # a restarted broker has no locks: not judged until then


class _LockAnswer(NamedTuple):
    """The last lock answer of a queue: *since* is the first such answer, *last* the last."""

    is_granted: bool
    since: EntryKey
    last: EntryKey


class _OrderlyMemberMonitor(MemberMonitor):
    """Knows the last lock answers that clients got."""

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._locks: dict[tuple[str, str], dict[Queue, _LockAnswer]] = {}  # group, client
        self._seen: dict[tuple[str, Queue, str], int] = {}  # opaque of the pull seen last

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **super().table(),
            QueuesLocked: self._locked,
            QueuesUnlocked: self._unlocked,
            PullHeld: self._pulled,
            PullAnswered: self._pulled,
        }

    @abstractmethod
    def check_lock(
        self, member: GroupMember, lock: _LockAnswer | None, queue: Queue, entry: Entry
    ) -> None:
        """Judge a pull of *queue* by an orderly member whose last lock answer is *lock*."""

    def _locked(self, fact: QueuesLocked, entry: Entry) -> None:
        known = self._locks.setdefault((fact.group, fact.client), {})
        key = key_of(entry)
        for queues, is_granted in ((fact.granted, True), (fact.refused, False)):
            for queue in queues:
                before = known.get(queue)
                is_new = before is None or before.is_granted != is_granted
                known[queue] = _LockAnswer(
                    is_granted, key if is_new or not before else before.since, key
                )

    def _unlocked(self, fact: QueuesUnlocked, entry: Entry) -> None:
        known = self._locks.setdefault((fact.group, fact.client), {})
        for queue in fact.queues:
            known[queue] = _LockAnswer(False, key_of(entry), key_of(entry))  # a field

    def _pulled(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        """A held pull is judged when it comes, not when it is answered."""
        if not self._locks:
            return
        place = fact.group, fact.queue, fact.peer
        is_known = self._seen.get(place) == fact.opaque and isinstance(fact, PullAnswered)
        self._seen[place] = fact.opaque
        member = self.member(fact.group, entry.node, fact.peer)
        if is_known or member is None or self.is_disturbed(entry.mono_us):
            return
        locks = self._locks.get((fact.group, member.client))
        if locks is not None and entry.mono_us - self.started_us(entry.node) > RESTARTED_US:
            self.check_lock(member, locks.get(fact.queue), fact.queue, entry)


class LockedPulls(_OrderlyMemberMonitor):
    """Client invariant 51, the part about pulls."""

    name = "locked_pulls"
    rule = (
        "an orderly member pulls only queues that the broker locked for it (client invariant 51; "
        "DefaultMQPushConsumerImpl.pullMessage: processQueue.isLocked)"
    )
    invariants = (51,)
    needs = (QueuesLocked,)

    def check_lock(
        self, member: GroupMember, lock: _LockAnswer | None, queue: Queue, entry: Entry
    ) -> None:
        """Report a pull without a granted lock."""
        if lock is not None and lock.is_granted:
            return
        if lock is not None and entry.mono_us - lock.since.mono_us <= UNDER_WAY_US:
            return
        evidence = member.joined if lock is None else lock.since
        why = (
            "was never locked for it"
            if lock is None
            else "is not locked for it any more, or not yet"
        )
        self.report_violation(
            f"{member.client} pulls {place_of(queue)} for {member.group}, which {why}",
            evidence,
            entry,
            node=member.client,
        )


class LocksAreRenewed(_OrderlyMemberMonitor):
    """Client invariant 51, the part about renewals."""

    name = "locks_are_renewed"
    rule = (
        "an orderly member renews its locks every 20 s (client invariant 51; lockMQPeriodically)"
    )
    invariants = (51,)
    needs = (QueuesLocked,)

    def check_lock(
        self, member: GroupMember, lock: _LockAnswer | None, queue: Queue, entry: Entry
    ) -> None:
        """Report a pull under a lock that was granted too long ago."""
        if lock is None or not lock.is_granted:
            return
        age_us = entry.mono_us - lock.last.mono_us
        if age_us > RENEWED_US + LATE_US:
            self.report_violation(
                f"{member.client} pulls {place_of(queue)} with a lock of {age_us / 1e6:.1f} s "
                "before",
                lock.last,
                entry,
                node=member.client,
            )
