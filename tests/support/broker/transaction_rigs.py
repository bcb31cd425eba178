"""Transactions of a store that is given the time, and what they leave after a crash."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.store.put_chain import PutChain, prepare_half, set_delay_level
from rocketmq_emulator.broker.store.transaction_checks import GROUP
from rocketmq_emulator.broker.store.transactions import TransactionalMessageService
from rocketmq_emulator.broker.tables.offsets import ConsumerOffsets
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.protocol.messages.names import (
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.messages.records import StoredMessage
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW, Rig, SlowDisk, a_message

MINUTE, HOUR = 60_000, 3_600_000
INTERVAL = {LAST_4: 60_000, LAST_5: 30_000}
BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])


class TransactionRig(Rig):
    """A store with transactions; ``asked`` has the key and the offset of each check."""

    def __init__(self, disk: Any = None, began_ms: int = NOW, **config: Any) -> None:
        self.asked: list[tuple[str, int]] = []
        self.made: list[str] = []
        self._began_ms = began_ms
        self._settings = config
        super().__init__(disk or MemoryDisk(), **config)

    def start_delays(self, began_ms: int) -> None:
        super().start_delays(began_ms)
        self.offsets = ConsumerOffsets(self.disk, self.config, now_ms=NOW)
        self.transactions = TransactionalMessageService(
            self.store,
            self.offsets,
            self.config,
            note=self.facts.append,
            wants=lambda _kind: True,
            began_ms=self._began_ms,
        )
        self.transactions.on_planned = self._set_timer
        self._timer_ms: int | None = None
        self._set_timer()
        self.transactions.ask = self._ask
        self.transactions.make_topic = lambda topic, _now_ms: self.made.append(topic)
        half = prepare_half(has_transaction_id=True)
        aside = set_delay_level(self.store.levels, self.store.check)
        self.puts = PutChain(self.store, (half, aside))
        self.puts.on_half = self.transactions.half_stored

    def _ask(self, _group: str, header: Any, _body: bytes) -> str:
        self.asked.append((header.msg_id or "", header.tran_state_table_offset))
        return "producer"

    def half(self, key: str = "K", at_ms: int = NOW, **properties: str) -> StoredMessage:
        """Store a half message; returns its record."""
        marks = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": key, **properties}
        text = properties_text(marks, trailing=True)
        message = a_message(properties=text, is_half=True, born_ms=at_ms, queue_id=3)
        put = self.puts.put(message, at_ms)
        found = self.store.message_at(put.position)
        assert found is not None
        return found

    def run(self, until_ms: int) -> None:
        """Run what is due by *until_ms*, each at its time: by a timer, as a broker does it."""
        calls = 0
        while self._timer_ms is not None and self._timer_ms <= until_ms:
            fired_ms, self._timer_ms = self._timer_ms, None
            self.transactions.run_due(fired_ms)
            self._set_timer()
            calls += 1
            assert calls < 1_000, "it is called again and again"

    def _set_timer(self) -> None:
        due_ms = self.transactions.next_due_ms()
        if due_ms is not None and (self._timer_ms is None or due_ms < self._timer_ms):
            self._timer_ms = due_ms

    def ops(self) -> list[bytes]:
        return [message.body for message in self.messages(topic=TRANS_OP_HALF_TOPIC)]

    def progress(self) -> tuple[int | None, int | None]:
        """The offsets that passes have committed: of half messages, and of ops."""
        query = self.offsets.query
        return query(GROUP, TRANS_HALF_TOPIC, 0), query(GROUP, TRANS_OP_HALF_TOPIC, 0)

    def after_crash(self, began_ms: int) -> TransactionRig:
        """A new store on the same disk: what was in memory only is lost."""
        return TransactionRig(self.disk, began_ms, **self._settings)


class PowerRig(TransactionRig):
    """Transactions on a disk that flushes when ``disk.finish`` is called."""

    disk: SlowDisk

    def __init__(self, disk: SlowDisk | None = None, began_ms: int = NOW, **config: Any) -> None:
        config = {"flush_disk_type": "SYNC_FLUSH", "store": "s", **config}
        super().__init__(disk or SlowDisk(), began_ms, **config)

    def flush(self) -> None:
        """Flush the whole log."""
        if not self.disk.asked:
            self.store.flushing.flush_due()
        self.disk.finish()

    def after_loss(self, began_ms: int) -> PowerRig:
        """Save the offsets, lose the power, and start again."""
        self.offsets.persist()
        self.disk.lose_power()
        return PowerRig(self.disk, began_ms, **self._settings)
