"""The broker's messages: one log of records, and an index of it for every queue.

Storing is synchronous: when ``put`` returns, the message is in the log and in its queue, and the
bell of its queue has been rung.  The store does not handle permissions, groups or replies.
``StoreLoading`` reads the log at a start, which may take a minute, step by step: other tasks run
between two steps, and facts report the progress.  ``EarlyDeliveries`` has, by position, by how
much a message was delivered too early because time was advanced: the delay of a retry counts from
the regular time of the delivery.

Upstream: DefaultMessageStore.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from rocketmq_emulator.broker.store.appender import (
    Appender,
    MessageToStore,
    PutRefused,
    PutResult,
    PutStatus,
)
from rocketmq_emulator.broker.store.commit_log import (
    NO_NEXT_FILE,
    CommitLog,
    file_of,
    measure_tail,
    written_end,
)
from rocketmq_emulator.broker.store.consume_queue import QueueIndex
from rocketmq_emulator.broker.store.copying import CopiedLog
from rocketmq_emulator.broker.store.flushing import Flushing
from rocketmq_emulator.broker.store.reading import (
    GetLimits,
    GetResult,
    KeySearch,
    MessageFilter,
    get_message,
    offset_by_time,
    out_of_range,
    properties_at,
    store_ms_at,
)
from rocketmq_emulator.broker.store.retention import Retention
from rocketmq_emulator.broker.tables.figures import EVENTS_MAX, BrokerFigures, PutEvent
from rocketmq_emulator.broker.tables.topics import system_topics
from rocketmq_emulator.disk.port import Space
from rocketmq_emulator.facts import (
    LogRecovered,
    LogRecovering,
    LogTailCut,
    MessageStored,
    OddFileFound,
    Queue,
)
from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_emulator.protocol.messages.properties import (
    REAL_TOPIC,
    TAGS,
    UNIQ_KEY,
    property_of,
    user_properties,
)
from rocketmq_emulator.protocol.messages.records import BadRecord, StoredMessage, decode_checked
from rocketmq_emulator.protocol.messages.subscription import java_hash
from rocketmq_emulator.settings.releases import SYSTEM_TOPICS_NOT_COUNTED

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.net.results import Ring
    from rocketmq_emulator.settings.config import BrokerConfig

IS_SLAVE = "this broker is a slave: it has only what its master sends"
HAS_NO_ROLE = "this broker has no role yet: a controller gives it one"


def _nobody(_what: object) -> None:
    """The default of ``on_confirmed`` and ``on_dropped``."""


class Store:
    """The messages on *disk*: reads those of an earlier run, and stores new ones.

    *loading* has read them; without it the constructor reads them, which may take long.
    *ring* is called for every message: ``ring((topic, queue id), (new max offset, code))``.
    ``flushing`` has the position up to which the log would survive a loss of power.
    ``on_grown`` is called after each put.  A slave's store takes no puts: ``copied`` appends
    what its master sends.  A controller may change which of both it is: ``follow``, ``lead``.
    """

    def __init__(
        self,
        disk: Disk,
        config: BrokerConfig,
        store_host: bytes,
        *,
        note: Note,
        wants: Callable[[type[Fact]], bool],
        ring: Ring,
        began_ms: int = 0,
        loading: StoreLoading | None = None,
    ) -> None:
        if loading is None:
            loading = StoreLoading(disk, config, note)
            for _ in loading.steps():
                pass
        self.levels = loading.levels
        self._config = config
        self.release = config.parsed_release
        self._note = note
        self._wants = wants
        self.ring = ring
        self._limits = _limits(config)
        self.figures = BrokerFigures(began_ms, config.cluster, _not_counted(config))
        self.early_deliveries = EarlyDeliveries()
        self._disk = disk
        self._index, self.log = loading.index, loading.log
        self.log.make_room = self._make_room
        self._retention = Retention(self.log, self._index, config, note)
        self._retention.on_dropped = self._oldest_dropped
        self._needs_flush = disk.needs_flush
        self.flushing = Flushing(disk, config, note=note, wants=wants, began_ms=began_ms)
        if self.log.segments:
            self.flushing.recovered(self.log.min_position, self.log.end_position)
        self._appender = Appender(self.log, config, store_host, note, loading.last_store_ms)
        self.refuses_because = IS_SLAVE if config.is_slave else ""  # puts; empty: it takes them
        self.copied: CopiedLog | None = None  # of a slave
        self.on_copied: Callable[[str], object] | None = None  # the topic of a copied message
        if config.is_slave:
            self.copy()
        self.check_replicas: Callable[[MessageToStore], object] | None = None  # may refuse a put
        self.on_grown: Callable[[], object] | None = None
        self.on_confirmed: Callable[[str], object] = _nobody  # late, a message of a topic
        self.on_dropped: Callable[[int], object] = _nobody  # messages before a position

    @property
    def store_host(self) -> bytes:
        """The packed address that new records carry; set once the broker listens."""
        return self._appender.store_host

    @store_host.setter
    def store_host(self, host: bytes) -> None:
        self._appender.store_host = host

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use the limits of reading and retention of *config*; other settings do not change."""
        self._config = self._retention.config = config
        self._limits = _limits(config)

    # Writing --------------------------------------------------------------------------

    def put(self, message: MessageToStore, now_ms: int) -> PutResult:
        """Store one message; if it raises PutRefused, nothing was stored."""
        if self.refuses_because:
            raise PutRefused(PutStatus.SERVICE_NOT_AVAILABLE, self.refuses_because)
        if self.check_replicas is not None:
            self.check_replicas(message)
        key = (message.topic, message.queue_id)
        queue = self._index.queues.get(key) or self._index.of(*key)
        try:
            put = self._appender.append(queue, message, now_ms)
        except PutRefused:
            self.figures.put_failures += 1
            raise
        self.figures.events.append(PutEvent(message.topic, 1, put.size, now_ms))
        if len(self.figures.events) >= EVENTS_MAX:
            self.figures.count_up()
        if self._needs_flush:
            self.flushing.wrote(self.log.end_position)
        if self.on_grown is not None:
            self.on_grown()
        if put.code is not None:
            if self._wants(MessageStored):
                self._note_stored(message, put)
            if not self._appender.defers:
                self.ring(key, (put.queue_offset + 1, put.code))
        return put

    def put_all(self, messages: Sequence[MessageToStore], now_ms: int) -> list[PutResult]:
        """Store a batch, all of one queue, next to each other in the log.

        If it raises PutRefused, no message of the batch was stored.
        """
        if self.refuses_because:
            raise PutRefused(PutStatus.SERVICE_NOT_AVAILABLE, self.refuses_because)
        if self.check_replicas is not None:
            self.check_replicas(messages[0])
        key = (messages[0].topic, messages[0].queue_id)
        puts = self._appender.append_all(self._index.of(*key), messages, now_ms)
        size = sum(put.size for put in puts)
        self.figures.events.append(PutEvent(messages[0].topic, len(puts), size, now_ms))
        if self._needs_flush:
            self.flushing.wrote(self.log.end_position, len(puts))
        if self.on_grown is not None:
            self.on_grown()
        for message, put in zip(messages, puts, strict=True):
            if self._wants(MessageStored):
                self._note_stored(message, put)
            if not self._appender.defers:
                self.ring(key, (put.queue_offset + 1, put.code))
        return puts

    def _ring_copied(self, queue: ConsumeQueue, code: int) -> None:
        """Ring the bell of *queue*, whose newest message came from the master, or is confirmed."""
        self.ring((queue.topic, queue.queue_id), (queue.max_offset, code))
        if self.on_copied is not None:
            self.on_copied(queue.topic)
        if self._appender.defers:
            self.on_confirmed(queue.topic)

    # Roles ----------------------------------------------------------------------------

    def copy(self) -> CopiedLog:
        """What appends the bytes of a master; it is made by the first call."""
        if self.copied is None:
            self.copied = CopiedLog(
                self.log, self._index, self.flushing, note=self._note, wants=self._wants
            )
            self.copied.on_readable = self._ring_copied
        return self.copied

    def follow(self, refuses_because: str = IS_SLAVE) -> None:
        """Take no puts from now on, but the bytes of a master, up to what ``confirm`` says."""
        copied = self.copy()
        if not self.refuses_because and not self._appender.defers:
            copied.restart()  # a master's puts are all in their queues
        self._appender.defers = False
        self.refuses_because = refuses_because

    def lead(self) -> None:
        """Take puts from now on, after all records of the log.  Upstream: recoverTopicQueueTable.

        The log must end with a whole message.
        """
        copied = self.copy()
        self._index.count_unconfirmed(copied.unread_records())
        self._appender.defers = copied.readable_max is not None
        self.refuses_because = ""

    def confirm(self, position: int | None) -> None:
        """Let consumers read messages up to *position*; None: all of them, and all that follow.

        Upstream: DefaultMessageStore.ReputMessageService, whose end is the confirm offset.
        """
        copied, leads = self.copy(), not self.refuses_because
        if leads and not self._appender.defers:
            copied.restart()
        copied.readable_max = position
        if position is None or self._appender.defers or not leads:
            copied.read_on()
        if leads:
            self._appender.defers = position is not None

    def truncate(self, position: int) -> int:
        """Cut the log at *position*; returns how many messages are in no queue any more.

        If it begins after *position*, all of it is removed, and it may begin anywhere again.
        Raises one of ``WRITE_ERRORS``; then nothing has changed.
        Upstream: DefaultMessageStore.truncateDirtyFiles.
        """
        gone = self._index.cut_from(position)
        if position < self.log.min_position:
            self.log.clear()
            self.log.begin_anywhere()
        else:
            self.log.cut(position)
        end = self.log.end_position
        self.copy().cut()
        self.flushing.cut(end)
        self.early_deliveries.cut(end)
        return gone

    # More writing ---------------------------------------------------------------------

    def check(self, message: MessageToStore) -> None:
        """Raises PutRefused if the log cannot hold the message."""
        self._appender.check(message.topic.encode(), message)

    def drop_topic(self, topic: str) -> None:
        """Drop the queues of a deleted topic: a new one of that name starts from offset 0.

        Raises one of ``WRITE_ERRORS``; then nothing has changed.
        """
        self._index.drop_topics({topic}, self.log.end_position)

    def drop_topics_except(self, known: Collection[str]) -> None:
        """Drop the queues of all topics that are not *known*.

        Raises one of ``WRITE_ERRORS``; then nothing has changed.
        Upstream: DefaultMessageStore.cleanUnusedTopic.
        """
        unknown = {topic for topic in self._index.topics() if topic not in known}
        self._index.drop_topics(unknown, self.log.end_position)

    def forget_empty_queues(self) -> None:
        """Remove queues whose messages have all expired: they start again from offset 0.

        Raises one of ``WRITE_ERRORS``; then nothing has changed.
        Upstream: DefaultMessageStore.cleanExpiredConsumerQueue.
        """
        self._index.forget_empty(self.log.end_position)

    def drop_expired(self, now_ms: int) -> None:
        """Drop expired segments.  Upstream checks every 10 s."""
        self._retention.drop_expired(now_ms)

    def reset(self, kept_topics: Collection[str], now_ms: int) -> None:
        """Remove all messages; only queues of *kept_topics* keep their next offset.

        Raises one of ``WRITE_ERRORS``; then nothing has changed.
        """
        self._index.reset(kept_topics)
        self.log.clear()
        if self.copied is not None:
            if self.refuses_because:
                self.log.begin_anywhere()
            self.copied.restart()
        self.early_deliveries.clear()
        self.flushing.begin_at(self.log.end_position)
        self._retention.reset()
        self._appender.reset()
        cluster = self._config.cluster
        self.figures = BrokerFigures(now_ms, cluster, _not_counted(self._config))

    def close(self) -> None:
        """Flush the log and close its segments."""
        self.flushing.finish()
        self.log.close()

    # Reading --------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        wanted: MessageFilter | None = None,
    ) -> GetResult:
        """Up to *count_max* matching messages from *offset*, or the status without messages."""
        queue = self._index.queues.get((topic, queue_id))
        nothing = out_of_range(queue, offset, self.release)
        if nothing is not None:
            return nothing
        assert queue is not None, "out_of_range handles a missing queue"
        return get_message(queue, self.log, offset, count_max, self._limits, wanted)

    def properties(self, topic: str, queue_id: int, offset: int) -> dict[str, str]:
        """The properties of a message that is in its queue."""
        queue = self._index.queues[topic, queue_id]
        return properties_at(queue, self.log, offset - queue.min_offset)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the oldest message; 0 for a queue that never had one."""
        queue = self._index.queues.get((topic, queue_id))
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the next message."""
        queue = self._index.queues.get((topic, queue_id))
        return queue.max_offset if queue is not None else 0

    def store_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """The store time of the message at *offset*; -1 if there is none."""
        queue = self._index.queues.get((topic, queue_id))
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return -1
        return store_ms_at(self.log, queue.positions[offset - queue.min_offset])

    def start_offset(self, topic: str, queue_id: int) -> int:
        """The first offset that the queue ever had: 0, or its next offset at the last reset."""
        queue = self._index.queues.get((topic, queue_id))
        return queue.start_offset if queue is not None else 0

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        """The store time of the oldest message of the queue; -1 if there is none."""
        return self.store_ms(topic, queue_id, self.min_offset(topic, queue_id))

    def offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False
    ) -> int:
        """The offset for *time_ms*, by the rule of the broker's release."""
        queue = self._index.queues.get((topic, queue_id))
        if queue is None:
            return 0
        return offset_by_time(queue, self.log, time_ms, self.release, upper=upper)

    def first_store_ms(self) -> int:
        """The store time of the oldest message of the log; -1 if there is none."""
        log = self.log
        is_empty = log.end_position == log.min_position
        return -1 if is_empty else store_ms_at(log, log.min_position)

    def space(self) -> Space:
        """The space of the disk; for a store in memory its limit (0 without a limit)."""
        if (found := self._disk.space()) is not None:
            return found
        bytes_max = self._config.retained_bytes_max
        used = self.log.end_position - self.log.min_position
        return Space(bytes_max, max(0, bytes_max - used))

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The index of one queue; None if it never had a message."""
        return self._index.queues.get((topic, queue_id))

    def record_at(self, position: int) -> memoryview | None:
        """The stored bytes of the message at *position*; None if no record begins there."""
        message = self.message_at(position)
        return None if message is None else self.log.read(position, message.size)

    def message_at(self, position: int) -> StoredMessage | None:
        """The decoded message at *position*, which a client sends; None if there is none."""
        if not self.log.min_position <= position < self.log.end_position:
            return None
        try:
            message = decode_checked(self.log.read(position, self.log.end_position - position))
        except BadRecord:
            return None
        return message if message.position == position else None

    def messages_by_topic(self) -> Iterator[tuple[str, int]]:
        """A topic and a number of messages, for every queue that has messages."""
        for (topic, _), queue in self._index.queues.items():
            if queue.positions:
                yield topic, len(queue.positions)

    def search_by_key(
        self, topic: str, key: str, count_max: int, *, begin_ms: int, end_ms: int
    ) -> KeySearch:
        """A search among the messages of *topic*; its caller runs it step by step.

        Topics with the same length and hash are searched too.
        """
        same_length = [name for name in self._index.topics() if len(name) == len(topic)]
        wanted = java_hash(topic)
        topics = [name for name in same_length if java_hash(name) == wanted]
        return KeySearch(
            lambda: [queue for name in topics for queue in self._index.of_topic(name)],
            self.log,
            (topic, key),
            count_max,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def newest(self) -> StoredMessage | None:
        """The newest message of all queues; None if there is none."""
        position = self._index.newest_position()
        return None if position is None else self.message_at(position)

    # Inside ---------------------------------------------------------------------------

    def _note_stored(self, message: MessageToStore, put: PutResult) -> None:
        queue = Queue(message.topic, self._config.name, message.queue_id)
        key = property_of(message.properties, UNIQ_KEY) or ""
        tags = property_of(message.properties, TAGS) or ""
        waits = message.topic in _OF_DELAYED
        real_topic = (waits and property_of(message.properties, REAL_TOPIC)) or ""
        given = self._config.property_filter
        named = user_properties(message.properties) if given else ()
        places = put.queue_offset, put.position
        self._note(MessageStored(queue, *places, key, put.size, tags, real_topic, named))

    def _make_room(self, coming_bytes: int) -> None:
        self._retention.make_room(coming_bytes)

    def _oldest_dropped(self, min_position: int) -> None:
        self.on_dropped(min_position)


_OF_DELAYED = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})


def _limits(config: BrokerConfig) -> GetLimits:
    return GetLimits(
        config.transfer_messages_max, config.transfer_bytes_max, config.scan_entries_max
    )


def _not_counted(config: BrokerConfig) -> frozenset[str]:
    """The topics that are not counted in the totals of days."""
    if config.parsed_release < SYSTEM_TOPICS_NOT_COUNTED:
        return frozenset()
    return frozenset(topic.topic_name or "" for topic in system_topics(config))


# Reading the log at a start -----------------------------------------------------------


T = TypeVar("T")

STEP_BYTES = 1024 * 1024  # about ten milliseconds
REPORT_BYTES = 16 * 1024 * 1024  # some tenths of a second: far below the timeout of a start


class StoreLoading:
    """The log on *disk* and its queues: complete when all ``steps`` are done.

    ``last_store_ms`` is the time of the newest message.
    """

    def __init__(self, disk: Disk, config: BrokerConfig, note: Note) -> None:
        for file, reason in disk.unexpected_files():
            note(OddFileFound(file, reason))
        self.levels = parse_delay_levels(config.delay_levels)
        self.index = QueueIndex(disk, self.levels)
        self.log = CommitLog(disk, config.segment_bytes)
        self.last_store_ms = 0
        self._note = note

    def steps(self) -> Iterator[None]:
        """Read the whole log, with a pause after about every ``STEP_BYTES``."""
        if not self.log.segments:
            return
        begin = self.log.min_position
        progress = _Progress(begin, written_end(self.log), self._note)
        found = yield from progress.reported(self.index.rebuild(self.log, STEP_BYTES))
        end = found.end_position
        lost = yield from progress.reported(measure_tail(self.log, end))
        base = max(segment.base for segment in self.log.segments if segment.base <= end)
        if found.reason == NO_NEXT_FILE:
            self._note(OddFileFound(file_of(base), found.reason))
        elif found.reason or not lost.is_torn_write:
            reason = found.reason or "a size of 0, but more follows"
            counts = (lost.message_count, lost.written_bytes)
            self._note(LogTailCut(end, reason, *counts, file_of(base), end - base))
        self.log.cut(found.end_position)
        self._note(LogRecovered(found.messages, begin, found.end_position))
        self.last_store_ms = found.store_ms


class _Progress:
    """Notes the progress of reading a log from *begin* to about *end*."""

    def __init__(self, begin: int, end: int, note: Note) -> None:
        self._begin = begin
        self._end = end
        self._note = note
        self._report_at = begin + REPORT_BYTES

    def reported(self, reading: Generator[int, None, T]) -> Generator[None, None, T]:
        """Returns the result of *reading*, with its pauses; notes the positions it yields."""
        while True:
            try:
                position = next(reading)
            except StopIteration as ended:
                result: T = ended.value
                return result
            if position >= self._report_at:
                self._report_at = position + REPORT_BYTES
                total_bytes = max(self._end, position) - self._begin
                self._note(LogRecovering(position - self._begin, total_bytes))
            yield


# Messages delivered early, because time was advanced ----------------------------------


EARLY_DELIVERIES_MAX = (
    100_000  # the oldest entries are removed: such a message, sent back, waits its whole delay
)


class EarlyDeliveries:
    """By how many ms messages were delivered early, by position in the log."""

    def __init__(self) -> None:
        self._ms: dict[int, int] = {}
        self._advanced_ms = 0  # in all

    def advance(self, ms: int) -> None:
        """Count *ms* by which time was advanced."""
        self._advanced_ms += ms

    def give(self, position: int, ms: int) -> None:
        """Set that the message at *position* was delivered *ms* early; 0: it was not early."""
        if ms > 0:
            self._ms[position] = ms - self._advanced_ms
            if len(self._ms) > EARLY_DELIVERIES_MAX:
                del self._ms[next(iter(self._ms))]

    def of(self, position: int) -> int:
        """By how many ms the message at *position* was delivered early; 0 if it was not."""
        found_ms = self._ms.get(position)
        return 0 if found_ms is None else found_ms + self._advanced_ms

    def cut(self, position: int) -> None:
        """Forget those of messages from *position* on, whose places others get."""
        self._ms = {at: ms for at, ms in self._ms.items() if at < position}

    def clear(self) -> None:
        """Forget all early deliveries."""
        self._ms.clear()
