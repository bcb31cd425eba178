"""The consume queues: the positions of each queue's messages in the commit log.

An entry's index is the *queue offset*: it starts at 0, grows by one a message and is never
reused.  An entry keeps position, size and a *code*: the hash of the message's tag or, in the topic
of delayed messages, the time it is due.  ``index_code`` computes it both for a new message and
when the log is read again, so the two are always equal.
``QueueIndex`` has all queues, in memory only: scanning the log is faster than reading queue files.
Beside the log it keeps only *floors*: the next offset of a queue whose last record was dropped by
retention, and the position from which on records count in a topic that was deleted.

Upstream: ConsumeQueue, ConsumeQueueStore, DispatchRequest, CommitLog.checkMessageAndReturnSize,
CommitLog.recoverAbnormally.
"""

from __future__ import annotations

import bisect
import functools
from array import array
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rocketmq_emulator.broker.store.commit_log import LogEnd, scan
from rocketmq_emulator.disk.port import StoreDamaged
from rocketmq_emulator.protocol.flags import TRANSACTION_PREPARED
from rocketmq_emulator.protocol.messages.delay_levels import DelayLevels
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.protocol.messages.properties import DELAY, property_of
from rocketmq_emulator.protocol.messages.subscription import tag_code

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rocketmq_emulator.broker.store.commit_log import CommitLog
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.protocol.messages.records import IndexFields


# Prepared and rolled-back messages have no entry in a queue: of the four transaction types only
# these two have this bit of the sys flag.
NOT_INDEXED = TRANSACTION_PREPARED
_TAGS_FIRST = b"TAGS\x01"
_TAGS_LATER = b"\x02TAGS\x01"
_PAIR_END = b"\x02"
_TAGS_KEPT_MAX = 4096


class ConsumeQueue:
    """Entries ``min_offset`` … ``max_offset - 1`` of one queue, 20 bytes each."""

    __slots__ = (
        "codes",
        "max_offset",
        "min_offset",
        "positions",
        "queue_id",
        "sizes",
        "start_offset",
        "topic",
        "topic_bytes",
        "unconfirmed",
    )

    def __init__(self, topic: str, queue_id: int, first_offset: int = 0) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.start_offset = 0  # the first offset it ever had; a reset sets another one
        self.max_offset = first_offset  # the offset of the next entry
        self.unconfirmed = 0  # messages of the log that follow, and that nobody may read yet
        self.restart(first_offset)

    def append(self, position: int, size: int, code: int) -> None:
        """Add the entry of the next offset: the offsets of a queue have no gaps.

        Upstream: CommitLog.topicQueueTable, on 5.x QueueOffsetOperator.
        """
        self.positions.append(position)
        self.sizes.append(size)
        self.codes.append(code)
        self.max_offset += 1

    def append_record(
        self,
        position: int,
        size: int,
        properties: bytes,
        store_ms: int,
        levels: DelayLevels,
        *,
        defers: bool = False,
    ) -> int:
        """Add the entry of a record that was just stored; returns its code.

        If it *defers* that, the record only counts as one that follows.
        """
        code = index_code(self.topic, properties, store_ms, levels)
        if defers:
            self.unconfirmed += 1
        else:
            self.append(position, size, code)
        return code

    def drop_before(self, position: int) -> None:
        """Remove the entries of messages before *position*."""
        gone = bisect.bisect_left(self.positions, position)
        if gone:
            self.min_offset += gone
            del self.positions[:gone], self.sizes[:gone], self.codes[:gone]

    def cut_from(self, position: int) -> int:
        """Remove the entries of messages from *position* on; returns their number."""
        kept = bisect.bisect_left(self.positions, position)
        gone = len(self.positions) - kept
        if gone:
            self.max_offset -= gone
            del self.positions[kept:], self.sizes[kept:], self.codes[kept:]
        return gone

    @property
    def has_all_messages(self) -> bool:
        """Whether no message of the queue has expired."""
        return self.min_offset == self.start_offset

    def clear_entries(self) -> None:
        """Remove all entries; the next message keeps its offset and counts as the first one."""
        self.restart(self.max_offset)
        self.start_offset = self.max_offset

    def restart(self, offset: int) -> None:
        """Remove all entries; the next message gets *offset*."""
        self.min_offset = self.max_offset = offset
        self.positions = array("q")
        self.sizes = array("i")
        self.codes = array("q")


def index_code(topic: str, properties: bytes, store_ms: int, levels: DelayLevels) -> int:
    """The tag's hash; in the schedule topic, the time at which the message is due."""
    if topic == SCHEDULE_TOPIC:
        level = levels.clamp(_delay_level(str(properties, "utf-8", "replace")))
        if level > 0:
            return levels.deliver_ms(level, store_ms)
    # Parses bytes without a decoder, for speed: a start does this for every message of the log.
    at = properties.rfind(_TAGS_LATER)
    if at >= 0:
        start = at + len(_TAGS_LATER)
    elif properties.startswith(_TAGS_FIRST):
        start = len(_TAGS_FIRST)
    else:
        return 0
    end = properties.find(_PAIR_END, start)
    return _code_of(properties[start:end] if end >= 0 else properties[start:])


@functools.lru_cache(_TAGS_KEPT_MAX)
def _code_of(tag: bytes) -> int:
    return tag_code(str(tag, "utf-8", "replace"))


def _delay_level(properties: str) -> int:
    """The level of the DELAY property; 0 without one, or if it is not a number."""
    if DELAY not in properties:
        return 0
    try:
        return int(property_of(properties, DELAY) or 0)
    except ValueError:
        return 0


# All queues, and their floors ---------------------------------------------------------


DOCUMENT = "queueFloors.json"  # ours: upstream keeps the files of its consume queues

Key = tuple[str, int]  # topic, queue id


class RebuildResult(NamedTuple):
    """The result of a scan: messages, end of the log, reason of that end, last store time."""

    messages: int
    end_position: int
    reason: str
    store_ms: int


class QueueIndex:
    """``queues`` by topic and number; a queue is created by its first message."""

    def __init__(self, disk: Disk, levels: DelayLevels) -> None:
        self._levels = levels
        self._floors = QueueFloors(disk)
        self.queues: dict[Key, ConsumeQueue] = {}

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Every queue of a topic that has been written to."""
        return [queue for (name, _), queue in self.queues.items() if name == topic]

    def of(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; a missing one is created."""
        key = (topic, queue_id)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = ConsumeQueue(topic, queue_id)
        return queue

    def keep_floors(self, position: int) -> None:
        """Save the next offset of every queue that ``drop_before`` would empty.

        To be called before the records are removed; if it raises DiskFull, they must stay.
        """
        self._floors.set(
            {
                key: Floor(queue.max_offset)
                for key, queue in self.queues.items()
                if queue.positions and queue.positions[-1] < position
            },
            min_position=position,
        )

    def drop_before(self, position: int) -> None:
        """Remove the entries of all messages before *position*."""
        for queue in self.queues.values():
            queue.drop_before(position)

    def cut_from(self, position: int) -> int:
        """Remove the entries of all messages from *position* on; returns their number.

        Raises one of ``WRITE_ERRORS``; then nothing has changed.
        Upstream: ConsumeQueueStore.truncateDirty.
        """
        self._floors.lower_to(position)
        return sum(queue.cut_from(position) for queue in self.queues.values())

    def drop_topics(self, topics: Collection[str], end_position: int) -> None:
        """Remove the topics' queues; new topics of those names start from offset 0.

        Records before *end_position* no longer count for them.
        """
        gone = [key for key in self.queues if key[0] in topics]
        self._floors.set({key: Floor(0, end_position) for key in gone})
        for key in gone:
            del self.queues[key]

    def reset(self, kept_topics: Collection[str]) -> None:
        """Empty every queue; only those of *kept_topics* keep their next offset.

        Raises one of ``WRITE_ERRORS``; then nothing has changed.
        """
        kept = {key: queue for key, queue in self.queues.items() if key[0] in kept_topics}
        self._floors.set_all({key: Floor(queue.max_offset) for key, queue in kept.items()})
        for queue in kept.values():
            queue.clear_entries()
        self.queues = kept

    def topics(self) -> list[str]:
        """Every topic that has a queue, each once."""
        return list(dict.fromkeys(topic for topic, _ in self.queues))

    def newest_position(self) -> int | None:
        """The position of the newest entry of all queues; None if there is none."""
        return max((q.positions[-1] for q in self.queues.values() if q.positions), default=None)

    def forget_empty(self, end_position: int) -> None:
        """Remove queues whose messages have all expired: they start again from offset 0."""
        gone = [
            key
            for key, queue in self.queues.items()
            if queue.max_offset and not queue.positions and key[0] != SCHEDULE_TOPIC
        ]
        self._floors.set({key: Floor(0, end_position) for key in gone})
        for key in gone:
            del self.queues[key]

    def rebuild(self, log: CommitLog, step_bytes: int) -> Generator[int, None, RebuildResult]:
        """Build all queues from the records of *log*, up to its first bad record.

        Yields the position it has reached, after about every *step_bytes*.
        """
        since = self._restart_from_floors()
        queues: dict[tuple[bytes, int], ConsumeQueue] = {}
        messages = store_ms = 0
        step_at = log.min_position + step_bytes
        records = scan(log)
        while True:
            try:
                found = next(records)
            except LogEnd as end:
                return self._ended(messages, end.position, end.reason, store_ms)
            topic, queue_id, offset, position, size, sys_flag, store_ms, properties = found
            queue = queues.get((topic, queue_id))
            if queue is None:
                queue = self.of(str(topic, "utf-8", "replace"), queue_id)
                queues[topic, queue_id] = queue
            messages += 1
            if position >= step_at:
                yield position
                step_at = position + step_bytes
            if sys_flag & NOT_INDEXED or (since and position < since.get(queue, 0)):
                continue
            if (reason := _move_to(queue, offset)) is not None:
                return self._ended(messages - 1, position, reason, store_ms)
            code = index_code(queue.topic, properties, store_ms, self._levels)
            queue.append(position, size, code)

    def add_copied(self, fields: IndexFields) -> ConsumeQueue | None:
        """Add the entry of a record that was copied from another log; returns its queue.

        None if the record has no entry, or does not continue its queue.
        Upstream: ConsumeQueue.putMessagePositionInfoWrapper.
        """
        topic, queue_id, offset, position, size, sys_flag, store_ms, properties = fields
        if sys_flag & NOT_INDEXED:
            return None
        queue = self.of(str(topic, "utf-8", "replace"), queue_id)
        if _move_to(queue, offset) is not None:
            return None
        queue.append(position, size, index_code(queue.topic, properties, store_ms, self._levels))
        queue.unconfirmed = max(0, queue.unconfirmed - 1)
        return queue

    def count_unconfirmed(self, records: Iterable[IndexFields]) -> None:
        """Let the queues of *records*, which are in the log, know that these follow.

        Upstream: ConsumeQueueStore.recoverOffsetTable, its part for controller mode.
        """
        for queue in self.queues.values():
            queue.unconfirmed = 0
        for topic, queue_id, _, _, _, sys_flag, _, _ in records:
            if not sys_flag & NOT_INDEXED:
                self.of(str(topic, "utf-8", "replace"), queue_id).unconfirmed += 1

    def _ended(
        self, messages: int, end_position: int, reason: str, store_ms: int
    ) -> RebuildResult:
        self._floors.lower_to(end_position)
        return RebuildResult(messages, end_position, reason, store_ms)

    def _restart_from_floors(self) -> dict[ConsumeQueue, int]:
        """Start each queue that has a floor at it; returns ``since_position`` by queue."""
        since = {}
        for key, floor in self._floors.items():
            queue = self.of(*key)
            queue.restart(floor.next_offset)
            since[queue] = floor.since_position
        return since


def _move_to(queue: ConsumeQueue, offset: int) -> str | None:
    """Let *offset* be the next one of *queue*; returns a reason if it cannot be."""
    if offset != queue.max_offset:
        # Offset 0 again: a real broker's topic that was deleted and created again.
        if queue.positions and offset != 0:
            return f"offset {offset} where {queue.max_offset} comes next"
        queue.restart(offset)
    return None


class Floor(NamedTuple):
    """Offsets below ``next_offset`` were used; records before ``since_position`` do not count."""

    next_offset: int = 0
    since_position: int = 0


class QueueFloors:
    """The floors, kept in a document on *disk*."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        text = disk.read(DOCUMENT)
        try:
            rows = _decode(text) if text else []
        except msgspec.DecodeError as error:
            raise StoreDamaged(
                f"config/{DOCUMENT} cannot be read ({error}); without it, messages of deleted "
                "topics come back, and queues that have expired start from offset 0"
            ) from error
        self._floors = {(topic, queue_id): Floor(*rest) for topic, queue_id, *rest in rows}

    def items(self) -> list[tuple[tuple[str, int], Floor]]:
        """Every queue that has a floor, by topic and number."""
        return list(self._floors.items())

    def set(self, floors: dict[tuple[str, int], Floor], min_position: int = 0) -> None:
        """Set these *floors*, on disk before in memory; if it raises DiskFull, nothing changes.

        Records before *min_position* are gone; floors that only exclude such records are removed.
        """
        changed = {
            queue: floor
            for queue, floor in {**self._floors, **floors}.items()
            if floor.next_offset or floor.since_position > min_position
        }
        self.set_all(changed)

    def set_all(self, changed: dict[tuple[str, int], Floor]) -> None:
        """Replace all floors; raises as ``set`` does."""
        if changed == self._floors:
            return
        rows = [(*queue, *floor) for queue, floor in changed.items()]
        self._disk.replace(DOCUMENT, msgspec.json.encode(rows))
        self._floors = changed

    def lower_to(self, end_position: int) -> None:
        """Lower the floors after the log lost its tail: new records behind the end must count."""
        self.set(
            {
                queue: Floor(floor.next_offset, end_position)
                for queue, floor in self._floors.items()
                if floor.since_position > end_position
            }
        )


_decode = msgspec.json.Decoder(list[tuple[str, int, int, int]]).decode
