"""A snapshot of the cluster for a read: queues, their bounds, and the start and end offsets.

Unavailable brokers are listed separately: the reader decides whether to wait for them or to
continue without their queues.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

import msgspec

from rocketmq_emulator.pipeline.source.broker_offsets import (
    Bounds,
    BrokerConnections,
    bounds_of,
    offset_at,
)
from rocketmq_emulator.pipeline.source.connection import BlockingConnection
from rocketmq_emulator.pipeline.source.errors import (
    BadOption,
    MessagesLost,
    OffsetsOutOfRange,
    ServerUnavailable,
)
from rocketmq_emulator.pipeline.source.options import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    PlaceInQueues,
    SourceOptions,
)
from rocketmq_emulator.pipeline.source.pulling import DATA_LOSS_ADVICE
from rocketmq_emulator.pipeline.source.queue_offsets import flat
from rocketmq_emulator.pipeline.source.routing import NameServers, RoutedQueues
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.text.suggestions import did_you_mean

log = logging.getLogger("rocketmq_emulator.spark")


class TopicSnapshot(msgspec.Struct, frozen=True):
    """All queues at one moment; ``away`` has the error of each broker that did not answer.

    ``by_slaves`` has the brokers whose slave answered: it may have fewer messages than the master.
    """

    topics: RoutedQueues
    bounds: dict[MessageQueue, Bounds]
    away: dict[str, ServerUnavailable] = {}
    by_slaves: frozenset[str] = frozenset()

    def require_all(self) -> None:
        """Raises ``ServerUnavailable`` if any broker did not answer."""
        for broker, error in self.away.items():
            raise ServerUnavailable(f"{broker} is away: {error}")


class SnapshotReader:
    """Reads snapshots of the topics in *options*."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.name_servers = NameServers(options.namesrv, options.request_ms_max)
        self.brokers = BrokerConnections(options.request_ms_max)
        self._by_slaves: frozenset[str] = frozenset()  # in the last snapshot

    def close(self) -> None:
        """Closes every connection."""
        self.name_servers.close()
        self.brokers.close()

    def topics(self) -> RoutedQueues:
        """The queues of the topics.  Raises ``TopicUnknown``, ``ServerUnavailable``."""
        return self.name_servers.queues(self.options.topics)

    def look(self, topics: RoutedQueues) -> TopicSnapshot:
        """All queues' bounds now; unavailable brokers are in ``away``, other errors are raised."""
        bounds: dict[MessageQueue, Bounds] = {}
        away: dict[str, ServerUnavailable] = {}
        by_slaves: set[str] = set()
        for broker, queues in topics.by_broker().items():
            away[broker] = ServerUnavailable(
                f"{broker} has no master registered at the NameServer"
            )
            for address in topics.read_addresses(broker):
                try:
                    bounds |= self.brokers.asked(address, partial(bounds_of, queues=queues))
                except ServerUnavailable as error:
                    away[broker] = error
                    continue
                del away[broker]
                if topics.is_slave(address):
                    by_slaves.add(broker)
                break
        for broker in by_slaves - self._by_slaves:
            log.warning(
                "the master of %s is away: reads its slave, which may have fewer messages", broker
            )
        self._by_slaves = frozenset(by_slaves)
        return TopicSnapshot(topics, bounds, away, self._by_slaves)

    def places(
        self, where: PlaceInQueues, name: str, snapshot: TopicSnapshot
    ) -> dict[MessageQueue, int]:
        """The offset that *where*, the option *name*, means in each queue in *snapshot*.

        Raises ``BadOption``, ``OffsetsOutOfRange``, ``MessagesLost``, ``ServerUnavailable``.
        """
        if where.at_ms is not None:
            return {
                queue: offset_at(self._to(queue, snapshot), queue, bounds, where.at_ms)
                for queue, bounds in snapshot.bounds.items()
            }
        default = where.name or (EARLIEST if name == "startingOffsets" else LATEST)
        given = flat(where.offsets or {})
        _check_known(given, snapshot, name)
        return {
            queue: self._place(queue, given.get(queue, default), name, bounds)
            for queue, bounds in snapshot.bounds.items()
        }

    def _place(self, queue: MessageQueue, wanted: int | str, name: str, bounds: Bounds) -> int:
        if wanted in (EARLIEST, EARLIEST_OFFSET):
            return bounds.first
        if wanted in (LATEST, LATEST_OFFSET):
            return bounds.end
        offset = int(wanted)
        text = (
            f"{name} asks for {offset} in queue {queue.queue_id} of {queue.topic} at "
            f"{queue.broker_name}, which has the offsets {bounds.first} to {bounds.end}"
        )
        if not 0 <= offset <= bounds.end:
            raise OffsetsOutOfRange(f"{text}: take one of these, or earliest or latest")
        if offset >= bounds.first:
            return offset
        if self.options.fail_on_data_loss:
            raise MessagesLost(f"{text}. {DATA_LOSS_ADVICE}")
        log.warning("%s: %d messages are gone", text, bounds.first - offset)
        return bounds.first

    def _to(self, queue: MessageQueue, snapshot: TopicSnapshot) -> BlockingConnection:
        """The connection to the broker, master or slave, that gave the queue's bounds."""
        read_addresses = snapshot.topics.read_addresses(queue.broker_name)
        return self.brokers.to(
            read_addresses[-1] if queue.broker_name in snapshot.by_slaves else read_addresses[0]
        )


def _check_known(given: Mapping[MessageQueue, int], snapshot: TopicSnapshot, name: str) -> None:
    known = {_short(queue): queue for queue in snapshot.topics.queues}
    for queue in given:
        if _short(queue) in known:
            continue
        advice = did_you_mean(_short(queue), known)
        raise BadOption(f"{name} names {_short(queue)}, which does not exist: {advice}")


def _short(queue: MessageQueue) -> str:
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"
