"""How long messages waited: from stored to consumed, and while nobody came for them."""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.checks.quantiles import Quantiles
from emulator.checks.queue_records import QueueRecords
from emulator.facts import (
    ConsumerStarted,
    FaultBegan,
    MessageConsumed,
    MessagePolled,
    NodeKilled,
    Queue,
)
from emulator.journal import Entry

STOPPING = frozenset({"kill", "stop", "power_off", "pause"})  # faults that hand queues over


class DeliveryTimes(Checker):
    """Times of delivery.  Retries wait as they must, so only first deliveries are measured."""

    name = "waiting"
    is_measure = True
    rule = "a message is delivered soon after it was stored"
    metrics = (
        Metric("deliver_ms_p50", "ms", "the median from stored to consumed", "group", "max"),
        Metric("deliver_ms_p99", "ms", "99 of 100 messages did not take longer", "group", "max"),
        Metric("longest_deliver_ms", "ms", "the longest of them", "group", "max"),
        Metric(
            "delivery_gap_s", "s", "the longest a queue with messages got none", "group", "max"
        ),
        Metric(
            "consumer_failover_s",
            "s",
            "the longest from a fault of a queue's owner to the next message consumed of it",
            "group",
            "max",
        ),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._groups: dict[str, _Waits] = {}

    def table(self) -> Table:
        """What it reads."""
        return {
            MessageConsumed: self._consumed,
            MessagePolled: self._polled,
            FaultBegan: self._fault_began,
            NodeKilled: self._killed,
        }

    def end(self) -> None:
        """What still waits has waited until now."""
        for reader, reading in self.progress.readings():
            waits = self._groups.get(reader.partition("@")[0])
            first = reading.done.behind(reading.start)
            stored_us = reading.records.stored_us(first)
            if waits is not None and stored_us is not None and first not in reading.failed:
                last_us = waits.last_us.get(reading.records, 0)
                waits.gap_us = max(waits.gap_us, self.scene.now_us - max(stored_us, last_us))
        for group in self.scene.seats:
            waits = self._groups.get(group, _NOTHING)
            self.measures("deliver_ms_p50", waits.took.at(0.5) / 1e3, group)
            self.measures("deliver_ms_p99", waits.took.at(0.99) / 1e3, group)
            self.measures("longest_deliver_ms", waits.took.max / 1e3, group)
            self.measures("delivery_gap_s", waits.gap_us / 1e6, group)
            self.measures("consumer_failover_s", waits.failover_us / 1e6, group)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if not fact.reconsume_times:
            self._taken(fact.group, fact.queue, fact.offset, entry)

    def _polled(self, fact: MessagePolled, entry: Entry) -> None:
        self._taken(fact.group, fact.queue, fact.offset, entry)

    def _taken(self, group: str, queue: Queue, offset: int, entry: Entry) -> None:
        waits = self._groups.get(group)
        if waits is None:
            waits = self._groups[group] = _Waits()
        now_us = entry.mono_us
        records = self.progress.reading.records
        last_us = waits.last_us.get(records, 0)
        waits.last_us[records] = now_us
        stored_us = records.stored_us(offset)
        if stored_us is None or self.progress.is_repeat:
            return
        waits.took.add(now_us - stored_us)
        waited_us = now_us - max(last_us, stored_us)
        waits.gap_us = max(waits.gap_us, waited_us)
        if waits.faults and (fault_us := waits.faults.pop(queue, None)) is not None:
            waits.failover_us = max(waits.failover_us, now_us - max(fault_us, stored_us))

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        """From now on the queues of the members on these nodes wait for another owner."""
        if self.scene.all_faults[-1].word in STOPPING:
            self._hit(fact.nodes, entry.mono_us)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._hit((fact.node,), entry.mono_us)

    def _hit(self, nodes: tuple[str, ...], now_us: int) -> None:
        for reader, reading in self.progress.readings():
            if reading.owner in nodes and reader in self._groups:
                self._groups[reader].faults[reading.queue] = now_us


class _Waits:
    """Of one group."""

    def __init__(self) -> None:
        self.took = Quantiles()  # us
        self.last_us: dict[QueueRecords, int] = {}  # when one of it was consumed, last
        self.gap_us = 0
        self.faults: dict[Queue, int] = {}  # queues whose owner was hit: when
        self.failover_us = 0


_NOTHING = _Waits()
