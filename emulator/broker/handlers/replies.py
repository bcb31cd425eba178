"""Replies: the broker pushes each to the client that requested it, then stores it.

Answers SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2 in every release, with the checks of a send.
The requester is found by the client id in the reply's REPLY_TO_CLIENT, among the connections of
producers.  A reply that cannot be pushed is answered SYSTEM_ERROR, and stored all the same, so
the answer may have both a remark and the place where the reply is stored.  A reply that cannot be
stored is answered as if it was stored nowhere: only the push decides about the code.
If the requester's connection closes during the push, the broker answers at once; upstream waits
until the call has timed out.

Upstream: ReplyMessageProcessor, Broker2Client.callClient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rocketmq_emulator.broker.handlers.acknowledging import Acknowledging
from rocketmq_emulator.broker.store.appender import PutRefused
from rocketmq_emulator.broker.store.put_chain import delay_level, waits_for_safety
from rocketmq_emulator.facts import ReplyNotPushed, ReplyPushed
from rocketmq_emulator.net.results import Call, InvokePeer, Refusal, Reply, Result
from rocketmq_emulator.protocol.catalog import PUSH_REPLY_MESSAGE_TO_CLIENT
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.message_ids import host_text, offset_msg_id
from rocketmq_emulator.protocol.messages.properties import (
    CORRELATION_ID,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    decode_properties,
    properties_text,
    property_of,
    with_property,
    without_property,
)
from rocketmq_emulator.protocol.requests.groups import ReplyMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageReply, SendRequest
from rocketmq_emulator.settings.releases import (
    EMPTY_BODY_FAILS,
    EMPTY_BODY_REFUSED,
    LAST_PROPERTY_OPEN,
    MSG_REGION_STORED,
    RECONSUME_TIMES_PUSHED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.broker.handlers.sending import SendMessageProcessor
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.protocol.command import RemotingCommand

PUSH_MS_MAX = 10_000  # Broker2Client.callClient
_BUSY = "[OVERLOAD]system busy, start flow control for a while"
_NOT_STORED_ID = "0"  # Java clients cannot decode an answer without an id


class ReplyMessageProcessor:
    """SEND_REPLY_MESSAGE in its two forms."""

    def __init__(self, broker: Broker, sending: SendMessageProcessor) -> None:
        self._broker = broker
        self._acknowledging = Acknowledging(broker)
        self._sending = sending
        self._pushing = 0  # replies that wait for their requesters; upstream: one a thread
        self._ends_last_pair = not LAST_PROPERTY_OPEN.holds(broker.release)
        self._reconsume_times = 0 if broker.release >= RECONSUME_TIMES_PUSHED else None

    def send_reply(self, call: Call[SendRequest]) -> Result:
        """Push the reply to its requester, and store it."""
        if not call.body and self._broker.release >= EMPTY_BODY_FAILS:
            raise BadFields("a reply without a body")
        try:
            queue_id = self._sending.checked_queue(call, call.request.topic or "", self.send_reply)
        except Refusal as refusal:
            return self._sending.refused(call, refusal.code, refusal.remark, refusal.remark)
        if not isinstance(queue_id, int):
            return queue_id
        if self._pushing >= self._broker.config.reply_queue_max:
            return self._sending.refused(call, ResponseCode.SYSTEM_BUSY, _BUSY, _BUSY)
        return self._push(_Delivery(call, queue_id, self._properties(call.request)))

    def _properties(self, request: SendRequest) -> str:
        """The reply's properties; since 5.0.0 they are read, extended and written again.

        Upstream: AbstractSendMessageProcessor.buildMsgContext.
        """
        properties = request.properties or ""
        if self._broker.release < MSG_REGION_STORED:
            return properties
        extended = {**decode_properties(properties), **self._sending.region_extra}
        return properties_text(extended, trailing=self._ends_last_pair)

    # Pushing --------------------------------------------------------------------------

    def _push(self, reply: _Delivery) -> Result:
        """Upstream: ReplyMessageProcessor.pushReplyMessage."""
        client, began_ms = reply.client, reply.call.now_ms
        if not client:
            remark = f"reply message properties[{REPLY_TO_CLIENT}] is null"
            return self._not_pushed(reply, "no client id", remark, began_ms)
        peer = self._broker.clients.find_channel(client)
        if peer is None:
            remark = f"push reply message fail, channel of <{client}> not found."
            return self._not_pushed(reply, "no channel", remark, began_ms)

        def pushed(now_ms: int, answer: RemotingCommand | None) -> Result:
            self._pushing -= 1
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                self._note_pushed(reply, now_ms)
                header = SendMessageReply(_NOT_STORED_ID, reply.queue_id, 0)
                return self._stored(reply, Reply(header, extra=self._sending.region_extra), now_ms)
            reason = "no answer" if answer is None else "refused"
            remark = f"push reply message to {client}fail."
            return self._not_pushed(reply, reason, remark, now_ms)

        self._pushing += 1
        reply.note_push(began_ms, trailing=self._ends_last_pair)
        header, until_ms = self._header(reply), began_ms + PUSH_MS_MAX
        code = PUSH_REPLY_MESSAGE_TO_CLIENT.code
        return InvokePeer(peer, code, header, reply.call.body, until_ms, pushed)

    def _header(self, reply: _Delivery) -> ReplyMessageRequest:
        request = reply.call.request
        times = request.reconsume_times
        return ReplyMessageRequest(
            # Fields that the sender leaves out are left out here: the client will refuse them.
            producer_group=cast("str", request.producer_group),
            topic=request.topic or "",
            default_topic=cast("str", request.default_topic),
            default_topic_queue_nums=cast("int", request.default_topic_queue_nums),
            queue_id=request.queue_id,
            sys_flag=request.sys_flag,
            born_timestamp=request.born_timestamp,
            flag=request.flag,
            born_host=reply.call.peer.address,
            store_host=host_text(self._broker.store_host),
            store_timestamp=reply.call.now_ms,
            properties=reply.pushed_properties,
            reconsume_times=self._reconsume_times if times is None else times,
            unit_mode=request.unit_mode,
        )

    def _not_pushed(self, reply: _Delivery, reason: str, remark: str, now_ms: int) -> Result:
        code, extra = ResponseCode.SYSTEM_ERROR, self._sending.region_extra
        answer = Reply(code=code, remark=remark, extra=extra)
        result = self._stored(reply, answer, now_ms)
        stored = answer.header is not None
        topic, client = reply.call.request.topic or "", reply.client
        self._broker.note(ReplyNotPushed(topic, reply.correlation_id, client, reason, stored))
        return result

    def _note_pushed(self, reply: _Delivery, now_ms: int) -> None:
        took_ms = now_ms - reply.call.now_ms
        topic = reply.call.request.topic or ""
        self._broker.note(ReplyPushed(topic, reply.correlation_id, reply.client, took_ms))

    # Storing --------------------------------------------------------------------------

    def _stored(self, reply: _Delivery, answer: Reply, now_ms: int) -> Result:
        """*answer*, which names the place of the stored reply, when the reply is flushed.

        Upstream: ReplyMessageProcessor.handlePutMessageResult.
        """
        call = reply.call
        if not self._broker.config.store_replies or (
            not call.body and self._broker.release >= EMPTY_BODY_REFUSED
        ):
            return answer
        # A delayed reply is stored as it was pushed: upstream writes its properties again.
        is_delayed = delay_level(reply.properties) > 0
        properties = reply.pushed_properties if is_delayed else reply.properties
        message = self._sending.message(call, reply.queue_id, properties, call.body)
        message.sys_flag = 0  # upstream leaves it out
        try:
            put = self._broker.puts.put(message, now_ms)
        except (PutRefused, Refusal):
            return answer
        msg_id = offset_msg_id(self._broker.store_host, put.position)
        answer.header = SendMessageReply(msg_id, reply.queue_id, put.queue_offset)
        if not (self._broker.puts_wait and waits_for_safety(reply.properties)):
            return answer
        return self._acknowledging.after(answer, put.position + put.size, now_ms)


class _Delivery:
    """One checked reply on its way: the call, its queue, and the properties to push and store."""

    __slots__ = (
        "call",
        "client",
        "correlation_id",
        "properties",
        "pushed_properties",
        "queue_id",
    )

    def __init__(self, call: Call[SendRequest], queue_id: int, properties: str) -> None:
        self.call = call
        self.queue_id = queue_id
        self.properties = self.pushed_properties = properties
        self.client = property_of(properties, REPLY_TO_CLIENT) or ""
        self.correlation_id = property_of(properties, CORRELATION_ID) or ""

    def note_push(self, now_ms: int, *, trailing: bool) -> None:
        """The reply is pushed at *now_ms*, which is one of its properties from now on."""
        properties = without_property(self.properties, PUSH_REPLY_TIME)
        self.pushed_properties = with_property(
            properties, PUSH_REPLY_TIME, str(now_ms), trailing=trailing
        )
