"""The choice of the queue for the next attempt, and the brokers that a producer avoids.

Without latency awareness only the broker of the previous attempt is avoided.  With it a broker
that replied slowly, or not at all, is *isolated* for a time that a table derives from its latency;
if all brokers are isolated, the message is still sent.  Releases choose in three ways:

* Up to 4.7.1 a walk over the queues does not step the shared counter at each probe, and a retry
  goes *back* to the failed broker if that counts as available.
* Up to 5.1.3 only the latency-aware walk is like that, so the first queue behind the queues of an
  isolated broker gets the share of all of them.
* From 5.1.4 on (RIP-63) every probe steps the shared counter, isolations are short and can only be
  prolonged, and brokers have a *reachable* flag (in 5.1.4 alone a broker that is not reachable
  stays unavailable).

Up to 5.1.3 writing an asynchronous request ends an isolation.
Upstream: MQFaultStrategy, LatencyFaultToleranceImpl, DefaultMQProducerImpl.sendDefaultImpl,
MQClientAPIImpl.sendMessageAsync (the ends of attempts).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from rocketmq_emulator.client.producer.publish_info import ThreadLocalIndex, TopicPublishInfo
from rocketmq_emulator.client.settings.config import FAULT_TABLE_NAMES
from rocketmq_emulator.facts import BrokerIsolated, Note
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import (
    EVERY_PROBE_COUNTS,
    FAULT_TABLE_SHORT,
    FAULT_UPDATES_REFINED,
    ISOLATIONS_ONLY_EXTENDED,
    LATENCY_CHOICE_AVOIDS_LAST,
    QUEUES_ARE_FILTERED,
    REACHABLE_IS_APART,
    WORST_PICK_IS_FRESH,
    WORST_PICK_IS_SORTED,
    Release,
)


class MQFaultStrategy:
    """Chooses queues for one producer; *enabled* turns latency awareness on.

    *table* names a ``FaultTable``; empty for that of the release.

    Upstream: MQFaultStrategy.
    """

    def __init__(
        self,
        release: Release,
        rng: random.Random,
        *,
        enabled: bool,
        note: Note = discard_fact,
        worst_index: ThreadLocalIndex | None = None,
        table: str = "",
    ) -> None:
        self._release = release
        self._filters = release >= QUEUES_ARE_FILTERED
        self._table = fault_table(release, table)
        self._note = note
        self.enabled = enabled
        self.faults = LatencyFaultTolerance(release, rng, worst_index)

    def select(
        self,
        info: TopicPublishInfo,
        last_broker: str | None,
        now_ms: int,
        *,
        worker: int = 0,
        sync_retry: bool = False,
    ) -> MessageQueue:
        """The queue for the next attempt; *last_broker* is that of the previous attempt.

        Upstream: MQFaultStrategy.selectOneMessageQueue.
        """
        if self._filters:
            return self._select_filtered(info, last_broker, now_ms, worker, sync_retry)
        if self.enabled:
            return self._select_available(info, last_broker, now_ms, worker)
        return self._select_elsewhere(info, last_broker, worker)

    def update(
        self, broker: str, latency_ms: int, now_ms: int, *, isolate: bool, reachable: bool = True
    ) -> None:
        """Record that *broker* took *latency_ms*, or failed (*isolate*); only if enabled.

        Upstream: MQFaultStrategy.updateFaultItem.
        """
        if not self.enabled:
            return
        duration_ms = self._table.duration_ms(self._table.isolation_ms if isolate else latency_ms)
        self.faults.update(broker, latency_ms, duration_ms, now_ms, reachable=reachable)
        if duration_ms > 0:
            available_in_ms = self.faults.available_in_ms(broker, now_ms)
            self._note(BrokerIsolated(broker, duration_ms, available_in_ms))

    # 5.1.4 and later ------------------------------------------------------------------

    def _select_filtered(
        self,
        info: TopicPublishInfo,
        last_broker: str | None,
        now_ms: int,
        worker: int,
        sync_retry: bool,
    ) -> MessageQueue:
        def elsewhere(queue: MessageQueue) -> bool:
            return queue.broker_name != last_broker

        def available(queue: MessageQueue) -> bool:
            return self.faults.is_available(queue.broker_name, now_ms) and elsewhere(queue)

        def reachable(queue: MessageQueue) -> bool:
            return self.faults.is_reachable(queue.broker_name) and elsewhere(queue)

        if self.enabled and sync_retry:
            info.index.restart(worker)
        for wanted in (available, reachable) if self.enabled else (elsewhere,):
            if (queue := info.next_queue_where(wanted, worker)) is not None:
                return queue
        return info.next_queue(worker)

    # Before 5.1.4 ---------------------------------------------------------------------

    def _select_elsewhere(
        self, info: TopicPublishInfo, last_broker: str | None, worker: int
    ) -> MessageQueue:
        if last_broker is None:
            return info.next_queue(worker)

        def elsewhere(queue: MessageQueue) -> bool:
            return queue.broker_name != last_broker

        if self._release >= EVERY_PROBE_COUNTS:
            found = info.next_queue_where(elsewhere, worker)
        else:
            found = next(filter(elsewhere, info.queues_from(info.index.step(worker))), None)
        return found or info.next_queue(worker)

    def _select_available(
        self, info: TopicPublishInfo, last_broker: str | None, now_ms: int, worker: int
    ) -> MessageQueue:
        for queue in info.queues_from(info.index.step(worker)):
            broker = queue.broker_name
            if self.faults.is_available(broker, now_ms) and self._may_follow(last_broker, broker):
                return queue
        return self._select_worst(info, now_ms, worker)

    def _may_follow(self, last_broker: str | None, broker: str) -> bool:
        if self._release < EVERY_PROBE_COUNTS:
            return last_broker in (None, broker)  # upstream's bug: back to the failed broker
        return self._release < LATENCY_CHOICE_AVOIDS_LAST or broker != last_broker

    def _select_worst(self, info: TopicPublishInfo, now_ms: int, worker: int) -> MessageQueue:
        """A queue when all brokers are isolated: of a broker of the better half in the route."""
        broker = self.faults.pick_one_at_least(now_ms, worker)
        count = info.write_queues.get(broker, -1) if broker is not None else -1
        if broker is None or count <= 0:
            if broker is not None:
                self.faults.forget(broker)
            return info.next_queue(worker)
        position = info.next_position(worker)
        queue = MessageQueue(info.queues[position].topic, broker, info.index.step(worker) % count)
        if not WORST_PICK_IS_FRESH.reached(self._release):
            # Upstream modifies the queue object in the shared list: until the next route
            # change this entry of the list is another queue.
            info.queues[position] = queue
        return queue


# Brokers to avoid: tables, updates, and the items of one producer ---------------------


class FaultTable(msgspec.Struct, frozen=True):
    """How long to avoid a broker, by its latency.  Upstream: MQFaultStrategy.

    The last row applies whose floor is not above the latency.  ``isolation_ms`` is the latency
    assumed for a failed attempt.
    """

    latency_ms_min: tuple[int, ...]
    not_available_ms: tuple[int, ...]
    isolation_ms: int

    def duration_ms(self, latency_ms: int) -> int:
        """How long to avoid a broker that took *latency_ms*.

        Upstream: MQFaultStrategy.computeNotAvailableDuration.
        """
        rows = zip(self.latency_ms_min, self.not_available_ms, strict=True)
        return max((duration for floor, duration in rows if latency_ms >= floor), default=0)


FAULT_TABLE_4 = FaultTable(
    (50, 100, 550, 1_000, 2_000, 3_000, 15_000),
    (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    isolation_ms=30_000,  # looked up in the table: 600 seconds
)
FAULT_TABLE_5_1_4 = FaultTable(
    (50, 100, 550, 1_800, 3_000, 5_000, 15_000),
    (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
    isolation_ms=10_000,
)


# As articles about RocketMQ describe it (no release does this): a broker is avoided for 3 s after
# more than 550 ms, for 60 s after more than 1,000 ms.  They do not describe failures.
FAULT_TABLE_OF_ARTICLES = FaultTable((551, 1_001), (3_000, 60_000), isolation_ms=1_001)

FAULT_TABLES: Mapping[str, FaultTable] = {
    "4.x": FAULT_TABLE_4,
    "5.1.4": FAULT_TABLE_5_1_4,
    "articles": FAULT_TABLE_OF_ARTICLES,
}
assert {"", *FAULT_TABLES} == set(FAULT_TABLE_NAMES)


def fault_table(release: Release, name: str = "") -> FaultTable:
    """The table named *name*; with an empty name that of the release."""
    return FAULT_TABLES[name or ("5.1.4" if release >= FAULT_TABLE_SHORT else "4.x")]


class AttemptEnding(Enum):
    """The end of an attempt, or of the writing of its request."""

    ANSWERED = auto()  # with any send status
    NO_MASTER = auto()
    REMOTE_ERROR = auto()
    ERROR_REPLY = auto()
    REQUEST_WRITTEN = auto()  # asynchronous or one-way
    ASYNC_ANSWERED = auto()
    ASYNC_ERROR_REPLY = auto()
    ASYNC_REMOTE_ERROR = auto()


class FaultUpdate(NamedTuple):
    """Whether to isolate the broker, and whether to mark it reachable."""

    isolate: bool
    reachable: bool = True


UPDATES_UNREFINED = {
    AttemptEnding.ANSWERED: FaultUpdate(isolate=False),
    AttemptEnding.NO_MASTER: FaultUpdate(isolate=True),
    AttemptEnding.REMOTE_ERROR: FaultUpdate(isolate=True),
    AttemptEnding.ERROR_REPLY: FaultUpdate(isolate=True),
    AttemptEnding.REQUEST_WRITTEN: FaultUpdate(isolate=False),
    AttemptEnding.ASYNC_ANSWERED: FaultUpdate(isolate=False),
    AttemptEnding.ASYNC_ERROR_REPLY: FaultUpdate(isolate=True),
    AttemptEnding.ASYNC_REMOTE_ERROR: FaultUpdate(isolate=True),
}
UPDATES_REFINED = {  # FAULT_UPDATES_REFINED
    AttemptEnding.ANSWERED: FaultUpdate(isolate=False),
    AttemptEnding.NO_MASTER: FaultUpdate(isolate=False),
    AttemptEnding.REMOTE_ERROR: FaultUpdate(isolate=True),
    AttemptEnding.ERROR_REPLY: FaultUpdate(isolate=True, reachable=False),
    AttemptEnding.REQUEST_WRITTEN: FaultUpdate(isolate=False),
    AttemptEnding.ASYNC_ANSWERED: FaultUpdate(isolate=False),
    AttemptEnding.ASYNC_ERROR_REPLY: FaultUpdate(isolate=True),
    AttemptEnding.ASYNC_REMOTE_ERROR: FaultUpdate(isolate=True),
}
assert UPDATES_UNREFINED.keys() == UPDATES_REFINED.keys() == set(AttemptEnding)


def fault_update(ending: AttemptEnding, release: Release, *, detector: bool) -> FaultUpdate:
    """The update of the broker's item after *ending*.

    After a REMOTE_ERROR a broker becomes unreachable only with a *detector*.
    """
    if release < FAULT_UPDATES_REFINED:
        return UPDATES_UNREFINED[ending]
    if ending is AttemptEnding.REMOTE_ERROR:
        return FaultUpdate(isolate=True, reachable=not detector)
    return UPDATES_REFINED[ending]


class FaultItem(msgspec.Struct):
    """The state of one broker.  Upstream: LatencyFaultToleranceImpl.FaultItem."""

    broker: str
    latency_ms: int = 0
    available_from_ms: int = 0
    is_reachable: bool = True
    check_from_ms: int = 0  # the detector's next probe is due then

    def is_available(self, now_ms: int) -> bool:
        """Whether the broker is not isolated."""
        return now_ms >= self.available_from_ms

    def rank(self, now_ms: int) -> tuple[bool, int, int]:
        """A sort key that puts better brokers first.  Upstream: FaultItem.compareTo."""
        return (not self.is_available(now_ms), self.latency_ms, self.available_from_ms)


class LatencyFaultTolerance:
    """The fault table of one producer, keyed by broker name.

    *rng* shuffles where upstream does, and picks among reachable brokers; *index* rotates over
    the better half.  A broker without an item is available and reachable.  The table has at most
    one item for each broker name that was ever chosen.

    Upstream: LatencyFaultToleranceImpl.
    """

    def __init__(
        self, release: Release, rng: random.Random, index: ThreadLocalIndex | None = None
    ) -> None:
        self._only_later = release >= ISOLATIONS_ONLY_EXTENDED
        self._must_be_reachable = self._only_later and release < REACHABLE_IS_APART
        self._shuffles = release < WORST_PICK_IS_SORTED
        self._rng = rng
        self._index = index or ThreadLocalIndex(lambda: rng.randrange(2**31))
        self.items: dict[str, FaultItem] = {}

    def update(
        self,
        broker: str,
        latency_ms: int,
        duration_ms: int,
        now_ms: int,
        *,
        reachable: bool = True,
    ) -> None:
        """Record *latency_ms* of *broker*, and avoid it for *duration_ms* (0: not) from now on."""
        item = self.items.setdefault(broker, FaultItem(broker))
        item.latency_ms = latency_ms
        item.is_reachable = reachable
        until_ms = now_ms + duration_ms
        if not self._only_later:
            item.available_from_ms = until_ms
        elif duration_ms > 0:
            item.available_from_ms = max(item.available_from_ms, until_ms)

    def is_available(self, broker: str, now_ms: int) -> bool:
        """Whether *broker* is not isolated (in 5.1.4: and reachable)."""
        item = self.items.get(broker)
        if item is None:
            return True
        return item.is_available(now_ms) and (item.is_reachable or not self._must_be_reachable)

    def available_in_ms(self, broker: str, now_ms: int) -> int:
        """How long *broker* is still isolated; 0 if it is not."""
        item = self.items.get(broker)
        return 0 if item is None else max(0, item.available_from_ms - now_ms)

    def is_reachable(self, broker: str) -> bool:
        """Whether *broker* is marked reachable."""
        item = self.items.get(broker)
        return item is None or item.is_reachable

    def forget(self, broker: str) -> None:
        """Drop the item of *broker*, which is then available and reachable.  Upstream: remove."""
        self.items.pop(broker, None)

    def pick_one_at_least(self, now_ms: int, worker: int = 0) -> str | None:
        """A broker to use although all are isolated; None if no broker has an item.

        Since 5.1.4 ``MQFaultStrategy`` does not call it.
        Upstream: LatencyFaultToleranceImpl.pickOneAtLeast.
        """
        pick = self._pick_reachable if self._only_later else self._pick_from_better_half
        return pick(now_ms, worker)

    def due_for_check(self, now_ms: int, interval_ms: int) -> list[str]:
        """The brokers to probe now; each is due again after *interval_ms*.

        Upstream: LatencyFaultToleranceImpl.detectByOneRound.
        """
        due = [item for item in self.items.values() if now_ms >= item.check_from_ms]
        for item in due:
            item.check_from_ms = now_ms + interval_ms
        return [item.broker for item in due]

    def mark_reachable(self, broker: str) -> None:
        """Mark *broker* reachable after a probe; its isolation, if any, is not changed."""
        if (item := self.items.get(broker)) is not None:
            item.is_reachable = True

    def _pick_from_better_half(self, now_ms: int, worker: int) -> str | None:
        ranked = list(self.items.values())
        if self._shuffles:
            self._rng.shuffle(ranked)  # for brokers of equal rank
        ranked.sort(key=lambda item: item.rank(now_ms))
        half = len(ranked) // 2
        if half == 0:
            return ranked[0].broker if ranked else None
        return ranked[self._index.step(worker) % half].broker

    def _pick_reachable(self, _now_ms: int, _worker: int) -> str | None:
        reachable = [item.broker for item in self.items.values() if item.is_reachable]
        return self._rng.choice(reachable) if reachable else None
