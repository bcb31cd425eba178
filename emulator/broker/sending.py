"""Sending: a message is checked, stored, and its place is answered.

Which checks there are, their order and their codes are upstream's, oddities included: a
topic's own write permission is not asked here, and a queue id between the write and the
read count is taken.

Upstream: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from emulator.broker.draft import Draft
from emulator.broker.messages import refusal_of
from emulator.broker.put_status import PutRefused
from emulator.facts import SendRefused
from emulator.net.remoting import refused as refused_reply
from emulator.net.results import Call, Refusal, Reply, Result, Wait
from emulator.releases import FIVE, INVALID_PARAMETER_CODE, ORDERLY_RETRY_GOES_TO_DLQ
from protocol import catalog, perm
from protocol.batch import BadBatch, decode_batch
from protocol.codes import RequestCode, ResponseCode
from protocol.hosts import host_bytes
from protocol.message_ids import offset_msg_id
from protocol.names import (
    RETRY_GROUP_TOPIC_PREFIX,
    TOPICS_NOT_SENDABLE,
    dlq_topic,
)
from protocol.properties import DELAY, NAME_END, TRAN_MSG, UNIQ_KEY
from protocol.property_text import property_of, without_property
from protocol.requests.sending import SendMessageReply, SendMessageRequest
from protocol.validation import broker_refuses_topic

if TYPE_CHECKING:
    from emulator.broker.broker import Broker
    from emulator.net.remoting import Table
    from protocol.bodies.topics import TopicConfig

BATCH_MESSAGES_MAX = 100_000  # ours: upstream's only limit is the body's size
CLIENT_MAX_RECONSUME_SINCE = 121  # V3_4_9: older clients cannot say how often they retry
_DELAYED, _TRANSACTIONAL = DELAY + NAME_END, TRAN_MSG + NAME_END


class Sending:
    """SEND_MESSAGE in its three forms."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        release = broker.release
        self._is_five = release >= FIVE
        self._locks_mean_dlq = release >= ORDERLY_RETRY_GOES_TO_DLQ
        self._bad_parameter = (
            ResponseCode.INVALID_PARAMETER
            if release >= INVALID_PARAMETER_CODE
            else ResponseCode.SYSTEM_ERROR
        )
        self._region = broker.config.region
        self._trace = "true" if broker.config.trace_on else "false"

    def handlers(self) -> Table:
        return {
            RequestCode.SEND_MESSAGE: (catalog.SEND_MESSAGE, self.send),
            RequestCode.SEND_MESSAGE_V2: (catalog.SEND_MESSAGE_V2, self.send),
            RequestCode.SEND_BATCH_MESSAGE: (catalog.SEND_BATCH_MESSAGE, self.send),
        }

    def send(self, call: Call) -> Result:
        try:
            return self._send(call)
        except PutRefused as refused:
            raise self._noted(call, refusal_of(refused)) from refused
        except Refusal as refusal:
            raise self._noted(call, refusal) from None

    def _noted(self, call: Call, refusal: Refusal) -> Refusal:
        if self._broker.wants(SendRefused):
            fact = SendRefused(call.request.topic, refusal.code, refusal.remark)
            self._broker.note(fact)
        return refusal

    def _send(self, call: Call) -> Result:
        broker, request = self._broker, call.request
        name = request.topic
        topic = broker.topics.get(name)
        if topic is None or name in TOPICS_NOT_SENDABLE:
            self._check_name(name)
            topic = self._create(request, call.now_ms)
            if (bell := broker.registering(name)) is not None:
                # From 5.1.4 on every NameServer knows a topic before its first send is answered.
                return self._after_registration(bell, call)
        return self._store(call, request, topic)

    def _store(self, call: Call, request: SendMessageRequest, topic: TopicConfig) -> Reply:
        queue_id = self._queue(request, topic)
        if request.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            return self._send_retry(call, request, queue_id)
        if request.batch:
            return self._store_batch(call, request, queue_id)
        properties = request.properties or ""
        stored = self._broker.messages.stored_properties(properties)
        draft = self._draft(call, request, stored, call.body)
        if _DELAYED in properties or _TRANSACTIONAL in properties:
            self._check_transaction(properties)
            put = self._broker.messages.put_delayable(request.topic, queue_id, draft, call.now_ms)
        else:
            put = self._broker.messages.put(request.topic, queue_id, draft, call.now_ms)
        header = SendMessageReply(
            msg_id=offset_msg_id(self._broker.store_host, put.position),
            queue_id=queue_id,
            queue_offset=put.queue_offset,
            transaction_id=property_of(properties, UNIQ_KEY) if self._is_five else None,
            region_id=self._region,
            trace_on=self._trace,
        )
        return Reply(header)

    # Checks ---------------------------------------------------------------------------

    def _check_name(self, name: str) -> None:
        if (problem := broker_refuses_topic(name)) is not None:
            raise Refusal(self._bad_parameter, problem)
        if name in TOPICS_NOT_SENDABLE:
            raise Refusal(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )

    def _create(self, request: SendMessageRequest, now_ms: int) -> TopicConfig:
        """Upstream: TopicConfigManager.createTopicInSendMessageMethod."""
        broker, name = self._broker, request.topic
        made = broker.create_topic_on_send(
            name, request.default_topic, request.default_topic_queue_nums, now_ms
        )
        if made is None and name.startswith(RETRY_GROUP_TOPIC_PREFIX):
            made = broker.ensure_topic(name, 1, now_ms, by="send")
        if made is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
            )
        return made

    def _queue(self, request: SendMessageRequest, topic: TopicConfig) -> int:
        if topic.order and not self._broker.config.perm & perm.WRITE:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker.address}] sending message is forbidden",
            )
        queue_id = request.queue_id
        if queue_id < 0:
            return self._rng.randrange(max(1, topic.write_queue_nums))
        if queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            raise Refusal(self._bad_parameter, f"request queueId[{queue_id}] is illegal, {topic}")
        return queue_id

    def _check_transaction(self, properties: str) -> None:
        if property_of(properties, TRAN_MSG) == "true" and self._broker.config.reject_transactions:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker.address}] sending transaction message is forbidden",
            )

    # Storing --------------------------------------------------------------------------

    def _draft(
        self, call: Call, request: SendMessageRequest, properties: str, body: bytes
    ) -> Draft:
        return Draft(
            body=body,
            properties=properties,
            flag=request.flag,
            sys_flag=request.sys_flag,
            born_ms=request.born_timestamp,
            born_host=host_bytes(call.peer.address),
            reconsume_times=request.reconsume_times or 0,
        )

    def _store_batch(self, call: Call, request: SendMessageRequest, queue_id: int) -> Reply:
        """Members become records of their own, in one row of queue offsets."""
        broker = self._broker
        try:
            members = decode_batch(call.body, BATCH_MESSAGES_MAX)
        except BadBatch as error:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL, f"the batch is illegal: {error}"
            ) from error
        drafts = []
        for member in members:
            own = str(member.properties, "utf-8", "replace")
            text = broker.messages.member_properties(own)
            draft = self._draft(call, request, text, member.body)
            draft.flag = member.flag
            drafts.append(draft)
        if not drafts:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
        puts = broker.messages.put_all(request.topic, queue_id, drafts, call.now_ms)
        header = SendMessageReply(
            msg_id=",".join(offset_msg_id(broker.store_host, put.position) for put in puts),
            queue_id=queue_id,
            queue_offset=puts[0].queue_offset,
            region_id=self._region,
            trace_on=self._trace,
        )
        return Reply(header)

    def _send_retry(self, call: Call, request: SendMessageRequest, queue_id: int) -> Reply:
        """A consumer publishes to its own retry topic; too often, and it is the DLQ's.

        Upstream: AbstractSendMessageProcessor.handleRetryAndDLQ.
        """
        broker, group = self._broker, request.topic[len(RETRY_GROUP_TOPIC_PREFIX) :]
        config = broker.groups.find(group, call.now_ms, by="send")
        if config is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {group}",
            )
        if request.batch:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch to a retry topic is illegal")
        times_max = config.retry_max_times
        if request.max_reconsume_times is not None and (
            call.command.version >= CLIENT_MAX_RECONSUME_SINCE
        ):
            times_max = request.max_reconsume_times
        times = request.reconsume_times or 0
        properties, name = request.properties or "", request.topic
        if self._is_dead(group, times, times_max, call.now_ms):
            name, queue_id = dlq_topic(group), 0
            broker.ensure_topic(name, 1, call.now_ms, by="send")
            if self._is_five:
                properties = without_property(properties, DELAY)
        draft = self._draft(
            call, request, broker.messages.stored_properties(properties), call.body
        )
        put = broker.messages.put_delayable(name, queue_id, draft, call.now_ms)
        header = SendMessageReply(
            msg_id=offset_msg_id(broker.store_host, put.position),
            queue_id=queue_id,
            queue_offset=put.queue_offset,
            transaction_id=property_of(properties, UNIQ_KEY) if self._is_five else None,
            region_id=self._region,
            trace_on=self._trace,
        )
        return Reply(header)

    def _is_dead(self, group: str, times: int, times_max: int, now_ms: int) -> bool:
        if self._locks_mean_dlq and self._broker.locks.holds_any(group, now_ms):
            return True
        return times > times_max if self._is_five else times >= times_max

    def _after_registration(self, bell: object, call: Call) -> Wait:
        def then(now_ms: int, _expired: bool) -> Result:
            topic = self._broker.topics.get(call.request.topic)
            assert topic is not None, "topics are not deleted while their first send waits"
            call.now_ms = now_ms
            try:
                return self._store(call, call.request, topic)
            except PutRefused as refused:
                return refused_reply(refusal_of(refused), catalog.SEND_MESSAGE)
            except Refusal as refusal:
                return refused_reply(refusal, catalog.SEND_MESSAGE)

        return Wait(bell, call.now_ms + self._broker.register_call_ms_max, then)
