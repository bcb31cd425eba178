"""Measures of sends and deliveries: counts and times, no violations.

Sends: how many failed, were retried, or may be stored, and how long they took.  Deliveries: the
time from stored to consumed, and the time in which no member consumed; only of first deliveries,
as retries are delayed on purpose.  Times without consumption before the end of a group's start-up
(``StartUps``) are measured apart.

Quantiles of many durations are kept in a few hundred buckets, each at most 1.6 % off.  Values are
counted exactly until there are too many different ones; most repeat.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.queue_records import QueueReading, QueueRecords
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ConsumerStarted,
    FaultBegan,
    HalfMessageSent,
    MessageConsumed,
    MessagePolled,
    MessageSent,
    NodeKilled,
    Queue,
    SendAttempted,
    SendFailed,
)
from rocketmq_emulator.facts.journal import Entry

# Quantiles ----------------------------------------------------------------------------


EXACT_BITS = 6  # each value below 128 has its own bucket
VALUES_MAX = 4_096  # different ones, before they are put into buckets


class Quantiles:
    """Quantiles of integers >= 0, in bounded memory."""

    __slots__ = ("_buckets", "_largest", "_values")

    def __init__(self) -> None:
        self._values: dict[int, int] = {}  # value: count, not yet in buckets
        self._buckets: dict[int, int] = {}
        self._largest = 0

    def add(self, value: int) -> None:
        """Add *value*, an integer >= 0."""
        values = self._values
        values[value] = values.get(value, 0) + 1
        if len(values) > VALUES_MAX:
            self._fill_buckets()

    @property
    def max(self) -> int:
        """The largest value; 0 if none."""
        return max(self._largest, *self._values, 0)

    def at(self, share: float) -> float:
        """The smallest value such that at least *share* of the values are not above; 0 if none."""
        self._fill_buckets()
        left = share * sum(self._buckets.values())
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return float(bucket)
        return float(self._largest)

    def _fill_buckets(self) -> None:
        self._largest = self.max
        for value, count in self._values.items():
            bucket = max(value, 0)
            if (shift := bucket.bit_length() - EXACT_BITS - 1) > 0:
                bucket = bucket >> shift << shift
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._values.clear()


# Sends --------------------------------------------------------------------------------


ATTEMPTS_MAX = 3  # of a synchronous send: retryTimesWhenSendFailed + 1


class Sends(Checker):
    """How many sends failed, were retried or may be stored, and how long they took.

    A measure.
    """

    name = "sends"
    is_measure = True
    rule = "a send ends with an answer or an error"
    metrics = (
        Metric("sends", "messages", "whose send was acknowledged", "topic"),
        Metric("failed_sends", "messages", "whose send raised an error", "topic"),
        Metric("maybe_stored", "messages", "whose send failed without an answer", "topic"),
        Metric("retried_sends", "messages", "acknowledged after more than one attempt", "topic"),
        Metric("unsafe_sends", "messages", "acknowledged with less than SEND_OK", "topic"),
        Metric("send_ms_mean", "ms", "the mean time of an acknowledged send", "topic", "max"),
        Metric("send_ms_p50", "ms", "the median time of an acknowledged send", "topic", "max"),
        Metric("send_ms_p99", "ms", "99 of 100 acknowledged sends took no longer", "topic", "max"),
        Metric("longest_send_ms", "ms", "the longest acknowledged send", "topic", "max"),
    )
    needs = (MessageSent, SendFailed, SendAttempted)
    needs_whole = False

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._topics: dict[str, _Count] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageSent: self._sent,
            HalfMessageSent: self._sent,
            SendFailed: self._failed,
        }

    def _sent(self, fact: MessageSent | HalfMessageSent, entry: Entry) -> None:
        try:
            count = self._topics[fact.topic]
        except KeyError:
            count = self._of(fact.topic)
        count.sent += 1
        count.took.add(fact.took_ms)
        count.took_ms += fact.took_ms
        if fact.attempts > 1:
            count.retried += 1
        if fact.status != "SEND_OK":
            count.unsafe += 1

    def _failed(self, fact: SendFailed, entry: Entry) -> None:
        count = self._of(fact.topic)
        count.failed += 1
        count.maybe_stored += fact.maybe_stored

    def end(self) -> None:
        """Set the metrics of each topic; 0 for a run without sends."""
        for topic, count in self._topics.items():
            self.set_metric("sends", count.sent, topic)
            self.set_metric("failed_sends", count.failed, topic)
            self.set_metric("maybe_stored", count.maybe_stored, topic)
            self.set_metric("retried_sends", count.retried, topic)
            self.set_metric("unsafe_sends", count.unsafe, topic)
            self.set_metric("send_ms_mean", count.took_ms / max(1, count.sent), topic)
            self.set_metric("send_ms_p50", count.took.at(0.5), topic)
            self.set_metric("send_ms_p99", count.took.at(0.99), topic)
            self.set_metric("longest_send_ms", count.took.max, topic)

    def _of(self, topic: str) -> _Count:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Count()
        return found


class _Count:
    """The sends of one topic."""

    __slots__ = ("failed", "maybe_stored", "retried", "sent", "took", "took_ms", "unsafe")

    def __init__(self) -> None:
        self.sent = self.failed = self.maybe_stored = self.retried = self.unsafe = 0
        self.took = Quantiles()
        self.took_ms = 0


# Deliveries ---------------------------------------------------------------------------


FAILED_PASSED_MAX = 16  # failed messages of a queue that are looked at for one consumed
STOPPING = frozenset({"kill", "stop", "power_off", "pause"})  # faults that move queues


class DeliveryGap(NamedTuple):
    """A time in which a queue had messages for a group that consumed none of them."""

    group: str
    queue: Queue
    from_us: int
    until_us: int


class OwnerHit(NamedTuple):
    """A fault of a queue's owner: when, and whether it ends the process."""

    at_us: int
    ends_process: bool


class DeliveryTimes(Checker):
    """Delivery times: from stored to consumed, and times without any consumption.

    Only first deliveries are measured, as retries are delayed on purpose.
    """

    name = "waiting"
    is_measure = True
    rule = "a message is delivered soon after it was stored"
    metrics = (
        Metric("deliver_ms_p50", "ms", "the median from stored to consumed", "group", "max"),
        Metric("deliver_ms_p99", "ms", "99 of 100 messages did not take longer", "group", "max"),
        Metric("longest_deliver_ms", "ms", "the longest of them", "group", "max"),
        Metric(
            "delivery_gap_s",
            "s",
            "the longest a queue's backlog was not consumed, without the group's start-up",
            "group",
            "max",
        ),
        Metric(
            "startup_delivery_gap_s", "s", "the same up to the end of start-up", "group", "max"
        ),
        Metric(
            "consumer_failover_s",
            "s",
            "the longest that messages waited for a queue's next owner after a fault of the last",
            "group",
            "max",
        ),
        Metric(
            "open_failover_s",
            "s",
            "the same of messages that still wait for that owner at the end",
            "group",
            "max",
        ),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._groups: defaultdict[str, _GroupTimes] = defaultdict(_GroupTimes)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageConsumed: self._consumed,
            MessagePolled: self._polled,
            FaultBegan: self._fault_began,
            NodeKilled: self._killed,
        }

    def end(self) -> None:
        """Measure waiting messages up to now, and set the metrics."""
        for reader, reading in self.progress.readings():
            group = reader.partition("@")[0]
            waits, stored_us = self._groups.get(group), _backlog_us(reading)
            if waits is not None and stored_us is not None:
                since_us = max(stored_us, waits.last_us.get(reading.records, 0))
                now_us = self.cluster.now_us
                self._add_gap(group, reading.queue, since_us=since_us, now_us=now_us)
                if (hit := waits.faults.get(reading.queue)) is not None:
                    waits.stays_open(reading, max(hit.at_us, stored_us), now_us)
        for group in self.cluster.consumers:
            waits = self._groups.get(group, _NOTHING)
            self.set_metric("deliver_ms_p50", waits.took.at(0.5) / 1e3, group)
            self.set_metric("deliver_ms_p99", waits.took.at(0.99) / 1e3, group)
            self.set_metric("longest_deliver_ms", waits.took.max / 1e3, group)
            self.set_metric("delivery_gap_s", waits.gap_us / 1e6, group)
            self.set_metric("startup_delivery_gap_s", waits.startup_gap_us / 1e6, group)
            self.set_metric("consumer_failover_s", waits.failover_us / 1e6, group)
            self.set_metric("open_failover_s", waits.open_failover_us / 1e6, group)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if not fact.reconsume_times:
            self._taken(fact.group, fact.queue, fact.offset, entry)

    def _polled(self, fact: MessagePolled, entry: Entry) -> None:
        self._taken(fact.group, fact.queue, fact.offset, entry)

    def _taken(self, group: str, queue: Queue, offset: int, entry: Entry) -> None:
        waits = self._groups[group]
        now_us = entry.mono_us
        records = self.progress.reading.records
        last_us = waits.last_us.get(records, 0)
        waits.last_us[records] = now_us
        stored_us = records.stored_us(offset)
        if self.progress.is_repeat:
            # The next owner often begins with a message that the last one had consumed.
            backlog_us = _backlog_us(self.progress.reading)
            if backlog_us is not None:
                self._add_gap(group, queue, since_us=max(last_us, backlog_us), now_us=now_us)
            return
        if stored_us is None:
            return
        waits.took.add(now_us - stored_us)
        oldest_us = self._oldest_us(offset, stored_us)
        self._add_gap(group, queue, since_us=max(last_us, oldest_us), now_us=now_us)
        if waits.faults and (hit := waits.faults.get(queue)) is not None:
            self._takes_over(waits, hit, now_us=now_us, oldest_us=oldest_us, node=entry.node)

    def _takes_over(
        self, waits: _GroupTimes, hit: OwnerHit, *, now_us: int, oldest_us: int, node: str
    ) -> None:
        """A message of a queue whose owner was hit is consumed: by the next owner?

        A process that is stopped finishes what its listeners have: that ends nothing.
        """
        claim = self.progress.reading.claims.get(node)
        claimed = None if claim is None else claim.claimed
        if hit.ends_process and (claimed is None or claimed.mono_us < hit.at_us):
            return
        queue, since_us = self.progress.reading.queue, max(hit.at_us, oldest_us)
        del waits.faults[queue]
        if now_us - since_us > waits.failover_us:
            waits.failover_us = now_us - since_us
            waits.failover = DeliveryGap(self.progress.reading.reader, queue, since_us, now_us)

    def _oldest_us(self, offset: int, stored_us: int) -> int:
        """When the oldest message was stored that waited until the one at *offset* was consumed.

        Listeners in several threads finish later messages before it.  Of messages that failed,
        the first ``FAILED_PASSED_MAX`` are passed over: they wait for a retry.  Messages at used
        offsets are hidden from the group: they wait for nothing.
        """
        reading, passed = self.progress.reading, 0
        for first, behind in reading.done.holes(max(reading.start, reading.reused_to), offset):
            for waiting in range(first, behind):
                if waiting not in reading.failed:
                    return min(stored_us, reading.records.stored_us(waiting) or stored_us)
                passed += 1
                if passed > FAILED_PASSED_MAX:
                    return stored_us
        return stored_us

    def longest_gaps(self) -> list[DeliveryGap]:
        """The longest gap of each group after its start-up, the longest first; after ``end``."""
        return _longest_first(waits.gap for waits in self._groups.values())

    def longest_startup_gaps(self) -> list[DeliveryGap]:
        """The longest gap of each group up to the end of its start-up, the longest first."""
        return _longest_first(waits.startup_gap for waits in self._groups.values())

    def longest_failovers(self) -> list[DeliveryGap]:
        """The longest wait of each group for a queue's next owner, the longest first."""
        return _longest_first(waits.failover for waits in self._groups.values())

    def longest_open_failovers(self) -> list[DeliveryGap]:
        """The same of waits that have not ended; after ``end``."""
        return _longest_first(waits.open_failover for waits in self._groups.values())

    def _add_gap(self, group: str, queue: Queue, *, since_us: int, now_us: int) -> None:
        """A message waited: the start-up of the group is counted apart."""
        waits, up_us = self._groups[group], self.start_ups.until_us(group, now_us)
        if up_us is None or up_us > since_us:
            up_us = now_us if up_us is None else min(now_us, up_us)
            if up_us - since_us > waits.startup_gap_us:
                waits.startup_gap_us = up_us - since_us
                waits.startup_gap = DeliveryGap(group, queue, since_us, up_us)
            since_us = up_us
        if now_us - since_us > waits.gap_us:
            waits.gap_us = now_us - since_us
            waits.gap = DeliveryGap(group, queue, since_us, now_us)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        """Measure from now on how long queues of members on these nodes wait for an owner."""
        word = self.cluster.all_faults[-1].word
        if word in STOPPING:
            self._hit(fact.nodes, OwnerHit(entry.mono_us, word in PROCESS_ENDING))

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._hit((fact.node,), OwnerHit(entry.mono_us, ends_process=True))

    def _hit(self, nodes: tuple[str, ...], hit: OwnerHit) -> None:
        for reader, reading in self.progress.readings():
            is_broadcasting = "@" in reader  # its queues keep their owner
            if reading.owner in nodes and not is_broadcasting:
                self._groups[reader].faults[reading.queue] = hit


class _GroupTimes:
    """The delivery times of one group."""

    def __init__(self) -> None:
        self.took = Quantiles()  # us
        self.last_us: dict[QueueRecords, int] = {}  # last consumption
        self.gap_us = self.startup_gap_us = 0
        self.gap: DeliveryGap | None = None  # the longest
        self.startup_gap: DeliveryGap | None = None  # the longest in start-up
        self.faults: dict[Queue, OwnerHit] = {}  # queues that wait for their next owner
        self.failover_us = 0
        self.open_failover_us = 0  # without an end in the journal
        self.failover: DeliveryGap | None = None  # the longest
        self.open_failover: DeliveryGap | None = None

    def stays_open(self, reading: QueueReading, since_us: int, now_us: int) -> None:
        """A message waits for the queue's next owner at the end."""
        if now_us - since_us > self.open_failover_us:
            self.open_failover_us = now_us - since_us
            self.open_failover = DeliveryGap(reading.reader, reading.queue, since_us, now_us)


def _backlog_us(reading: QueueReading) -> int | None:
    """When the first message was stored that waits for its first delivery; None: none waits."""
    first = reading.done.first_missing(max(reading.start, reading.reused_to))
    return None if first in reading.failed else reading.records.stored_us(first)


def _longest_first(gaps: Iterable[DeliveryGap | None]) -> list[DeliveryGap]:
    return sorted(filter(None, gaps), key=lambda gap: gap.from_us - gap.until_us)


_NOTHING = _GroupTimes()
