"""Who has stored, acknowledged, handed out, consumed and committed which messages.

The state that the checkers of delivery share, kept as runs of offsets: a queue whose messages
come in order takes a few numbers, however long the journal.  What grows is what is open:
holes (messages taken out of order), failed messages that wait for a retry, unflushed records,
and the times of messages that some group has not yet consumed (8 bytes each, at most
``TIMES_MAX`` a queue).

A record is a place in a queue.  Where a broker lost the end of its log the places are used
again: the progress forgets the old ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from emulator.checks.folding import Table
from emulator.checks.local_offsets import LocalOffsets
from emulator.checks.queue_records import Place, QueueReading, QueueRecords
from emulator.checks.scene import Scene
from emulator.facts import (
    ConsumerStarted,
    GroupOffsetMoved,
    LogFlushed,
    LogRecovered,
    MessageConsumed,
    MessageGivenToListener,
    MessagePolled,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    OffsetRepaired,
    PowerLost,
    PullAnswered,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SeekRequested,
)
from emulator.journal import Entry

CONSUMED = ("topic", "retry")  # places from which members pull
UNFLUSHED_MAX = 1_000_000  # records of a broker; beyond it the oldest count as flushed

Readings = dict[Queue, QueueReading]


class Progress:
    """Everything by queue; and by reader, which is a group, or ``group@node`` if broadcast."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.queues: dict[Queue, QueueRecords] = {}
        self.readers: dict[str, Readings] = {}
        self.has_sent = False
        self.passed_on: dict[str, Place] = {}  # uniq_key of what failed: where it waits
        # Of the message or offset that is being looked at: consumed, polled or committed,
        self.reading: QueueReading = QueueReading(
            "", Queue("", "", 0), 0, QueueRecords(Queue("", "", 0))
        )
        self.is_repeat = False  # it was consumed before
        self.place: Place = ""  # stored: in which kind of topic
        self.stored_us = 0  # when the last message was stored that somebody is to consume
        self._first_owners: dict[tuple[str, Queue], list[str]] = {}  # of queues not yet pulled
        self._unflushed: dict[str, deque[tuple[int, QueueRecords, int]]] = {}
        self._local = LocalOffsets(scene)

    def table(self) -> Table:
        """What it reads."""
        return {
            ConsumerStarted: self._started,
            MessageStored: self._stored,
            MessageSent: self._sent,
            MessageGivenToListener: self._given,
            MessageConsumed: self._consumed,
            MessagePolled: self._polled,
            PullAnswered: self._pulled,
            OffsetCommitted: self._committed,
            GroupOffsetMoved: self._moved,
            SeekRequested: self._sought,
            OffsetRepaired: self._repaired,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            LogFlushed: self._flushed,
            PowerLost: self._power_lost,
            LogRecovered: self._recovered,
        }

    # What checkers ask --------------------------------------------------------------------

    def records(self, queue: Queue) -> QueueRecords:
        """Of *queue*, made if need be."""
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = QueueRecords(queue)
        return found

    def reader(self, group: str, node: str) -> str:
        """Under which name *group* on *node* reads."""
        return f"{group}@{node}" if group in self._scene.broadcast else group

    def readings(self) -> Iterator[tuple[str, QueueReading]]:
        """Every reader's every queue, by name."""
        for reader in sorted(self.readers):
            for queue in sorted(self.readers[reader]):
                yield reader, self.readers[reader][queue]

    def reading_of(self, reader: str, queue: Queue, offset: int) -> QueueReading:
        """Made, if need be, as of one that begins at *offset*."""
        readings = self.readers.get(reader)
        if readings is None:
            readings = self.readers[reader] = {}
        found = readings.get(queue)
        if found is None:
            records = self.records(queue)
            found = readings[queue] = QueueReading(reader, queue, offset, records)
            owners = self._first_owners.pop((reader, queue), [""])
            found.owner = owners[-1]
            if len(owners) > 1:
                found.comes_again(offset, "another member had it")
            records.readings.append(found)
        return found

    # Messages come ------------------------------------------------------------------------

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        records = self.queues.get(fact.queue)
        if records is None:
            records = self.records(fact.queue)
        offset = fact.offset
        if offset < records.behind:
            self._cut_queue(records, offset)
        records.store(offset, entry.mono_us)
        self.place = place = records.place
        if place in CONSUMED:
            self.stored_us = entry.mono_us
        if place != "topic":
            if place == "retry":
                records.acked.add(offset)
            if fact.uniq_key in self.passed_on:
                self.passed_on[fact.uniq_key] = place
        unflushed = self._unflushed.get(entry.node)
        if unflushed is None:
            unflushed = self._unflushed[entry.node] = deque(maxlen=UNFLUSHED_MAX)
        unflushed.append((fact.position + fact.size_bytes, records, offset))

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        self.has_sent = True
        records = self.queues.get(fact.queue)
        if records is None:
            records = self.records(fact.queue)
        if fact.status != "SEND_OK":
            records.unsafe.add(fact.offset)
        if fact.offset < records.behind or not records.behind:
            records.acked.add(fact.offset)
        else:
            records.early.add(fact.offset)  # the producer's journal is ahead of the broker's

    # Messages go --------------------------------------------------------------------------

    def _given(self, fact: MessageGivenToListener, entry: Entry) -> None:
        reader = fact.group
        if reader in self._scene.broadcast:
            reader = f"{reader}@{entry.node}"
        try:
            reading = self.readers[reader][fact.queue]
        except KeyError:
            reading = self.reading_of(reader, fact.queue, fact.offset)
        reading.given.add(fact.offset)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        reader, offset = fact.group, fact.offset
        if reader in self._scene.broadcast:
            reader = f"{reader}@{entry.node}"
        try:
            reading = self.readers[reader][fact.queue]
        except KeyError:
            reading = self.reading_of(reader, fact.queue, offset)
        self.reading = reading
        reading.given.add(offset)
        if fact.ok or reader is not fact.group:  # who broadcasts drops what fails
            self.is_repeat = reading.takes(offset)
            if reading.failed:
                reading.failed.pop(offset, None)
            if fact.reconsume_times:
                self.passed_on.pop(fact.uniq_key, None)
        else:
            self.is_repeat = offset in reading.done and offset not in reading.skipped
            reading.failed[offset] = fact.uniq_key
            self.passed_on.setdefault(fact.uniq_key, "")

    def _polled(self, fact: MessagePolled, entry: Entry) -> None:
        reading = self.reading_of(self.reader(fact.group, entry.node), fact.queue, fact.offset)
        self.reading = reading
        reading.given.add(fact.offset)
        self.is_repeat = reading.takes(fact.offset)

    def _pulled(self, fact: PullAnswered, entry: Entry) -> None:
        if fact.group in self._scene.broadcast:
            return  # the broker does not say whose pull it was
        try:
            reading = self.readers[fact.group][fact.queue]
        except KeyError:
            reading = self.reading_of(fact.group, fact.queue, fact.offset)
        if fact.response_code == 0 and fact.next_offset > reading.pulled_to:
            reading.pulled_to = fact.next_offset

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        try:
            reading = self.readers[fact.group][fact.queue]
        except KeyError:
            reading = self.reading_of(fact.group, fact.queue, fact.offset)
        self.reading = reading
        reading.commits(fact.offset, entry.mono_us)

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A lite pull consumer pulls what is its share before it has claimed the queue."""
        for reading in self.readers.get(fact.group, {}).values():
            if reading.owner == entry.node:
                reading.comes_again(reading.older, "its consumer was started again")

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if fact.group in self._scene.broadcast:
            self._begin_anew(fact, entry)
            return
        for queue in fact.queues:
            readings = self.readers.get(fact.group)
            if readings is not None and queue in readings:
                readings[queue].claimed(entry.node)
            else:
                owners = self._first_owners.setdefault((fact.group, queue), [])
                if entry.node not in owners:
                    owners.append(entry.node)

    def _begin_anew(self, fact: QueuesClaimed, entry: Entry) -> None:
        """A broadcasting member begins at the end where it has lost its offset."""
        readings = self.readers.get(self.reader(fact.group, entry.node), {})
        for queue in self._local.claimed(fact, entry.node, entry.mono_us):
            if (reading := readings.get(queue)) is not None:
                behind = reading.records.behind
                reading.excuse(reading.given.behind(reading.start), behind, "began anew")
                reading.claimed(entry.node)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        if fact.group in self._scene.broadcast:
            self._local.released(fact, entry.node, entry.mono_us)

    # Offsets change otherwise ---------------------------------------------------------------

    def _moved(self, fact: GroupOffsetMoved, entry: Entry) -> None:
        self._go_to(self.reading_of(fact.group, fact.queue, fact.offset), fact.offset, "moved")

    def _sought(self, fact: SeekRequested, entry: Entry) -> None:
        reader = self.reader(fact.group, entry.node)
        self._go_to(self.reading_of(reader, fact.queue, fact.offset), fact.offset, "moved")

    def _repaired(self, fact: OffsetRepaired, entry: Entry) -> None:
        reader = self.reader(fact.group, entry.node)
        reading = self.reading_of(reader, fact.queue, fact.corrected)
        if fact.corrected > fact.asked:
            reading.excuse(fact.asked, fact.corrected, "not in the log")
        else:
            reading.comes_again(fact.corrected, "the broker did not have the wanted offset")

    def _go_to(self, reading: QueueReading, offset: int, cause: str) -> None:
        """Somebody chose where to go on: what lies between is skipped, or comes again."""
        reading.start = min(reading.start, offset)
        reading.excuse(reading.given.behind(reading.start), offset, cause)
        reading.comes_again(offset, "a tool moved the group")

    # The log loses its end, or becomes safe -------------------------------------------------

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        unflushed = self._unflushed.get(entry.node)
        while unflushed and unflushed[0][0] <= fact.position:
            unflushed.popleft()

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        promise = self._scene.stores.get(entry.node)
        is_promised = promise is not None and promise.flush_disk_type == "SYNC_FLUSH"
        self._cut_log(entry.node, fact.kept_position, is_promised=is_promised)
        self._offsets_are_older(entry.node, "a broker lost power, with newer offsets", 0)

    def _recovered(self, fact: LogRecovered, entry: Entry) -> None:
        """A process that is killed loses nothing that a store outside of it has."""
        promise = self._scene.stores.get(entry.node)
        is_promised = promise is not None and promise.outlives_process
        self._cut_log(entry.node, fact.end_position, is_promised=is_promised)
        # Offsets that a full or slow disk did not take are older than any interval says.
        offset = 0 if self._scene.had_bad_disk(entry.node) else None
        why = "a broker was started again, with older offsets"
        self._offsets_are_older(entry.node, why, offset)

    def _offsets_are_older(self, broker: str, why: str, offset: int | None = None) -> None:
        for readings in self.readers.values():
            for queue, reading in readings.items():
                if queue.broker == broker and reading.committed is not None:
                    reading.comes_again(reading.older if offset is None else offset, why)

    def _cut_log(self, broker: str, end_position: int, *, is_promised: bool) -> None:
        """What ends beyond *end_position* in the log of *broker* is gone."""
        unflushed = self._unflushed.get(broker)
        while unflushed and unflushed[-1][0] > end_position:
            _, records, offset = unflushed.pop()
            if offset in records.acked:
                if is_promised and offset not in records.unsafe:
                    records.broken.append(offset)
                else:
                    records.unflushed_lost += 1
            self._cut_queue(records, offset)

    def _cut_queue(self, records: QueueRecords, offset: int) -> None:
        """The queue ends at *offset* now; later records take the same places."""
        records.cut(offset)
        for reading in records.readings:
            reading.cut(offset)
