"""A group with a tag expression gets what it wants, and nothing else.

Brokers compare hashes of tags, clients the tags themselves: what comes to a listener has one of
the tags that its member subscribes.  (What it wants and does not get is lost: ``delivery``.)
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, place_of
from emulator.checks.folding import Table
from emulator.facts import ConsumerStarted, MessageConsumed, MessagePolled
from emulator.journal import Entry


class FiltersAreKept(Checker):
    """PullAPIWrapper.processPullResult; MessageFilter at the broker."""

    name = "filters"
    rule = "a member is given only messages with the tags that it subscribes"
    metrics = (Metric("unwanted", "messages", "whose tags the member does not take", "group"),)
    needs = (ConsumerStarted,)

    def table(self) -> Table:
        """What it reads."""
        return {MessageConsumed: self._taken, MessagePolled: self._taken}

    def end(self) -> None:
        """Every group has a number."""
        for group in self.scene.seats:
            self.adds("unwanted", 0, group)

    def _taken(self, fact: MessageConsumed | MessagePolled, entry: Entry) -> None:
        if not self.scene.has_filters:
            return
        queue = fact.queue
        if self.scene.takes_all(fact.group, queue.topic) or not self.scene.knows_tags:
            return
        seat = self.scene.seat(fact.group, entry.node)
        tags = self.progress.reading.records.tags_at(fact.offset)
        if seat is None or tags is None or queue.topic not in seat.topics:
            return
        self.tries()
        is_wanted = self.scene.wants(fact.group, queue.topic, tags) == "all"
        if not is_wanted and not seat.wants(queue.topic, tags):
            self.adds("unwanted", 1, fact.group)
            self.objects(
                f"{entry.node} was given offset {fact.offset} of {place_of(queue)} with the tags "
                f"{tags!r}, which it does not subscribe",
                *self.progress.reading.records.life_of(fact.offset)[:1],
                entry,
            )
