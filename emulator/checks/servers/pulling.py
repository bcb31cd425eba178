"""The pulls of each member: one at a time, from the end of the last one, held when empty."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from rocketmq_emulator.checks.servers.members import MemberMonitor
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import PullAnswered, PullHeld, Queue
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.codes import ResponseCode

EMPTY_ANSWERS_MAX = 4  # of a queue within EMPTY_US: each should have been held for 15 s
EMPTY_US = 5_000_000

Pulls: TypeAlias = dict[tuple[str, Queue, str], EntryKey]  # group, queue, peer


class OnePullAMember(MemberMonitor):
    """Client invariant 38, for each member."""

    name = "one_pull_a_member"
    rule = (
        "a member has never more than one outstanding pull of a queue (client invariant 38; "
        "DefaultMQPushConsumerImpl.pullMessage)"
    )
    invariants = (38,)
    needs = (PullHeld,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._held: Pulls = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {**super().table(), PullHeld: self._hold, PullAnswered: self._answered}

    def forget(self, group: str) -> None:
        """Drop held pulls: queues may be pulled again while the old pull is held."""
        self._held = {
            known: key for known, key in self._held.items() if group not in ("", known[0])
        }

    def _hold(self, fact: PullHeld, entry: Entry) -> None:
        member = self.member(fact.group, entry.node, fact.peer)
        if member is None:
            return
        known = fact.group, fact.queue, fact.peer
        before = self._held.get(known)
        is_alone = len(self.clients(fact.group)) == 1
        # A queue that moved to another member and back is pulled while the old pull is held.
        was_alone = before and is_alone and self.changed_us(fact.group) <= before.mono_us
        if before is not None and (was_alone or self.is_settled(fact.group, before.mono_us)):
            self.report_violation(
                f"{member.client} pulls {place_of(fact.queue)} at {fact.offset} while its pull of "
                f"{(entry.mono_us - before.mono_us) / 1e6:.1f} s before is held",
                before,
                entry,
                node=member.client,
            )
        self._held[known] = key_of(entry)

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        self._held.pop((fact.group, fact.queue, fact.peer), None)


class _Answer(NamedTuple):
    """The answer of a queue's last pull, and the address that got it."""

    peer: str
    opaque: int
    next_offset: int
    key: EntryKey


class PullsGoOn(MemberMonitor):
    """Client invariant 61, the part about pulls: no offset is left out."""

    name = "pulls_go_on"
    rule = (
        "a member pulls from nextBeginOffset of its last answer, or from before it, so that it "
        "gets every message (client invariant 61; PullRequest.nextOffset)"
    )
    invariants = (61,)
    needs = (PullAnswered,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._answers: dict[tuple[str, Queue, str], _Answer] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {**super().table(), PullHeld: self._pull, PullAnswered: self._answered}

    def forget(self, group: str) -> None:
        """Drop answers: a tool moved the group, or a broker lost its offsets."""
        self._answers = {k: each for k, each in self._answers.items() if group not in ("", k[0])}

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        self._pull(fact, entry)
        known = self._known(fact, entry)
        answer = _Answer(fact.peer, fact.opaque, fact.next_offset, key_of(entry))
        if known is not None:
            self._answers[known] = answer

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        known = self._known(fact, entry)
        before = self._answers.get(known) if known is not None else None
        if known is None or before is None or before.peer != fact.peer:
            return
        if fact.offset > before.next_offset:
            member = self.member(fact.group, entry.node, fact.peer)
            client = fact.peer if member is None else member.client
            self.report_violation(
                f"{client} got nextBeginOffset {before.next_offset} of {place_of(fact.queue)} "
                f"and pulls at {fact.offset}: it leaves {fact.offset - before.next_offset} out",
                before.key,
                entry,
                node=client,
            )
        if isinstance(fact, PullHeld):  # its answer has the same offset again
            self._answers[known] = before._replace(next_offset=fact.offset)

    def _known(self, fact: PullHeld | PullAnswered, entry: Entry) -> tuple[str, Queue, str] | None:
        """The key of the pull position: by member in broadcasting groups, else by group."""
        member = self.member(fact.group, entry.node, fact.peer)
        if member is None:
            return None
        return fact.group, fact.queue, fact.peer if member.broadcasts else ""


class EmptyPullsWait(MemberMonitor):
    """Client invariant 40: an empty queue costs one pull in 15 s."""

    name = "empty_pulls_wait"
    rule = (
        "a pull asks to be held where there is nothing new, so that an empty queue costs one pull "
        "in 15 s (client invariant 40; PullSysFlag.FLAG_SUSPEND)"
    )
    invariants = (40,)
    needs = (PullAnswered,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._empty: dict[tuple[str, Queue, str], list[EntryKey]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {**super().table(), PullAnswered: self._answered}

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        if fact.response_code != ResponseCode.PULL_NOT_FOUND:
            return
        member = self.member(fact.group, entry.node, fact.peer)
        if member is None:
            return
        known = fact.group, fact.queue, fact.peer
        since_us = entry.mono_us - EMPTY_US
        lately = [key for key in self._empty.get(known, ()) if key.mono_us > since_us]
        self._empty[known] = [*lately, key_of(entry)]
        if len(lately) >= EMPTY_ANSWERS_MAX:
            self.report_violation(
                f"{member.client} pulled {place_of(fact.queue)}, which is empty, {len(lately) + 1}"
                f" times in {(entry.mono_us - lately[0].mono_us) / 1e6:.1f} s and was not held",
                lately[0],
                entry,
                node=member.client,
            )
            self._empty[known] = []
