"""A committed offset never passes what was really handed to a listener, or out of a poll.

The committed offset is the smallest unfinished one (client invariant 43); a group that dies
goes on from there, so whatever it passed and nobody had is gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.checks.checker import Checker, Metric, Shared, place_of
from emulator.checks.folding import Table
from emulator.facts import (
    ConsumerStarted,
    MemberJoined,
    MessageConsumed,
    MessagePolled,
    OffsetCommitted,
    Queue,
    QueuesClaimed,
    QueuesReleased,
)
from emulator.journal import Entry, EntryKey

NOBODY: Mapping[str, EntryKey] = {}
RELEASED_US = 10_000_000  # what was on its way when a queue was released has come by then


class CommitsFollowDelivery(Checker):
    """Client invariant 43, and S13."""

    name = "commits"
    rule = (
        "the committed offset never passes a message that nobody was given (client invariant 43)"
    )
    metrics = (
        Metric(
            "early_commits", "commits", "that passed a message which nobody was given", "group"
        ),
        Metric("late_commits", "commits", "by a member that gave the queue away before", "group"),
    )
    needs = (OffsetCommitted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._clients: dict[tuple[str, str, str], str] = {}  # by broker, group and peer
        # What each client of a group released, by queue.
        self._released: dict[str, dict[Queue, dict[str, EntryKey]]] = {}

    def table(self) -> Table:
        """What it reads."""
        return {
            OffsetCommitted: self._committed,
            MemberJoined: self._joined,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._gave_away,
        }

    def end(self) -> None:
        """Every group that is known has a number."""
        for group in self.scene.seats:
            self.adds("early_commits", 0, group)
            self.adds("late_commits", 0, group)

    def why_not(self) -> str:
        """Commits alone prove nothing."""
        if not self.scene.seats:
            return f"the journal has no {ConsumerStarted.__name__}: no group is known"
        if not any(reading.given.ends for _, reading in self.progress.readings()):
            return f"the journal has no {MessageConsumed.__name__} or {MessagePolled.__name__}"
        return ""

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        if (all_released := self._released.get(fact.group)) is not None:
            self._look_for_late(fact, all_released.get(fact.queue, NOBODY), entry)
        reading = self.progress.reading
        # What stands in places that the group was beyond, when they were used again, is hidden.
        given = reading.given.behind(max(reading.start, reading.reused_to))
        if fact.offset <= max(given, reading.reused_to):
            return
        if not self._is_judged(fact) or not self._has(fact, given):
            return
        self.adds("early_commits", 1, fact.group)
        place = place_of(fact.queue)
        self.objects(
            f"{fact.group} committed {fact.offset} of {place}, and nobody was given {given}",
            entry,
            node=reading.owner,
        )

    def _look_for_late(
        self, fact: OffsetCommitted, released: Mapping[str, EntryKey], entry: Entry
    ) -> None:
        if not released:
            return
        client = self._clients.get((entry.node, fact.group, fact.peer), "")
        key = released.get(client)
        if key is None or self.scene.is_disturbed_since(key.mono_us):
            return  # a stalled link delivers late
        if entry.mono_us - key.mono_us > RELEASED_US:
            self.adds("late_commits", 1, fact.group)
            self.objects(
                f"{client} commits {fact.offset} of {place_of(fact.queue)}, which it gave away "
                f"{(entry.mono_us - key.mono_us) // 1_000_000} s before",
                key,
                entry,
                node=key.node,
                rule="a member commits nothing of queues it gave away (client invariant 56)",
            )

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._clients[entry.node, fact.group, fact.peer] = fact.client

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        seat = self.scene.seat(fact.group, entry.node)
        for queue in fact.queues:
            released = self._released.get(fact.group, {}).get(queue)
            if seat is not None and released is not None:
                released.pop(seat.started.client, None)

    def _gave_away(self, fact: QueuesReleased, entry: Entry) -> None:
        seat = self.scene.seat(fact.group, entry.node)
        if seat is None or seat.started.consumer_kind == "pull":
            return  # the application of a pull consumer commits as it likes
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        released = self._released.setdefault(fact.group, {})
        for queue in fact.queues:
            released.setdefault(queue, {})[seat.started.client] = key

    def _is_judged(self, fact: OffsetCommitted) -> bool:
        """Filters pass over messages, and pull consumers' applications commit as they like."""
        kinds = self.scene.kinds(fact.group)
        if not kinds or "pull" in kinds:
            return False
        if "lite_pull" in kinds and not self._polls_are_known(fact.group):
            return False
        return self.scene.takes_all(fact.group, fact.queue)

    def _has(self, fact: OffsetCommitted, offset: int) -> bool:
        """The journal saw that message stored, so that somebody could be given it."""
        records = self.progress.records(fact.queue)
        first = records.first
        return first is not None and first <= offset < records.behind

    def _polls_are_known(self, group: str) -> bool:
        readings = self.progress.readers.get(group, {})
        return any(reading.given.ends for reading in readings.values())
