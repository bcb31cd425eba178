"""The commits of each member: only of pulled and finished messages, of its own queues."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from rocketmq_emulator.checks.servers.members import MemberMonitor
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    MessageSentBack,
    MessageStored,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
    Queue,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

MESSAGES_MAX = 200_000  # places remembered by position in the log; the oldest are dropped
GIVEN_AWAY_US = 30_000_000  # a member commits its own work on a queue sooner


class CommitsFollowPulls(MemberMonitor):
    """Client invariant 43, the part about pulls."""

    name = "commits_follow_pulls"
    rule = (
        "the committed offset is the smallest unfinished one, so never beyond the last pull "
        "(client invariant 43; ProcessQueue.removeMessage)"
    )
    invariants = (43,)
    needs = (OffsetCommitted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._ends: dict[tuple[str, Queue], tuple[int, EntryKey]] = {}  # the end of the last pull

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **super().table(),
            PullHeld: self._pull,
            PullAnswered: self._pull,
            OffsetCommitted: self._committed,
        }

    def forget(self, group: str) -> None:
        """Drop what was seen: a tool moved the group, or a broker lost its offsets."""
        self._ends = {k: end for k, end in self._ends.items() if group not in ("", k[0])}

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        end = fact.offset  # the group was given all before it, maybe by an earlier process
        if isinstance(fact, PullAnswered):
            end = max(end, fact.next_offset)  # smaller if the broker has lost messages
        known = fact.group, fact.queue
        if known not in self._ends or end > self._ends[known][0]:
            self._ends[known] = end, key_of(entry)

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        member = self.member(fact.group, entry.node, fact.peer)
        end, key = self._ends.get((fact.group, fact.queue), (fact.offset, None))
        if member is not None and key is not None and fact.offset > end:
            self.report_violation(
                f"{member.client} committed {fact.offset} of {place_of(fact.queue)}, but "
                f"{fact.group} was given only messages before {end}",
                key,
                entry,
                node=member.client,
            )


class _Commit(NamedTuple):
    offset: int
    key: EntryKey


class GivenBackBeforeCommitted(MemberMonitor):
    """Client invariant 43, the part about failures: first sent back, then committed."""

    name = "given_back_before_committed"
    rule = (
        "a message that failed is sent back before an offset beyond it is committed: until then "
        "it is unfinished (client invariant 43; "
        "ConsumeMessageConcurrentlyService.processConsumeResult)"
    )
    invariants = (43,)
    needs = (MessageSentBack,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._places: OrderedDict[tuple[str, int], tuple[Queue, int]] = OrderedDict()
        self._commits: dict[tuple[str, Queue, str], _Commit] = {}  # group, queue, peer

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **super().table(),
            MessageStored: self._stored,
            OffsetCommitted: self._committed,
            MessageSentBack: self._sent_back,
        }

    def forget(self, group: str) -> None:
        """Drop what was seen: a tool moved the group, or a broker lost its offsets."""
        self._commits = {k: each for k, each in self._commits.items() if group not in ("", k[0])}

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        self._places[entry.node, fact.position] = fact.queue, fact.offset
        if len(self._places) > MESSAGES_MAX:
            self._places.popitem(last=False)

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        self._commits[fact.group, fact.queue, fact.peer] = _Commit(fact.offset, key_of(entry))

    def _sent_back(self, fact: MessageSentBack, entry: Entry) -> None:
        place = self._places.get((entry.node, fact.origin_position))
        member = self.member(fact.group, entry.node, fact.peer)
        if place is None or member is None:
            return
        queue, offset = place
        commit = self._commits.get((fact.group, queue, fact.peer))
        if commit is not None and commit.offset > offset:
            self.report_violation(
                f"{member.client} committed {commit.offset} of {place_of(queue)} "
                f"{(entry.mono_us - commit.key.mono_us) / 1e6:.3f} s before it sent back the "
                f"message at {offset}: a kill in between would have lost it for the group",
                commit.key,
                entry,
                node=member.client,
            )


class OnlyOwnersCommit(MemberMonitor):
    """Client invariant 43: a member does not commit to a queue that it gave up."""

    name = "only_owners_commit"
    rule = (
        "offsets of a queue that was given up are dropped, not committed again "
        "(client invariant 43; RebalancePushImpl.removeUnnecessaryMessageQueue)"
    )
    invariants = (43,)
    needs = (OffsetCommitted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._pulls: dict[tuple[str, Queue], dict[str, EntryKey]] = {}  # by client, its last pull

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **super().table(),
            PullHeld: self._pull,
            PullAnswered: self._pull,
            OffsetCommitted: self._committed,
        }

    def forget(self, group: str) -> None:
        """Drop what was seen: a tool moved the group, or a broker lost its offsets."""
        self._pulls = {k: each for k, each in self._pulls.items() if group not in ("", k[0])}

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        """Note a pull.  A client may pull at a slave and commit at the master."""
        member = self.member(fact.group, entry.node, fact.peer)
        if member is not None:
            self._pulls.setdefault((fact.group, fact.queue), {})[member.client] = key_of(entry)

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        member = self.member(fact.group, entry.node, fact.peer)
        pulls = self._pulls.get((fact.group, fact.queue), {})
        mine = None if member is None else pulls.get(member.client)
        if member is None or mine is None or member.broadcasts:
            return
        heirs = [key for client, key in pulls.items() if client != member.client]
        heir = max(heirs, default=mine)
        if heir > mine and entry.mono_us - mine.mono_us > GIVEN_AWAY_US:
            self.report_violation(
                f"{member.client} committed {fact.offset} of {place_of(fact.queue)}, although it "
                f"pulled it last {(entry.mono_us - mine.mono_us) / 1e6:.1f} s before "
                "and another member pulls it",
                mine,
                heir,
                entry,
                node=member.client,
            )
