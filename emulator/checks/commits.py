"""A committed offset never passes what was really handed to a listener, or out of a poll.

The committed offset is the smallest unfinished one (client invariant 43); a group that dies
goes on from there, so whatever it passed and nobody had is gone.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric
from emulator.checks.folding import Table
from emulator.facts import ConsumerStarted, MessageConsumed, MessagePolled, OffsetCommitted
from emulator.journal import Entry


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
    )
    needs = (OffsetCommitted,)

    def table(self) -> Table:
        """What it reads."""
        return {OffsetCommitted: self._committed}

    def end(self) -> None:
        """Every group that is known has a number."""
        for group in self.scene.seats:
            self.adds("early_commits", 0, group)

    def why_not(self) -> str:
        """Commits alone prove nothing."""
        if not self.scene.seats:
            return f"the journal has no {ConsumerStarted.__name__}: no group is known"
        if not any(reading.given.ends for _, reading in self.progress.readings()):
            return f"the journal has no {MessageConsumed.__name__} or {MessagePolled.__name__}"
        return ""

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        reading = self.progress.readers[fact.group][fact.queue]
        given = reading.given.behind(reading.start)
        if fact.offset <= given or fact.offset <= reading.reused_to:
            return
        if not self._is_judged(fact) or not self._has(fact, given):
            return
        self.adds("early_commits", 1, fact.group)
        place = f"{fact.queue.topic}@{fact.queue.broker}:{fact.queue.queue_id}"
        self.objects(
            f"{fact.group} committed {fact.offset} of {place}, and nobody was given {given}",
            entry,
            node=reading.owner,
        )

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
