"""The broker's messages: one log of records, and an index of it for every queue.

Storing is synchronous: when ``put`` returns, the message is in the log and in its queue, and
the bell of its queue has been rung.  The store knows nothing of permissions, groups or
replies; it refuses only what the log cannot hold.

Upstream: DefaultMessageStore.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from emulator.broker.store.appender import Appender, MessageToStore, PutRefused, PutResult
from emulator.broker.store.flushing import Flushing
from emulator.broker.store.head_starts import HeadStarts
from emulator.broker.store.key_search import KeySearch
from emulator.broker.store.loading import StoreLoading
from emulator.broker.store.reading import (
    GetLimits,
    GetResult,
    Matches,
    get_message,
    offset_by_time,
    out_of_range,
    store_ms_at,
)
from emulator.broker.store.retention import Retention
from emulator.broker.tables.figures import EVENTS_MAX, BrokerFigures, Stored
from emulator.broker.tables.topics import system_topics
from emulator.disk.port import Space
from emulator.facts import MessageStored, Queue
from emulator.releases import SYSTEM_TOPICS_NOT_COUNTED
from protocol.properties import TAGS, UNIQ_KEY, property_of
from protocol.records import StoredMessage, check_record, decode_record

if TYPE_CHECKING:
    from emulator.broker.store.consume_queue import ConsumeQueue
    from emulator.config import BrokerConfig
    from emulator.disk.port import Disk
    from emulator.facts import Fact, Note
    from emulator.net.results import Ring


class Store:
    """The messages on *disk*, as they were left there, and those to come.

    *loading* has read them; without it that is done here, however long it takes.
    *ring* is called for every message: ``ring((topic, queue id), (new max offset, code))``.
    ``flushing`` knows how much of it would survive a loss of power.
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
        self.release = config.profile
        self._note = note
        self._wants = wants
        self.ring = ring
        self._limits = _limits(config)
        self.figures = BrokerFigures(began_ms, config.cluster, _not_counted(config))
        self.head_starts = HeadStarts()
        self._disk = disk
        self._index, self.log = loading.index, loading.log
        self.log.make_room = self._make_room
        self._retention = Retention(self.log, self._index, config, note)
        self._needs_flush = disk.needs_flush
        self.flushing = Flushing(disk, config, note=note, wants=wants, began_ms=began_ms)
        if self.log.segments:
            self.flushing.recovered(self.log.min_position, self.log.end_position)
        self._appender = Appender(self.log, config, store_host, note, loading.last_store_ms)

    @property
    def store_host(self) -> bytes:
        """The packed address that new records carry; it may be known only once we listen."""
        return self._appender.store_host

    @store_host.setter
    def store_host(self, host: bytes) -> None:
        self._appender.store_host = host

    def reconfigure(self, config: BrokerConfig) -> None:
        """Give out as much, and keep it as long, as *config* says; the rest stays as it began."""
        self._config = self._retention.config = config
        self._limits = _limits(config)

    # Writing --------------------------------------------------------------------------

    def put(self, message: MessageToStore, now_ms: int) -> PutResult:
        """Store one message; raises PutRefused, and then nothing was stored."""
        key = (message.topic, message.queue_id)
        queue = self._index.queues.get(key) or self._index.of(*key)
        try:
            put = self._appender.append(queue, message, now_ms)
        except PutRefused:
            self.figures.put_failures += 1
            raise
        self.figures.events.append(Stored(message.topic, 1, put.size, now_ms))
        if len(self.figures.events) >= EVENTS_MAX:
            self.figures.count_up()
        if self._needs_flush:
            self.flushing.wrote(self.log.end_position)
        if put.code is not None:
            if self._wants(MessageStored):
                self._note_stored(message, put)
            self.ring(key, (put.queue_offset + 1, put.code))
        return put

    def put_all(self, messages: Sequence[MessageToStore], now_ms: int) -> list[PutResult]:
        """Store a batch, all of one queue, side by side in the log; raises PutRefused.

        None of it is stored then.
        """
        key = (messages[0].topic, messages[0].queue_id)
        puts = self._appender.append_all(self._index.of(*key), messages, now_ms)
        size = sum(put.size for put in puts)
        self.figures.events.append(Stored(messages[0].topic, len(puts), size, now_ms))
        if self._needs_flush:
            self.flushing.wrote(self.log.end_position, len(puts))
        for message, put in zip(messages, puts, strict=True):
            if self._wants(MessageStored):
                self._note_stored(message, put)
            self.ring(key, (put.queue_offset + 1, put.code))
        return puts

    def check(self, message: MessageToStore) -> None:
        """Could the log hold it?  Raises PutRefused."""
        self._appender.check(message.topic.encode(), message)

    def drop_topic(self, topic: str) -> None:
        """The topic is deleted: a successor of that name starts from offset 0.

        Raises what a disk without room raises, and then all is as it was.
        """
        self._index.drop_topics({topic}, self.log.end_position)

    def drop_topics_except(self, known: Collection[str]) -> None:
        """Drop the queues of all topics but these.

        Raises what a disk without room raises, and then all is as it was.
        Upstream: DefaultMessageStore.cleanUnusedTopic.
        """
        unknown = {topic for topic in self._index.topics() if topic not in known}
        self._index.drop_topics(unknown, self.log.end_position)

    def forget_empty_queues(self) -> None:
        """Queues all of whose messages have expired start again from offset 0.

        Raises what a disk without room raises, and then all is as it was.
        Upstream: DefaultMessageStore.cleanExpiredConsumerQueue.
        """
        self._index.forget_empty(self.log.end_position)

    def drop_expired(self, now_ms: int) -> None:
        """Drop what has grown too old.  Upstream looks every 10 s."""
        self._retention.drop_expired(now_ms)

    def reset(self, kept_topics: Collection[str], now_ms: int) -> None:
        """No message is left; only queues of *kept_topics* go on counting.

        Raises what a disk without room raises, and then all is as it was.
        """
        self._index.reset(kept_topics)
        self.log.clear()
        self.head_starts.clear()
        self.flushing.begin_at(self.log.end_position)
        self._retention.reset()
        self._appender.reset()
        cluster = self._config.cluster
        self.figures = BrokerFigures(now_ms, cluster, _not_counted(self._config))

    def close(self) -> None:
        """Flush what is left and close the segments; what was stored stays."""
        self.flushing.finish()
        self.log.close()

    # Reading --------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        matches: Matches | None = None,
    ) -> GetResult:
        """Up to *count_max* messages from *offset* that *matches*, or why there are none."""
        queue = self._index.queues.get((topic, queue_id))
        nothing = out_of_range(queue, offset, self.release)
        if nothing is not None:
            return nothing
        assert queue is not None, "no queue has no offsets in range"
        return get_message(queue, self.log, offset, count_max, self._limits, matches)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the oldest message there is; 0 for a queue that was never written to."""
        queue = self._index.queues.get((topic, queue_id))
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset the next message gets."""
        queue = self._index.queues.get((topic, queue_id))
        return queue.max_offset if queue is not None else 0

    def store_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at *offset* was stored; -1 if it is not there."""
        queue = self._index.queues.get((topic, queue_id))
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return -1
        return store_ms_at(self.log, queue.positions[offset - queue.min_offset])

    def begun_at(self, topic: str, queue_id: int) -> int:
        """The first offset that the queue ever had: 0, or where it stood at the last reset."""
        queue = self._index.queues.get((topic, queue_id))
        return queue.began_at if queue is not None else 0

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        """When the oldest message of the queue was stored; -1 if there is none."""
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
        """When the oldest message of the log was stored; -1 if there is none."""
        log = self.log
        is_empty = log.end_position == log.min_position
        return -1 if is_empty else store_ms_at(log, log.min_position)

    def space(self) -> Space:
        """Of the disk; in memory, of what may be kept there (nothing, if that has no limit)."""
        if (found := self._disk.space()) is not None:
            return found
        bytes_max = self._config.retained_bytes_max
        used = self.log.end_position - self.log.min_position
        return Space(bytes_max, max(0, bytes_max - used))

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The index of one queue, if it was ever written to."""
        return self._index.queues.get((topic, queue_id))

    def record_at(self, position: int) -> memoryview | None:
        """The stored bytes of the message at *position*, if a record begins there."""
        if not self.log.min_position <= position < self.log.end_position:
            return None
        rest = self.log.read(position, self.log.end_position - position)
        size = check_record(rest, 0, len(rest))
        if isinstance(size, str) or size == 0 or decode_record(rest).position != position:
            return None
        return rest[:size]

    def message_at(self, position: int) -> StoredMessage | None:
        """The same, taken apart.  Positions come from clients, who may guess."""
        record = self.record_at(position)
        return decode_record(record) if record is not None else None

    def messages_by_topic(self) -> Iterator[tuple[str, int]]:
        """A topic and its messages in the log, for every queue that has some."""
        for (topic, _), queue in self._index.queues.items():
            if queue.positions:
                yield topic, len(queue.positions)

    def search_by_key(
        self, topic: str, key: str, count_max: int, *, begin_ms: int, end_ms: int
    ) -> KeySearch:
        """A search among the messages of *topic*, which its caller runs step by step."""
        return KeySearch(
            lambda: self._index.of_topic(topic),
            self.log,
            key,
            count_max,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def newest(self) -> StoredMessage | None:
        """The message that was stored last, of all queues."""
        position = self._index.newest_position()
        return None if position is None else self.message_at(position)

    # Inside ---------------------------------------------------------------------------

    def _note_stored(self, message: MessageToStore, put: PutResult) -> None:
        queue = Queue(message.topic, self._config.name, message.queue_id)
        key = property_of(message.properties, UNIQ_KEY) or ""
        tags = property_of(message.properties, TAGS) or ""
        self._note(MessageStored(queue, put.queue_offset, put.position, key, put.size, tags))

    def _make_room(self, coming_bytes: int) -> None:
        self._retention.make_room(coming_bytes)


def _limits(config: BrokerConfig) -> GetLimits:
    return GetLimits(
        config.transfer_messages_max, config.transfer_bytes_max, config.scan_entries_max
    )


def _not_counted(config: BrokerConfig) -> frozenset[str]:
    """The topics that have no part in the totals of days."""
    if config.profile < SYSTEM_TOPICS_NOT_COUNTED:
        return frozenset()
    return frozenset(topic.topic_name or "" for topic in system_topics(config))
