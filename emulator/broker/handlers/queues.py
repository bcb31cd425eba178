"""Queues for consumers: first and last offsets, locks, and the assignment of queues to members.

Answers GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_EARLIEST_MSG_STORETIME,
LOCK_BATCH_MQ and UNLOCK_BATCH_MQ in every release; QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE and
GET_ALL_MESSAGE_REQUEST_MODE since 5.0.0, for clients that let the broker compute a member's
queues.  The mode is always PULL: the mode POP is refused.  Strategies are AVG and AVG_BY_CIRCLE,
as upstream's.  Does not lock at other brokers of the same name (``onlyThisBroker`` is not read),
and does not convert offsets of the mapped queues of static topics.

Upstream: AdminBrokerProcessor, QueryAssignmentProcessor.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.state.topic_routes import LOOK_UP_MS_MAX
from rocketmq_emulator.broker.tables.checks import check_size
from rocketmq_emulator.broker.tables.client_channels import BROADCASTING
from rocketmq_emulator.broker.tables.subscription_groups import PULL
from rocketmq_emulator.facts import Queue, QueuesLocked, QueuesUnlocked
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result, Wait
from rocketmq_emulator.net.slices import Slices, in_pieces, in_slices, long_body
from rocketmq_emulator.protocol.allocation import CannotAllocate, averagely, averagely_by_circle
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import LockBatchReply, LockBatchRequestBody
from rocketmq_emulator.protocol.bodies.running import (
    MessageQueueAssignment,
    QueryAssignmentReply,
    QueryAssignmentRequestBody,
    SetMessageRequestModeBody,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields, Header
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX
from rocketmq_emulator.protocol.queues import MessageQueue, java_order, queue_order
from rocketmq_emulator.protocol.requests.offsets import (
    GetEarliestMsgStoretimeReply,
    GetEarliestMsgStoretimeRequest,
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetReply,
    SearchOffsetRequest,
)

SLICE_QUEUES = 5_000  # about 2 µs each


class QueueProcessor:
    """Offsets of a queue, and locks of queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def max_offset(self, call: Call[GetMaxOffsetRequest]) -> Result:
        """The offset of the next message; 0 for a queue that never had a message."""
        request = call.request
        offset = self._broker.store.max_offset(request.topic, request.queue_id)
        return Reply(OffsetReply(offset=offset))

    def min_offset(self, call: Call[GetMinOffsetRequest]) -> Result:
        """The offset of the oldest stored message."""
        request = call.request
        offset = self._broker.store.min_offset(request.topic, request.queue_id)
        return Reply(OffsetReply(offset=offset))

    def search(self, call: Call[SearchOffsetRequest]) -> Result:
        """The offset for a store time, by the rule of the broker's release."""
        request = call.request
        upper = (request.boundary_type or "").upper() == "UPPER"
        offset = self._broker.store.offset_by_time(
            request.topic, request.queue_id, request.timestamp, upper=upper
        )
        return Reply(OffsetReply(offset=offset))

    def earliest(self, call: Call[GetEarliestMsgStoretimeRequest]) -> Result:
        """The store time of the oldest message; -1 if there is none."""
        request = call.request
        at_ms = self._broker.store.earliest_ms(request.topic, request.queue_id)
        return Reply(GetEarliestMsgStoretimeReply(timestamp=at_ms))

    def lock(self, call: Call[Header]) -> Result:
        """Lock queues or renew their locks; the reply lists the queues that the client owns."""
        return in_slices(self._lock(_locks_of(call), call.now_ms), call.now_ms)

    def _lock(self, asked: _LockRequest, now_ms: int) -> Slices:
        """Lock all queues in one slice; decoding them is one before, the reply needs more."""
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

    def _check_room(self, asked: _LockRequest, now_ms: int) -> None:
        """Raises ``Refusal`` if there would be too many locks."""
        locks, locks_max = self._broker.locks, self._broker.config.locks_max
        if locks.held_count + len(asked.queues) > locks_max:  # unless some are held already
            new = sum(locks.owner(asked.group, queue, now_ms) is None for queue in asked.queues)
            check_size(locks.held_count + new, locks_max, "queue locks")

    def unlock(self, call: Call[Header]) -> Result:
        """Unlock queues; locks of other clients stay."""
        return in_slices(self._unlock(_locks_of(call)), call.now_ms)

    def _unlock(self, asked: _LockRequest) -> Slices:
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


class _LockRequest(NamedTuple):
    """A client's request with each queue once: upstream's lists of queues are sets."""

    group: str
    client: str
    queues: list[MessageQueue]


def _locks_of(call: Call[Header]) -> _LockRequest:
    """The decoded request.  Raises ``BadFields`` without a group."""
    request = decode_body(call.body, LockBatchRequestBody)
    if request.consumer_group is None:
        raise BadFields("locks of a group without a name")
    queues = list(dict.fromkeys(request.mq_set))
    return _LockRequest(request.consumer_group, request.client_id or "", queues)


def _queues(queues: list[MessageQueue]) -> tuple[Queue, ...]:
    return tuple(
        Queue(q.topic, q.broker_name, q.queue_id) for q in sorted(queues, key=queue_order)
    )


# Assignment of queues (5.x) -----------------------------------------------------------


STRATEGIES = {"AVG": averagely, "AVG_BY_CIRCLE": averagely_by_circle}
MODELS = ("BROADCASTING", "CLUSTERING")


class QueryAssignmentProcessor:
    """QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def query(self, call: Call[Header]) -> Result:
        """The member's queues; without a list in the reply the member keeps its queues."""
        request = decode_body(call.body, QueryAssignmentRequestBody)
        if request.topic is None or request.message_model not in MODELS:
            raise BadFields("an assignment without a topic or a message model")
        routes = self._broker.routes
        if (bell := routes.start_look_up(request.topic)) is not None:
            until_ms = call.now_ms + LOOK_UP_MS_MAX * max(1, len(self._broker.config.namesrv))
            return Wait(bell, until_ms, lambda _now_ms, _expired: self._answer(request))
        return self._answer(request)

    def _answer(self, request: QueryAssignmentRequestBody) -> Reply:
        mine = self._balanced(request)
        body = QueryAssignmentReply(
            message_queue_assignments=None
            if mine is None
            else [MessageQueueAssignment(message_queue=queue, mode=PULL) for queue in mine]
        )
        return Reply(body=encode_body(body, self._broker.release))

    def _balanced(self, request: QueryAssignmentRequestBody) -> list[MessageQueue] | None:
        """The member's queues, or None.  Upstream: QueryAssignmentProcessor.doLoadBalance."""
        queues = self._broker.routes.subscribe_info.get(request.topic or "")
        if queues is None or request.message_model == BROADCASTING:
            return queues
        group = self._broker.clients.group(request.consumer_group or "")
        allocate = STRATEGIES.get(request.strategy_name or "")
        if group is None or allocate is None:
            return None
        members = sorted((known or "" for known in group.client_ids()), key=java_order)
        try:
            return allocate(queues, members, request.client_id or "")
        except CannotAllocate:
            return None

    def all_modes(self, _call: Call[Header]) -> Result:
        """The request modes of all groups, in the form of the saved table, for slaves."""
        broker = self._broker
        return Reply(body=encode_body(broker.request_modes.table(), broker.release))

    def set_mode(self, call: Call[Header]) -> Result:
        """Set a group's request mode; refused for a missing topic or group, and for POP."""
        body = decode_body(call.body, SetMessageRequestModeBody)
        topic, group = body.topic, body.consumer_group
        if topic is None or group is None:
            raise BadFields("a request mode without a topic or a group")
        if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            remark = "retry topic is not allowed to set mode"
            raise Refusal(ResponseCode.NO_PERMISSION, remark)
        self._broker.topics.require(topic)
        if self._broker.groups.find(group, call.now_ms, by="admin") is None:
            remark = "subscription group does not exist"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if body.mode != PULL:
            raise Refusal(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"the mode {body.mode} is not supported: this broker answers pulls only; "
                f"the mode of {group} in {topic} does not change",
            )
        self._broker.request_modes.set(topic, group, body)
        return Reply()
