"""Requests of tools that a consumer answers: the broker invokes it and forwards its answer.

Answers GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY in every release.  The client's
answer is forwarded unchanged, with its code and remark.  If the client's connection closes during
the call, the broker answers at once; upstream waits until the call has timed out.

Upstream: AdminBrokerProcessor.callConsumer, Broker2Client.callClient.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.client_channels import ClientChannel
from rocketmq_emulator.net.results import Call, InvokePeer, Refusal, Reply, Result
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.messages.message_ids import position_of
from rocketmq_emulator.protocol.requests.groups import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.protocol.versions import version_desc
from rocketmq_emulator.settings.releases import SYS_FLAGS_SENT_TO_CLIENT

CALL_MS_MAX = 10_000  # Broker2Client.callClient
ANSWERS_SINCE_VERSION = 62  # MQVersion.V3_1_8_SNAPSHOT


class ClientCallProcessor:
    """GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def running_info(self, call: Call[GetConsumerRunningInfoRequest]) -> Result:
        """Forward the running info of a member of a group."""
        request = call.request
        member = self._member(request.consumer_group, request.client_id)
        rpc = catalog.GET_CONSUMER_RUNNING_INFO
        return self._ask(member, rpc, request.consumer_group, request, b"", call.now_ms)

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """Let a member consume one stored message now, and forward its listener's result."""
        request, broker = call.request, self._broker
        record = broker.store.record_at(_position(request.msg_id))
        if record is None:
            remark = f"can not find message by the id, {request.msg_id}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        group = request.consumer_group
        sent = msgspec.structs.replace(request, broker_name=broker.config.name)
        if broker.release >= SYS_FLAGS_SENT_TO_CLIENT:
            topic = broker.topics.get(request.topic) if request.topic else None
            sent.topic_sys_flag = topic.topic_sys_flag if topic else request.topic_sys_flag
            config = broker.groups.find(group, call.now_ms, by="admin") if group else None
            sent.group_sys_flag = config.group_sys_flag if config else request.group_sys_flag
        member = self._member(group, request.client_id)
        rpc = catalog.CONSUME_MESSAGE_DIRECTLY
        return self._ask(member, rpc, group, sent, bytes(record), call.now_ms)

    def _member(self, group: str, client_id: str | None) -> ClientChannel:
        """The client's connection.  Raises ``Refusal`` if there is none, or the client is old."""
        found = self._broker.clients.channel(group, client_id or "")
        if found is None:
            who = client_id or "null"
            remark = f"The Consumer <{group}> <{who}> not online"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        if found.version < ANSWERS_SINCE_VERSION:
            remark = (
                f"The Consumer <{client_id}> Version <{version_desc(found.version)}> too low to "
                "finish, please upgrade it to V3_1_8_SNAPSHOT"
            )
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        return found

    def _ask(
        self,
        member: ClientChannel,
        rpc: AnyRpc,
        group: str,
        header: Header,
        body: bytes,
        now_ms: int,
    ) -> InvokePeer:
        until_ms = now_ms + CALL_MS_MAX
        client_id, address = member.client_id, member.peer.address

        def forward(now_ms: int, reply: RemotingCommand | None) -> Result:
            if reply is not None:
                extra = reply.fields() if reply.ext else None
                return Reply(None, reply.body, reply.code, reply.remark, extra)
            if now_ms >= until_ms:
                raise Refusal(
                    ResponseCode.CONSUME_MSG_TIMEOUT,
                    f"consumer <{group}> <{client_id}> Timeout: RemotingTimeoutException: "
                    f"wait response on the channel <{address}> timeout, {CALL_MS_MAX}(ms)",
                )
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"invoke consumer <{group}> <{client_id}> Exception: "
                f"the connection of {address} has ended",
            )

        return InvokePeer(member.peer, rpc.code, header, body, until_ms, forward)


def _position(msg_id: str | None) -> int:
    """The log position in a message id.  Raises ``Refusal`` for another text, as a unique key."""
    try:
        return position_of(msg_id or "")
    except ValueError as error:
        remark = f"{msg_id} is no offset message id: {error}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from error
