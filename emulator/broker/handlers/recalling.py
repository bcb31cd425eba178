"""Recalling: cancels the delivery of a waiting timer message.

Answers RECALL_MESSAGE in the releases that have it (5.3.2 and later), if the configuration allows
it.  A recall is stored as a delete message, which waits in the same slot and has the key of the
recalled message; whether that message exists is not checked.  So a recall in time is answered
SUCCESS for any valid handle, and a late recall is refused for its time.  Does not recall messages
with a delay level.

Upstream: RecallMessageProcessor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.handlers.acknowledging import Acknowledging
from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused
from rocketmq_emulator.broker.store.put_chain import java_long
from rocketmq_emulator.broker.store.timer_wheel import timer_delete_key
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.message_ids import (
    BadHandle,
    RecallHandle,
    decode_handle,
    host_bytes,
)
from rocketmq_emulator.protocol.messages.properties import (
    BORN_TIMESTAMP,
    MSG_REGION,
    PGROUP,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    properties_text,
)
from rocketmq_emulator.protocol.requests.sending import RecallMessageReply, RecallMessageRequest

if TYPE_CHECKING:
    from rocketmq_emulator.broker.state.broker import Broker

RECALL_TAG = "_RECALL_TAG_"
_BODY = b"0"
_NO_CODE = "not set any response code"  # upstream's default remark, also of a success
_NOT_SERVED = "recall failed, broker service not available"


class RecallMessageProcessor:
    """RECALL_MESSAGE."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._acknowledging = Acknowledging(broker)
        self._extra = {MSG_REGION: broker.config.region}
        self._reply = partial(Reply, extra=self._extra)

    def recall(self, call: Call[RecallMessageRequest]) -> Result:
        """Store the delete message of the recalled one."""
        try:
            handle = self._checked(call.request, call.now_ms)
            put = self._broker.puts.put(self._delete_message(handle, call), call.now_ms)
        except PutRefused:
            return self._reply(
                code=ResponseCode.SYSTEM_ERROR, remark="recall failed, execute error"
            )
        except Refusal as refusal:
            return self._reply(code=refusal.code, remark=refusal.remark)
        reply = self._reply(RecallMessageReply(msg_id=handle.uniq_key), remark=_NO_CODE)
        if not self._broker.puts_wait:
            return reply
        return self._acknowledging.after(reply, put.position + put.size, call.now_ms)

    def _checked(self, request: RecallMessageRequest, now_ms: int) -> RecallHandle:
        """The decoded handle of a valid request.  Raises ``Refusal``."""
        broker, config = self._broker, self._broker.config
        if not config.recall_message:
            raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        if config.is_slave:
            raise Refusal(ResponseCode.SLAVE_NOT_AVAILABLE, _NOT_SERVED)
        if not config.perm & flags.PERM_WRITE and not config.recall_when_not_writeable:
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, _NOT_SERVED)
        if broker.topics.get(request.topic) is None:
            remark = f"recall failed, the topic[{request.topic}] not exist"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
        try:
            handle = decode_handle(request.recall_handle or "")
        except BadHandle as error:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, str(error)) from error
        if handle.topic != request.topic:
            remark = "recall failed, topic not match"
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, remark)
        if handle.broker_name != config.name:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, _NOT_SERVED)
        left_ms = (java_long(handle.deliver_ms) or -1) - now_ms
        if not 0 < left_ms < config.timer_delay_s_max * 1_000:
            remark = "recall failed, timestamp invalid"
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, remark)
        return handle

    def _delete_message(
        self, handle: RecallHandle, call: Call[RecallMessageRequest]
    ) -> MessageToStore:
        now_ms = call.now_ms
        properties = {
            TAGS: RECALL_TAG,
            TIMER_DEL_UNIQKEY: timer_delete_key(handle.topic, handle.uniq_key, names_topic=True),
            UNIQ_KEY: handle.uniq_key,
            TIMER_DELIVER_MS: handle.deliver_ms,
            BORN_TIMESTAMP: str(now_ms),
            PGROUP: call.request.producer_group,
        }
        return MessageToStore(
            topic=handle.topic,
            queue_id=0,
            body=_BODY,
            properties=properties_text(properties.items(), trailing=True),
            flag=0,
            sys_flag=0,
            born_ms=now_ms,
            born_host=host_bytes(call.peer.address),
        )
