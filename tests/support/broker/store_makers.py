"""Parts for tests of the store: messages, small disks, and outlets that are lists."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
from rocketmq_emulator.broker.store.delays import ScheduleMessageService
from rocketmq_emulator.broker.store.put_chain import (
    PutChain,
    needs_replicas,
    set_delay_level,
    set_timer,
)
from rocketmq_emulator.broker.store.store import Store
from rocketmq_emulator.broker.store.timer_messages import TimerMessageStore
from rocketmq_emulator.disk.memory import MemoryDisk, MemorySegment
from rocketmq_emulator.disk.port import OnFlushed
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.protocol.messages.message_ids import host_bytes
from rocketmq_emulator.protocol.messages.records import StoredMessage, decode_records
from rocketmq_emulator.settings.config import BrokerConfig

HOST = host_bytes("127.0.0.1:10911")
NOW = 1_700_000_000_000
LAST_4, LAST_5 = "4.9.7", "5.3.3"


class TinyDisk(MemoryDisk):
    """Segments of a few records each, whatever size is requested."""

    def __init__(self, segment_bytes: int = 4096, bytes_max: int | None = None) -> None:
        super().__init__(bytes_max)
        self._segment_bytes = segment_bytes

    def open_segment(self, base: int, size: int) -> MemorySegment:
        return super().open_segment(base, self._segment_bytes)


class SlowDisk(MemoryDisk):
    """Flushes end when a test calls ``finish``."""

    needs_flush = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, OnFlushed]] = []
        self.flushed_to = 0
        self.flushed_documents: set[str] = set()

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        super().replace(name, data, flushed=flushed)
        if flushed:
            self.flushed_documents.add(name)

    def flush(self, upto: int, on_done: OnFlushed) -> None:
        self.asked.append((upto, on_done))

    def finish(self, result: OSError | None = None) -> None:
        """End all waiting flushes, as one."""
        asked, self.asked = self.asked, []
        upto = max(upto for upto, _ in asked)
        if result is None:
            self.flushed_to = max(upto, self.flushed_to)
        for _, on_done in asked:
            on_done(result or upto)

    def lose_power(self) -> None:
        """Of the log only what was flushed is left; documents stay: a worst case for both."""
        self.asked = []
        for base, segment in self._segments.items():
            kept = min(max(self.flushed_to - base, 0), segment.size)
            segment.view[kept:] = bytes(segment.size - kept)


class Rig:
    """A store, its facts, and the bells that it rang."""

    def __init__(self, disk: MemoryDisk | None = None, **config: Any) -> None:
        self.disk = disk or TinyDisk()
        self.config = BrokerConfig(**{"retained_bytes_max": 0, **config})
        self.facts: list[Fact] = []
        self.rung: list[tuple[Any, Any]] = []
        self.store = Store(
            self.disk,
            self.config,
            HOST,
            note=self.facts.append,
            wants=lambda _kind: True,
            ring=lambda bell, news: self.rung.append((bell, news)),
        )

        self.start_delays(NOW)

    def start_delays(self, began_ms: int) -> None:
        self.delays = ScheduleMessageService(
            self.store, self.disk, self.config, note=self.facts.append, began_ms=began_ms
        )
        self.timers = TimerMessageStore(
            self.store,
            self.disk,
            self.config,
            note=self.facts.append,
            rng=random.Random(0),
            began_ms=began_ms,
        )
        for _ in self.timers.recover_waiting():
            pass
        timed = set_timer(self.config, self.timers, self.store.check)
        aside = set_delay_level(self.store.levels, self.store.check)
        self.puts = PutChain(self.store, (timed, aside), of_batches=(timed,))
        self.puts.on_timed = self.timers.enqueue

    def put(
        self, body: bytes = b"hello", queue_id: int = 0, at_ms: int = NOW, **changes: Any
    ) -> Any:
        return self.store.put(a_message(body, queue_id=queue_id, **changes), at_ms)

    def bodies(self, queue_id: int = 0, topic: str = "orders") -> list[bytes]:
        return [message.body for message in self.messages(queue_id, topic)]

    def messages(self, queue_id: int = 0, topic: str = "orders") -> list[StoredMessage]:
        """All messages of a queue, as a consumer pulls them."""
        found: list[StoredMessage] = []
        offset = self.store.min_offset(topic, queue_id)
        while True:
            result = self.store.get(topic, queue_id, offset, 32)
            if not result.count:
                return found
            found += decode_records(b"".join(result.slices))
            offset = result.next_begin_offset

    def facts_of(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def reopened(self) -> Rig:
        """A new store on the same disk, as after a restart."""
        return Rig(self.disk, **msgspec.structs.asdict(self.config))


def refuse_for_lack_of_replicas(message: MessageToStore) -> None:
    """The ``check_replicas`` of a store whose sync-state set is too small."""
    if needs_replicas(message):
        raise PutRefused(PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH, "one replica is in sync")


def a_message(body: bytes = b"hello", properties: str = "", **changes: Any) -> MessageToStore:
    message = MessageToStore(
        topic="orders",
        queue_id=0,
        body=body,
        properties=properties,
        flag=0,
        sys_flag=0,
        born_ms=NOW,
        born_host=HOST,
    )
    return msgspec.structs.replace(message, **changes)
