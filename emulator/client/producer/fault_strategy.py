"""Which queue the next attempt goes to.

Without latency awareness only the broker of the attempt just before is avoided.  With
it, brokers are avoided for as long as their fault item is set to; if all are, a send still
goes out.  Three ranges of releases choose in three ways, which differ visibly:

* up to 4.7.1 walks are local to the call, and a retry *sticks* to the failed broker if
  that one counts as available;
* up to 5.1.3 the latency-aware walk is still local, so the first queue behind an
  isolated broker's block gets the whole block's share;
* from 5.1.4 on every probe steps the shared counter.
"""

from __future__ import annotations

import random

from emulator.client.producer.latency_faults import LatencyFaultTolerance, fault_table
from emulator.client.producer.publish_info import ThreadLocalIndex, TopicPublishInfo
from emulator.facts import BrokerIsolated, Note
from emulator.journal import silent
from emulator.releases import (
    EVERY_PROBE_COUNTS,
    LATENCY_CHOICE_AVOIDS_LAST,
    QUEUES_ARE_FILTERED,
    WORST_PICK_IS_FRESH,
    Release,
)
from protocol.queues import MessageQueue


class MQFaultStrategy:
    """One producer's choice of queues.  *enabled*: latency awareness.

    *table* is the name of another ``FaultTable`` than the release's.

    Upstream: MQFaultStrategy.
    """

    def __init__(
        self,
        release: Release,
        rng: random.Random,
        *,
        enabled: bool,
        note: Note = silent,
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
        """The queue for the next attempt; *last_broker* is that of the attempt before.

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
        """A broker took *latency_ms*, or failed.  Nothing is kept unless enabled.

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

    # Before ---------------------------------------------------------------------------

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
            return last_broker in (None, broker)  # upstream's bug: back to the one that failed
        return self._release < LATENCY_CHOICE_AVOIDS_LAST or broker != last_broker

    def _select_worst(self, info: TopicPublishInfo, now_ms: int, worker: int) -> MessageQueue:
        """All are avoided: a broker of the better half, whose queue count the route knows."""
        broker = self.faults.pick_one_at_least(now_ms, worker)
        count = info.write_queues.get(broker, -1) if broker is not None else -1
        if broker is None or count <= 0:
            if broker is not None:
                self.faults.forget(broker)
            return info.next_queue(worker)
        position = info.next_position(worker)
        queue = MessageQueue(info.queues[position].topic, broker, info.index.step(worker) % count)
        if not WORST_PICK_IS_FRESH.reached(self._release):
            # Upstream changes the queue object it took from the shared list: one entry of
            # the list now names another queue, until the next route change.
            info.queues[position] = queue
        return queue
