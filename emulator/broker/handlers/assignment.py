"""Which queues a member gets, computed by the broker for clients that leave it to it.

Answers QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE since 5.0.0.  The mode is always PULL:
POP is refused as a mode by its name.  Strategies are AVG and AVG_BY_CIRCLE, as upstream's.

Upstream: QueryAssignmentProcessor.
"""

from __future__ import annotations

from emulator.broker.broker import Broker
from emulator.broker.tables.client_channels import BROADCASTING
from emulator.broker.tables.request_modes import PULL
from emulator.broker.topic_routes import LOOK_UP_MS_MAX
from emulator.net.results import Call, Refusal, Reply, Result, Wait
from protocol.allocation import CannotAllocate, averagely, averagely_by_circle
from protocol.bodies.body import decode_body, encode_body
from protocol.bodies.running import (
    MessageQueueAssignment,
    QueryAssignmentReply,
    QueryAssignmentRequestBody,
    SetMessageRequestModeBody,
)
from protocol.codes import ResponseCode
from protocol.fields import BadFields, Header
from protocol.names import RETRY_GROUP_TOPIC_PREFIX
from protocol.queues import MessageQueue, java_order

STRATEGIES = {"AVG": averagely, "AVG_BY_CIRCLE": averagely_by_circle}
MODELS = ("BROADCASTING", "CLUSTERING")


class QueryAssignmentProcessor:
    """QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def query(self, call: Call[Header]) -> Result:
        """The member's queues; no list at all tells it to keep what it has."""
        request = decode_body(call.body, QueryAssignmentRequestBody)
        if request.topic is None or request.message_model not in MODELS:
            raise BadFields("an assignment without a topic or a message model")
        routes = self._broker.routes
        if (bell := routes.looking_up(request.topic)) is not None:
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
        """Upstream: QueryAssignmentProcessor.doLoadBalance."""
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

    def set_mode(self, call: Call[Header]) -> Result:
        """How a group asks for a topic's messages; refused for what is not there, and for POP."""
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
                f"the mode of {group} in {topic} is what it was",
            )
        self._broker.request_modes.set(topic, group, body)
        return Reply()
