"""Appending: turns messages into records of the log and entries of their queue.

Refuses messages that the log cannot hold, sets the store time of each record, and stores either
all messages of a batch or none.

Upstream: MessageExtBrokerInner, PutMessageStatus, CommitLog.asyncPutMessage,
DefaultMessageStore.checkMessage.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.broker.store.commit_log import CommitLog, RecordTooLarge
from rocketmq_emulator.broker.store.consume_queue import NOT_INDEXED
from rocketmq_emulator.disk.port import WRITE_ERRORS, is_out_of_files, reason, refusal
from rocketmq_emulator.protocol.error_families import RefusedByServer
from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.messages.properties import PROPERTIES_BYTES_MAX
from rocketmq_emulator.protocol.messages.records import encode_record
from rocketmq_emulator.protocol.messages.validation import (
    STORED_TOPIC_BYTES_MAX,
    log_refuses_topic,
)
from rocketmq_emulator.settings.releases import RETRY_TOPICS_MAY_BE_LONG

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.protocol.messages.records import StoredMessage
    from rocketmq_emulator.settings.config import BrokerConfig

CANNOT_APPEND = (RecordTooLarge, *WRITE_ERRORS)


class MessageToStore(msgspec.Struct, gc=False):
    """A message before it is stored: all its fields except its position in the log."""

    topic: str
    queue_id: int
    body: bytes
    properties: str
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes  # packed ip and port
    reconsume_times: int = 0
    prepared_offset: int = 0
    store_host: bytes | None = None  # packed; None: this broker's
    retries_max: int | None = None  # of a retry: with more reconsume times it is a dead letter
    is_half: bool = False  # it waits for the outcome of its transaction
    never_waits: bool = False  # for a flush or for slaves, whatever its WAIT property says


def stored_again(
    message: StoredMessage, topic: str, queue_id: int, properties: str, *, never_waits: bool = True
) -> MessageToStore:
    """A waiting message as it is stored again: delivered, committed, or to wait longer.

    The broker itself does that and waits for nobody: too few slaves do not refuse it.  Only a
    committed message has its own WAIT property: upstream sets it before it takes the properties.

    Upstream: ScheduleMessageService.messageTimeUp, TimerMessageStore.convertMessage,
    TransactionalMessageBridge.renewHalfMessageInner; endMessageTransaction of the
    EndTransactionProcessor.
    """
    return MessageToStore(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=properties,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_ms=message.born_ms,
        born_host=message.born_host,
        reconsume_times=message.reconsume_times,
        store_host=message.store_host,
        never_waits=never_waits,
    )


class PutStatus(enum.Enum):
    """Why a message was not stored.  Upstream: PutMessageStatus, the statuses without a record."""

    SERVICE_NOT_AVAILABLE = enum.auto()
    MESSAGE_ILLEGAL = enum.auto()
    PROPERTIES_SIZE_EXCEEDED = enum.auto()
    CREATE_MAPPED_FILE_FAILED = enum.auto()
    OS_PAGE_CACHE_BUSY = enum.auto()
    WHEEL_TIMER_MSG_ILLEGAL = enum.auto()
    WHEEL_TIMER_FLOW_CONTROL = enum.auto()
    WHEEL_TIMER_NOT_ENABLE = enum.auto()
    IN_SYNC_REPLICAS_NOT_ENOUGH = enum.auto()


# The same message may be stored later: the disk was full, the process had no file left, or slaves
# were missing.
MAY_BE_STORED_LATER = (
    PutStatus.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED,
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH,
)


class PutRefused(RefusedByServer):
    """The message was not stored, and nothing else has changed."""

    def __init__(self, status: PutStatus, reason: str) -> None:
        super().__init__(f"{status.name}: {reason}")
        self.status = status
        self.reason = reason


class PutResult(msgspec.Struct, gc=False):
    """The place of a stored message in the log and in its queue."""

    position: int
    size: int
    queue_offset: int = 0
    code: int | None = None  # of its entry in the queue; None: it has no entry
    timer_text: str = ""  # its properties in the timer topic


class Appender:
    """Appends to *log*; records carry ``store_host``, and no store time is before *last_ms*."""

    def __init__(
        self, log: CommitLog, config: BrokerConfig, store_host: bytes, note: Note, last_ms: int
    ) -> None:
        self._log = log
        self._body_bytes_max = config.message_bytes_max
        self._long_retry_topics = config.parsed_release >= RETRY_TOPICS_MAY_BE_LONG
        self.store_host = store_host
        self._note = note
        self._last_ms = last_ms
        self._levels = parse_delay_levels(config.delay_levels)
        self._is_write_failing = False
        self.defers = False  # entries are added when the records are confirmed, not here

    def reset(self) -> None:
        """Start again with an empty log: store times may be earlier than before."""
        self._last_ms = 0
        self._is_write_failing = False

    def check(self, topic: bytes, message: MessageToStore) -> bytes:
        """The property block as bytes, if the log can hold the message; raises PutRefused."""
        block = message.properties.encode("utf-8", "replace")
        body_bytes = len(message.body)
        if len(topic) > STORED_TOPIC_BYTES_MAX:
            refusal = log_refuses_topic(topic, long_retry_topics=self._long_retry_topics)
            if refusal is not None:
                raise PutRefused(PutStatus.MESSAGE_ILLEGAL, refusal)
        if len(block) > PROPERTIES_BYTES_MAX:
            reason = f"properties of {len(block)} bytes"
            raise PutRefused(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason)
        if body_bytes > self._body_bytes_max:
            raise PutRefused(PutStatus.MESSAGE_ILLEGAL, f"a body of {body_bytes} bytes")
        return block

    def append(self, queue: ConsumeQueue, message: MessageToStore, now_ms: int) -> PutResult:
        """Store one message, in the log and in *queue*; raises PutRefused."""
        block = self.check(queue.topic_bytes, message)
        store_ms = self._tick(now_ms)
        log, offset = self._log, queue.max_offset + queue.unconfirmed
        try:
            while True:
                position = log.end_position
                record = self._encode(queue, message, block, store_ms, position, offset)
                if log.append(record):
                    break
        except CANNOT_APPEND as error:
            raise self._refused(error) from error
        self._is_write_failing = False
        size = len(record)
        if message.sys_flag & NOT_INDEXED:
            return PutResult(position, size)
        levels, defers = self._levels, self.defers
        code = queue.append_record(position, size, block, store_ms, levels, defers=defers)
        return PutResult(position, size, offset, code)

    def append_all(
        self, queue: ConsumeQueue, messages: Sequence[MessageToStore], now_ms: int
    ) -> list[PutResult]:
        """Store all messages of a batch next to each other, or none; raises PutRefused."""
        blocks = [self.check(queue.topic_bytes, message) for message in messages]
        store_ms = self._tick(now_ms)
        log = self._log
        try:
            while True:
                position = log.end_position
                offset = queue.max_offset + queue.unconfirmed
                puts, records = [], []
                for message, block in zip(messages, blocks, strict=True):
                    record = self._encode(queue, message, block, store_ms, position, offset)
                    records.append(record)
                    puts.append(PutResult(position, len(record), offset))
                    position += len(record)
                    offset += 1
                if log.append(b"".join(records)):
                    break
        except CANNOT_APPEND as error:
            raise self._refused(error) from error
        self._is_write_failing = False
        for put, block in zip(puts, blocks, strict=True):
            put.code = queue.append_record(
                put.position, put.size, block, store_ms, self._levels, defers=self.defers
            )
        return puts

    def _refused(self, error: Exception) -> PutRefused:
        if isinstance(error, RecordTooLarge):
            return PutRefused(PutStatus.MESSAGE_ILLEGAL, str(error))
        if not self._is_write_failing:  # note the first failure only, not one for each send
            self._note(refusal(error))
        self._is_write_failing = True
        if is_out_of_files(error):
            return PutRefused(PutStatus.CREATE_MAPPED_FILE_FAILED, reason(error))
        return PutRefused(PutStatus.SERVICE_NOT_AVAILABLE, str(error))

    def _tick(self, now_ms: int) -> int:
        """The store time: never earlier than the last one, because searches by time need that."""
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def _encode(
        self,
        queue: ConsumeQueue,
        message: MessageToStore,
        block: bytes,
        store_ms: int,
        position: int,
        offset: int,
    ) -> bytes:
        return encode_record(
            queue.topic_bytes,
            message.body,
            block,
            queue_id=queue.queue_id,
            queue_offset=0 if message.sys_flag & NOT_INDEXED else offset,
            position=position,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_ms=message.born_ms,
            born_host=message.born_host,
            store_ms=store_ms,
            store_host=message.store_host or self.store_host,
            reconsume_times=message.reconsume_times,
            prepared_offset=message.prepared_offset,
        )
