"""Consumers and their queues: where it begins and ends, and who may consume it in order.

Answers GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_EARLIEST_MSG_STORETIME,
LOCK_BATCH_MQ and UNLOCK_BATCH_MQ in every release.  Does not lock at other brokers of the same
name (``onlyThisBroker`` is not read), and does not move offsets of queues that were mapped.

Upstream: AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import NamedTuple

from emulator.broker.broker import Broker
from emulator.broker.checks import check_size
from emulator.facts import Queue, QueuesLocked, QueuesUnlocked
from emulator.net.results import Call, Reply, Result
from emulator.net.slices import Slices, in_pieces, in_slices, long_body
from protocol.bodies.body import decode_body
from protocol.bodies.groups import LockBatchReply, LockBatchRequestBody
from protocol.fields import BadFields, Header
from protocol.queues import MessageQueue, queue_order
from protocol.requests.offsets import (
    GetEarliestMsgStoretimeReply,
    GetEarliestMsgStoretimeRequest,
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetReply,
    SearchOffsetRequest,
)

SLICE_QUEUES = 5_000  # of some 2 µs each


class QueueProcessor:
    """Offsets of a queue, and locks of queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def max_offset(self, call: Call[GetMaxOffsetRequest]) -> Result:
        """The offset the next message gets; 0 for a queue without messages."""
        request = call.request
        offset = self._broker.store.max_offset(request.topic, request.queue_id)
        return Reply(OffsetReply(offset=offset))

    def min_offset(self, call: Call[GetMinOffsetRequest]) -> Result:
        """The offset of the oldest message that is still there."""
        request = call.request
        offset = self._broker.store.min_offset(request.topic, request.queue_id)
        return Reply(OffsetReply(offset=offset))

    def search(self, call: Call[SearchOffsetRequest]) -> Result:
        """The offset that belongs to a store time, by the rule of the broker's release."""
        request = call.request
        upper = (request.boundary_type or "").upper() == "UPPER"
        offset = self._broker.store.offset_by_time(
            request.topic, request.queue_id, request.timestamp, upper=upper
        )
        return Reply(OffsetReply(offset=offset))

    def earliest(self, call: Call[GetEarliestMsgStoretimeRequest]) -> Result:
        """When the oldest message was stored; -1 if there is none."""
        request = call.request
        at_ms = self._broker.store.earliest_ms(request.topic, request.queue_id)
        return Reply(GetEarliestMsgStoretimeReply(timestamp=at_ms))

    def lock(self, call: Call[Header]) -> Result:
        """Take or renew locks; the reply names those that are the client's now."""
        return in_slices(self._lock(_locks_of(call), call.now_ms), call.now_ms)

    def _lock(self, asked: _Locks, now_ms: int) -> Slices:
        """They are taken in one turn; reading them was one before, naming them is more after."""
        group, client, all_queues = asked
        broker = self._broker
        if len(all_queues) > SLICE_QUEUES:
            yield
        self._check_room(asked, now_ms)
        granted = broker.locks.lock(group, all_queues, client, now_ms)
        if broker.wants(QueuesLocked):
            own = set(granted)
            for queues in in_pieces(all_queues, SLICE_QUEUES):
                taken = [queue for queue in queues if queue in own]
                refused = [queue for queue in queues if queue not in own]
                broker.note(QueuesLocked(group, client, _queues(taken), _queues(refused)))
                if len(queues) == SLICE_QUEUES:
                    yield
        pieces = {"lockOKMQSet": in_pieces(granted, SLICE_QUEUES)}
        return Reply(body=(yield from long_body(LockBatchReply(), pieces, broker.release)))

    def _check_room(self, asked: _Locks, now_ms: int) -> None:
        """Raises ``Refusal`` where there would be too many locks."""
        locks, locks_max = self._broker.locks, self._broker.config.locks_max
        if locks.held_count + len(asked.queues) > locks_max:  # unless some are held already
            new = sum(locks.owner(asked.group, queue, now_ms) is None for queue in asked.queues)
            check_size(locks.held_count + new, locks_max, "queue locks")

    def unlock(self, call: Call[Header]) -> Result:
        """Give locks back; those of other clients stay."""
        return in_slices(self._unlock(_locks_of(call)), call.now_ms)

    def _unlock(self, asked: _Locks) -> Slices:
        group, client, all_queues = asked
        if len(all_queues) > SLICE_QUEUES:
            yield
        self._broker.locks.unlock(group, all_queues, client)
        if self._broker.wants(QueuesUnlocked):
            for queues in in_pieces(all_queues, SLICE_QUEUES):
                self._broker.note(QueuesUnlocked(group, client, _queues(queues)))
                if len(queues) == SLICE_QUEUES:
                    yield
        return Reply()


class _Locks(NamedTuple):
    """What a client asks for, each queue once: upstream's lists of queues are sets."""

    group: str
    client: str
    queues: list[MessageQueue]


def _locks_of(call: Call[Header]) -> _Locks:
    """The request.  Raises ``BadFields`` without a group."""
    request = decode_body(call.body, LockBatchRequestBody)
    if request.consumer_group is None:
        raise BadFields("locks of a group without a name")
    queues = list(dict.fromkeys(request.mq_set))
    return _Locks(request.consumer_group, request.client_id or "", queues)


def _queues(queues: list[MessageQueue]) -> tuple[Queue, ...]:
    return tuple(
        Queue(q.topic, q.broker_name, q.queue_id) for q in sorted(queues, key=queue_order)
    )
