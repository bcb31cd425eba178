"""An orderly group gets each queue's messages in their order, one after the other.

A failed message comes again before any later one (client invariant 50); after a hand-over or an
offset that went back the order begins anew there.  Of two members that both hold a queue each
has an order of its own: that there are two is for ``locks`` and ``ownership`` to say.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared, place_of
from emulator.checks.folding import Table
from emulator.facts import ConsumerStarted, MessageConsumed, Queue, QueuesClaimed
from emulator.journal import Entry, EntryKey

BATCH_US = 1_000  # facts of one call of a listener; a retry comes after 10 ms at least


class OrderIsKept(Checker):
    """Client invariant 50."""

    name = "order"
    rule = (
        "an orderly listener gets a queue's messages one after the other; a failed one comes "
        "again before any later one (client invariant 50)"
    )
    metrics = (
        Metric("out_of_order", "messages", "consumed before an earlier one of the queue", "group"),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        # What is next, by group and queue, and by the member's node.
        self._next: dict[tuple[str, Queue], dict[str, tuple[int, EntryKey]]] = {}

    def table(self) -> Table:
        """What it reads."""
        return {MessageConsumed: self._consumed, QueuesClaimed: self._claimed}

    def end(self) -> None:
        """Every orderly group has a number."""
        for group in self.scene.orderly:
            self.adds("out_of_order", 0, group)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if fact.group not in self.scene.orderly:
            return
        self.tried += 1
        members = self._next.setdefault((fact.group, fact.queue), {})
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        expected, before = members.get(entry.node, (fact.offset, key))
        if fact.offset != expected and not self._may_come(fact, expected, before, entry):
            self.adds("out_of_order", 1, fact.group)
            place = place_of(fact.queue)
            self.objects(
                f"{fact.group} consumed offset {fact.offset} of {place} where {expected} was next",
                before,
                entry,
            )
        members[entry.node] = (self._first_open(fact, entry.node), key)

    def _first_open(self, fact: MessageConsumed, node: str) -> int:
        """Where its member goes on: at the first message that failed there, or behind this one."""
        failed_here = self.progress.reading.holds[node].again
        waiting = [
            offset
            for offset in self.progress.reading.failed
            if offset <= fact.offset
            and offset in failed_here
            # One that failed just now waits, also if an earlier copy of it was given up.
            and (not self._is_away(offset) or (offset == fact.offset and not fact.ok))
        ]
        return min(waiting, default=fact.offset + 1)

    def _may_come(
        self, fact: MessageConsumed, expected: int, before: EntryKey, entry: Entry
    ) -> bool:
        """A known cause put the reader elsewhere, or nothing that is due lies between."""
        if fact.offset < expected:
            reading = self.progress.reading
            hold = reading.holds[entry.node]
            comes_again = self.progress.is_repeat or hold.why == "older_offsets"
            return comes_again and fact.offset not in reading.unjust
        if entry.mono_us - before.mono_us < BATCH_US and entry.node == before.node:
            return True  # the rest of a batch that failed as a whole
        due = [
            each
            for start, end in self.progress.reading.done.holes(expected, fact.offset)
            for each in range(start, end)
            if not self._is_away(each) and self._is_wanted(fact, each, entry.mono_us)
        ]
        return not due

    def _is_wanted(self, fact: MessageConsumed, offset: int, now_us: int) -> bool:
        """All members that ran since it was stored take the message at *offset*."""
        records = self.progress.reading.records
        tags, since_us = records.tags_at(offset), records.stored_us(offset) or 0
        return self.scene.is_wanted(fact.group, fact.queue.topic, tags, since_us, now_us)

    def _is_away(self, offset: int) -> bool:
        """It was given up, and waits in the retry topic or as a dead letter."""
        reading = self.progress.reading
        return offset in reading.failed and self.progress.messages.chains.is_settled(
            reading, offset
        )

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        """The new owner begins at the committed offset."""
        for queue in fact.queues:
            self._next.get((fact.group, queue), {}).pop(entry.node, None)
