"""Sending: a message is checked, stored, and its place is answered.

Which checks there are, their order and their codes are upstream's, oddities included: a
topic's own write permission is not asked here, and a queue id between the write and the
read count is taken.

Upstream: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from emulator.broker.checks import check_writable
from emulator.broker.handlers.retries import group_that_retries, times_max
from emulator.broker.store.draft import Draft
from emulator.broker.store.messages import refusal_of
from emulator.broker.store.put_status import PutRefused, PutStatus
from emulator.facts import SendRefused
from emulator.net.results import Call, Refusal, Reply, Result, Wait
from emulator.releases import FIVE, ORDERLY_RETRY_GOES_TO_DLQ
from protocol import perm
from protocol.batch import BadBatch, decode_batch, with_shared
from protocol.codes import ResponseCode
from protocol.fields import BadFields
from protocol.hosts import host_bytes
from protocol.message_ids import UniqKeys, offset_msg_id
from protocol.names import (
    RETRY_GROUP_TOPIC_PREFIX,
    TOPICS_NOT_SENDABLE,
    dlq_topic,
)
from protocol.properties import DELAY, MSG_REGION, NAME_END, TRACE_ON, TRAN_MSG, UNIQ_KEY
from protocol.property_text import property_of, with_property, without_property
from protocol.requests.sending import SendMessageReply, SendRequest
from protocol.sysflag import transaction_type
from protocol.validation import broker_refuses_topic

if TYPE_CHECKING:
    from emulator.broker.broker import Broker
    from protocol.bodies.topics import TopicConfig

BATCH_MESSAGES_MAX = 100_000  # ours: upstream's only limit is the body's size
_DELAYED, _TRANSACTIONAL = DELAY + NAME_END, TRAN_MSG + NAME_END
_LEVEL = re.compile(r"[+-]?\d{1,9}")


class SendMessageProcessor:
    """SEND_MESSAGE in its three forms."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        release = broker.release
        self._is_five = release >= FIVE
        self._locks_mean_dlq = release >= ORDERLY_RETRY_GOES_TO_DLQ
        self._region = broker.config.region
        self._trace = "true" if broker.config.trace_on else "false"
        self._refused_extra = {MSG_REGION: self._region, TRACE_ON: self._trace}
        ip = broker.store_host[:-4]
        self._uniq_keys = UniqKeys(ip, pid=0, loader_hash=rng.getrandbits(32))

    def send(self, call: Call[SendRequest]) -> Result:
        try:
            return self._send(call)
        except PutRefused as refused:
            return self._refused(call, refusal_of(refused))
        except Refusal as refusal:
            return self._refused(call, refusal)

    def _refused(self, call: Call[SendRequest], refusal: Refusal) -> Reply:
        """Refusals carry MSG_REGION too: Java clients read it before the code."""
        if self._broker.wants(SendRefused):
            fact = SendRefused(call.request.topic, refusal.code, refusal.remark)
            self._broker.note(fact)
        return Reply(code=refusal.code, remark=refusal.remark, extra=self._refused_extra)

    def _send(self, call: Call[SendRequest]) -> Result:
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

    def _store(self, call: Call[SendRequest], request: SendRequest, topic: TopicConfig) -> Reply:
        queue_id = self._queue(request, topic)
        properties, name = request.properties or "", request.topic
        if self._is_five and not call.body:
            raise BadFields("a message without a body")
        is_retry = name.startswith(RETRY_GROUP_TOPIC_PREFIX)
        if request.batch and not (is_retry and self._is_five):
            return self._store_batch(call, request, queue_id)
        if is_retry:
            name, queue_id, properties = self._retry(call, request, queue_id)
        uniq_key = None
        if self._is_five:
            uniq_key = property_of(properties, UNIQ_KEY)
            if uniq_key is None:
                uniq_key = self._uniq_keys.make(call.now_ms)
                properties = with_property(properties, UNIQ_KEY, uniq_key, trailing=True)
        messages = self._broker.messages
        if _DELAYED in properties or _TRANSACTIONAL in properties:
            self._check_transaction(properties)
            waits = _level(properties) > 0
            text = messages.member_properties if waits else messages.stored_properties
            draft = self._draft(call, request, text(properties), call.body)
            put = messages.put_delayable(name, queue_id, draft, call.now_ms)
        else:
            stored = messages.stored_properties(properties)
            draft = self._draft(call, request, stored, call.body)
            put = messages.put(name, queue_id, draft, call.now_ms)
        header = SendMessageReply(
            msg_id=offset_msg_id(self._broker.store_host, put.position),
            queue_id=queue_id,
            queue_offset=put.queue_offset,
            transaction_id=uniq_key,
            region_id=self._region,
            trace_on=self._trace,
        )
        return Reply(header)

    # Checks ---------------------------------------------------------------------------

    def _check_name(self, name: str) -> None:
        if (problem := broker_refuses_topic(name)) is not None:
            raise Refusal(self._broker.bad_parameter_code, problem)
        if name in TOPICS_NOT_SENDABLE:
            raise Refusal(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )

    def _create(self, request: SendRequest, now_ms: int) -> TopicConfig:
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

    def _queue(self, request: SendRequest, topic: TopicConfig) -> int:
        if topic.order:
            check_writable(self._broker.config, self._broker.address)
        queue_id = request.queue_id
        if queue_id < 0:
            return self._rng.randrange(max(1, topic.write_queue_nums))
        if queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            remark = f"request queueId[{queue_id}] is illegal, {_shown(topic)}"
            raise Refusal(self._broker.bad_parameter_code, remark)
        return queue_id

    def _check_transaction(self, properties: str) -> None:
        # Refused unless asked for: a half message that nobody here can commit would be lost.
        if property_of(properties, TRAN_MSG) == "true" and self._broker.config.reject_transactions:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker.address}] sending transaction message is forbidden",
            )

    # Storing --------------------------------------------------------------------------

    def _draft(
        self, call: Call[SendRequest], request: SendRequest, properties: str, body: bytes
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

    def _store_batch(self, call: Call[SendRequest], request: SendRequest, queue_id: int) -> Reply:
        """Members become records of their own, in one row of queue offsets."""
        broker = self._broker
        try:
            members = decode_batch(call.body, BATCH_MESSAGES_MAX)
        except BadBatch as error:
            raise BadFields(f"the body is no batch: {error}") from error
        properties = request.properties or ""
        if _level(properties) > 0 or transaction_type(request.sys_flag):
            raise PutRefused(PutStatus.MESSAGE_ILLEGAL, "a batch neither waits nor is prepared")
        shared = broker.messages.member_properties(properties).encode()
        drafts = []
        for member in members:
            text = str(with_shared(member.properties, shared), "utf-8", "replace")
            draft = self._draft(call, request, text, member.body)
            draft.flag = member.flag
            drafts.append(draft)
        puts = broker.messages.put_all(request.topic, queue_id, drafts, call.now_ms)
        header = SendMessageReply(
            msg_id=",".join(offset_msg_id(broker.store_host, put.position) for put in puts),
            queue_id=queue_id,
            queue_offset=puts[0].queue_offset,
            transaction_id=property_of(properties, UNIQ_KEY) if self._is_five else None,
            region_id=self._region,
            trace_on=self._trace,
        )
        return Reply(header)

    def _retry(
        self, call: Call[SendRequest], request: SendRequest, queue_id: int
    ) -> tuple[str, int, str]:
        """A consumer publishes to its own retry topic; too often, and it is the DLQ's.

        Topic, queue and properties as they are from now on.

        Upstream: AbstractSendMessageProcessor.handleRetryAndDLQ.
        """
        broker, group = self._broker, request.topic[len(RETRY_GROUP_TOPIC_PREFIX) :]
        config = group_that_retries(broker, group, call.now_ms, by="send")
        if request.batch:
            remark = f"batch request does not support retry group {request.topic}"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
        times = request.reconsume_times or 0
        properties, name = request.properties or "", request.topic
        if self._is_dead(group, times, times_max(config, call), call.now_ms):
            name, queue_id = dlq_topic(group), 0
            broker.ensure_topic(name, 1, call.now_ms, by="send")
            if self._is_five:
                properties = without_property(properties, DELAY)
        return name, queue_id, properties

    def _is_dead(self, group: str, times: int, most: int, now_ms: int) -> bool:
        if self._locks_mean_dlq and self._broker.locks.holds_any(group, now_ms):
            return True
        return times > most if self._is_five else times >= most

    def _after_registration(self, bell: object, call: Call[SendRequest]) -> Wait:
        def then(now_ms: int, _expired: bool) -> Result:
            call.now_ms = now_ms
            return self.send(call)  # if the topic was deleted meanwhile, it is made anew

        return Wait(bell, call.now_ms + self._broker.register_call_ms_max, then)


def _level(properties: str) -> int:
    """The delay a sender asks for.  Upstream trips over one that is no number."""
    text = property_of(properties, DELAY) or "0"
    if not _LEVEL.fullmatch(text):
        raise BadFields(f"a delay level is a number, not {text!r:.50}")
    return int(text)


def _shown(topic: TopicConfig) -> str:
    """Upstream: TopicConfig.toString."""
    order = "true" if topic.order else "false"
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm.perm_text(topic.perm)}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={order}]"
    )
