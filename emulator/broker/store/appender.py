"""From drafts to records in the log: what the log can hold, when it was stored, in one piece.

Upstream: CommitLog.asyncPutMessage, DefaultMessageStore.checkMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from emulator.broker.store.commit_log import CommitLog, RecordTooLarge
from emulator.broker.store.index_entry import is_indexed
from emulator.broker.store.put_status import PutRefused, PutStatus
from emulator.disk.port import NOT_WRITTEN
from emulator.facts import StoreRefused
from emulator.releases import FIVE
from protocol.names import RETRY_GROUP_TOPIC_PREFIX
from protocol.properties import PROPERTIES_BYTES_MAX
from protocol.records import encode_record

if TYPE_CHECKING:
    from emulator.broker.store.consume_queue import ConsumeQueue
    from emulator.broker.store.draft import Draft
    from emulator.config import BrokerConfig
    from emulator.facts import Note

TOPIC_BYTES_MAX = 127  # one length byte, read as a signed one
RETRY_TOPIC_BYTES_MAX = 255  # from 5.x on
_RETRY_PREFIX = RETRY_GROUP_TOPIC_PREFIX.encode()


class Appended(msgspec.Struct):
    """Where one record lies, and what else its queue's entry is made of."""

    position: int
    size: int
    store_ms: int
    properties: bytes


class Appender:
    """Writes to *log* in the name of ``store_host``, never with a time before *last_ms*."""

    def __init__(
        self, log: CommitLog, config: BrokerConfig, store_host: bytes, note: Note, last_ms: int
    ) -> None:
        self._log = log
        self._body_bytes_max = config.message_bytes_max
        self._long_retry_topics = config.profile >= FIVE
        self.store_host = store_host
        self._note = note
        self._last_ms = last_ms
        self._is_refusing = False

    def check(self, topic: bytes, draft: Draft) -> bytes:
        """The property block as bytes, if the log can hold the message; raises PutRefused."""
        block = draft.properties.encode("utf-8", "replace")
        body_bytes = len(draft.body)
        if len(topic) > TOPIC_BYTES_MAX and not self._may_be_long(topic):
            raise PutRefused(PutStatus.MESSAGE_ILLEGAL, f"a topic of {len(topic)} bytes")
        if len(block) > PROPERTIES_BYTES_MAX:
            reason = f"properties of {len(block)} bytes"
            raise PutRefused(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason)
        if body_bytes > self._body_bytes_max:
            raise PutRefused(PutStatus.MESSAGE_ILLEGAL, f"a body of {body_bytes} bytes")
        return block

    def append(self, queue: ConsumeQueue, draft: Draft, now_ms: int) -> Appended:
        """Store one message; raises PutRefused."""
        block = self.check(queue.topic_bytes, draft)
        store_ms = self._tick(now_ms)
        offset = queue.max_offset
        position, size = self._write(
            lambda position: self._encode(queue, draft, block, store_ms, position, offset)
        )
        return Appended(position, size, store_ms, block)

    def append_all(
        self, queue: ConsumeQueue, drafts: Sequence[Draft], now_ms: int
    ) -> list[Appended]:
        """Store all, side by side, or none; raises PutRefused."""
        blocks = [self.check(queue.topic_bytes, draft) for draft in drafts]
        store_ms = self._tick(now_ms)
        places: list[Appended] = []

        def build(position: int) -> bytes:
            places.clear()
            records = []
            for offset, (draft, block) in enumerate(
                zip(drafts, blocks, strict=True), queue.max_offset
            ):
                record = self._encode(queue, draft, block, store_ms, position, offset)
                records.append(record)
                places.append(Appended(position, len(record), store_ms, block))
                position += len(record)
            return b"".join(records)

        self._write(build)
        return places

    def _write(self, build: Callable[[int], bytes]) -> tuple[int, int]:
        try:
            written = self._log.append(build)
        except RecordTooLarge as error:
            raise PutRefused(PutStatus.MESSAGE_ILLEGAL, str(error)) from error
        except NOT_WRITTEN as error:
            if not self._is_refusing:  # once, not for every sender who asks
                self._note(StoreRefused(str(error)))
            self._is_refusing = True
            raise PutRefused(PutStatus.SERVICE_NOT_AVAILABLE, str(error)) from error
        self._is_refusing = False
        return written

    def _tick(self, now_ms: int) -> int:
        """A clock may step back, the log may not: searches by time rely on its order."""
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def _encode(
        self,
        queue: ConsumeQueue,
        draft: Draft,
        block: bytes,
        store_ms: int,
        position: int,
        offset: int,
    ) -> bytes:
        return encode_record(
            queue.topic_bytes,
            draft.body,
            block,
            queue_id=queue.queue_id,
            queue_offset=offset if is_indexed(draft.sys_flag) else 0,
            position=position,
            flag=draft.flag,
            sys_flag=draft.sys_flag,
            born_ms=draft.born_ms,
            born_host=draft.born_host,
            store_ms=store_ms,
            store_host=draft.store_host or self.store_host,
            reconsume_times=draft.reconsume_times,
            prepared_offset=draft.prepared_offset,
        )

    def _may_be_long(self, topic: bytes) -> bool:
        is_retry = topic.startswith(_RETRY_PREFIX)
        return self._long_retry_topics and is_retry and len(topic) <= RETRY_TOPIC_BYTES_MAX
