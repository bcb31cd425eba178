"""Sending: checks and stores a message, and answers its queue and offset.

Answers SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE in every release.  The checks, their
order and their codes are upstream's, oddities included: a topic's own write permission is not
checked here, and a queue id between the write and the read count is accepted.
A message of a transaction (TRAN_MSG) is stored as a half message; its reply has the offset in the
half topic.  There are no static topics.  ``replies`` uses the same checks.

Upstream: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from rocketmq_emulator.broker.handlers.acknowledging import Acknowledging
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.store.appender import (
    MessageToStore,
    PutRefused,
    PutResult,
    PutStatus,
)
from rocketmq_emulator.broker.store.put_chain import delay_level, java_long, waits_for_safety
from rocketmq_emulator.broker.tables.checks import check_writable, client_retries_max
from rocketmq_emulator.facts import SendRefused
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result, Wait
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.catalog import SEND_BATCH_MESSAGE
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import (
    TOPIC_UNIT,
    TOPIC_UNIT_SUB,
    transaction_type,
)
from rocketmq_emulator.protocol.messages.batch import BadBatch, decode_batch, with_batch_properties
from rocketmq_emulator.protocol.messages.message_ids import (
    RecallHandle,
    UniqKeys,
    host_bytes,
    offset_msg_id,
)
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse, in_delay
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX, TOPICS_NOT_SENDABLE
from rocketmq_emulator.protocol.messages.properties import (
    CLUSTER,
    DELAY,
    MSG_REGION,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    REAL_TOPIC,
    TAGS,
    TIMER_OUT_MS,
    TRACE_ON,
    TRAN_MSG,
    UNIQ_KEY,
    WAIT,
    properties_text,
    property_of,
    with_property,
    without_property,
)
from rocketmq_emulator.protocol.messages.validation import broker_refuses_topic
from rocketmq_emulator.protocol.requests.sending import SendMessageReply, SendRequest
from rocketmq_emulator.protocol.versions import RECALL_KNOWN
from rocketmq_emulator.settings.releases import (
    ABSENT_NAMES_FAIL,
    BUSY_LOG_IS_SYSTEM_BUSY,
    DEAD_AFTER_ONE_MORE_RETRY,
    EMPTY_BODY_FAILS,
    EMPTY_BODY_REFUSED,
    LAST_PROPERTY_OPEN,
    MSG_REGION_STORED,
    ORDERLY_RETRY_GOES_TO_DLQ,
    RETRIES_ARE_NOT_HALF,
    RETRY_BATCH_TAKEN,
    TIMER_MESSAGES_KNOWN,
    TOPIC_ATTRIBUTES_SHOWN,
    UNIQ_KEY_ADDED,
    WAIT_DROPPED,
)

BATCH_MESSAGES_MAX = 100_000  # ours: upstream's only limit is the body's size
_TIMER = "TIMER_"  # the prefix of the properties of delivery times
_DELAYED, _TRANSACTIONAL, _WAITS = (
    DELAY + NAME_VALUE_SEPARATOR,
    TRAN_MSG + NAME_VALUE_SEPARATOR,
    WAIT + NAME_VALUE_SEPARATOR,
)

# Upstream: SendMessageProcessor.handlePutMessageResult.
_ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. msg body length "
    "limit {bytes_max}B, msg properties length limit 32KB."
)
_UNAVAILABLE = (
    "service not available now. It may be caused by one of the following reasons: "
    "the broker's disk is full [{reason}], messages are put to the slave, "
    "message store has been shut down, etc."
)
PUT_REFUSALS = {
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        _UNAVAILABLE,
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_BUSY,  # before 5.3.0: SYSTEM_ERROR
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, "{reason}"),
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: (ResponseCode.SYSTEM_ERROR, "{reason}"),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: (ResponseCode.SYSTEM_ERROR, "{reason}"),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: (
        ResponseCode.SYSTEM_ERROR,
        "in-sync replicas not enough",
    ),
}


class SendMessageProcessor:
    """SEND_MESSAGE in its three forms."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        release = self._release = broker.release
        self._adds_uniq_key = release >= UNIQ_KEY_ADDED
        self._ignores_times = release < TIMER_MESSAGES_KNOWN
        self._watched_tags = broker.misuses.tags.open
        self._acknowledging = Acknowledging(broker)
        self._drops_wait = WAIT_DROPPED.holds(release)
        self._region = broker.config.region
        self._trace = "true" if broker.config.trace_on else "false"
        self._reply_header = partial(
            SendMessageReply, region_id=self._region, trace_on=self._trace
        )
        self.region_extra = {MSG_REGION: self._region, TRACE_ON: self._trace}
        ip = broker.store_host[:-4]
        self._uniq_keys = UniqKeys(ip, pid=0, loader_hash=rng.getrandbits(32))
        added = {CLUSTER: broker.config.cluster}
        if release >= MSG_REGION_STORED:
            added = {MSG_REGION: self._region, **added, TRACE_ON: self._trace}
        self._added_names = [(name, f"{name}{NAME_VALUE_SEPARATOR}") for name in added]
        self._added_properties = properties_text(
            added, trailing=not LAST_PROPERTY_OPEN.holds(release)
        )

    def send(self, call: Call[SendRequest]) -> Result:
        """Store the message, or each member of a batch; a missing topic may be created."""
        try:
            return self._send(call)
        except PutRefused as refused:
            code, form = PUT_REFUSALS[refused.status]
            if code == ResponseCode.SYSTEM_BUSY and self._release < BUSY_LOG_IS_SYSTEM_BUSY:
                code = ResponseCode.SYSTEM_ERROR
            bytes_max = self._broker.config.message_bytes_max
            remark = form.format(reason=refused.reason, bytes_max=bytes_max)
            return self.refused(call, code, remark, refused.reason)
        except Refusal as refusal:
            return self.refused(call, refusal.code, refusal.remark, refusal.remark)

    def refused(self, call: Call[SendRequest], code: int, remark: str, reason: str) -> Reply:
        """Refusals carry MSG_REGION too: Java clients read it before the code.

        Failures (``BadFields``) do not carry it: upstream creates another reply for them.
        """
        if self._broker.wants(SendRefused):
            self._broker.note(SendRefused(call.request.topic or "", code, reason))
        return Reply(code=code, remark=remark, extra=self.region_extra)

    def _send(self, call: Call[SendRequest]) -> Result:
        request = call.request
        name = request.topic
        if name is None:
            if self._release >= ABSENT_NAMES_FAIL:
                raise BadFields("a message without a topic")
            name = ""
        queue_id = self.checked_queue(call, name, self.send)
        if not isinstance(queue_id, int):
            return queue_id
        if not call.command.body and self._release >= EMPTY_BODY_REFUSED:
            if self._release >= EMPTY_BODY_FAILS:
                raise BadFields("a message without a body")
            raise PutRefused(PutStatus.MESSAGE_ILLEGAL, "a message without a body")
        retries_max = None
        if name.startswith(RETRY_GROUP_TOPIC_PREFIX):
            retries_max = self._retries_max(name, call)
        if request.batch:
            return self._store_batch(call, queue_id)
        return self._store(call, queue_id, retries_max)

    def _store(self, call: Call[SendRequest], queue_id: int, retries_max: int | None) -> Result:
        request, broker = call.request, self._broker
        properties, uniq_key = request.properties or "", None
        if self._adds_uniq_key:
            uniq_key = property_of(properties, UNIQ_KEY)
            if uniq_key is None:
                uniq_key = self._uniq_keys.make(call.now_ms)
                properties = with_property(properties, UNIQ_KEY, uniq_key, trailing=True)
        message = self.message(call, queue_id, self._with_added(properties), call.command.body)
        message.retries_max = retries_max
        if _TRANSACTIONAL in properties:
            message.is_half = self._is_half(message)
        forgets_wait = self._drops_wait and _WAITS in properties and not message.is_half
        if forgets_wait and (_DELAYED not in properties or delay_level(properties) <= 0):
            message.properties = without_property(message.properties, WAIT)
        put = broker.puts.put(message, call.now_ms)
        if (
            message.topic in self._watched_tags
            or _DELAYED in properties
            or (self._ignores_times and _TIMER in properties)
        ):
            self._look_for_misuses(call, properties)
        msg_id = offset_msg_id(broker.store_host, put.position)
        reply = Reply(
            self._reply_header(
                msg_id=msg_id,
                queue_id=queue_id,
                queue_offset=put.queue_offset,
                transaction_id=uniq_key,
                recall_handle=self._recall_handle(put) if put.timer_text else None,
            )
        )
        return self._when_safe(call, put, reply) if broker.puts_wait else reply

    def _recall_handle(self, put: PutResult) -> str | None:
        """The handle to recall a timer message; None for other messages and retries.

        Upstream: SendMessageProcessor.attachRecallHandle.
        """
        text = put.timer_text
        topic = property_of(text, REAL_TOPIC)
        out_ms = java_long(property_of(text, TIMER_OUT_MS) or "")
        if self._release < RECALL_KNOWN or topic is None or out_ms is None:
            return None
        if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            return None
        # Plus 1 ms, because the slot is the time rounded down.
        key = property_of(text, UNIQ_KEY) or ""
        name = self._broker.config.name
        return RecallHandle(topic, name, str(out_ms + 1), key).encode()

    def _when_safe(self, call: Call[SendRequest], put: PutResult, reply: Reply) -> Result:
        """*reply* when *put* is as safe as the broker promises; at once without WAIT.

        A batch waits if its first message does.  Upstream: CommitLog.submitFlushRequest.
        """
        if not waits_for_safety(call.request.properties or ""):
            return reply
        end = put.position + put.size
        return self._acknowledging.after(reply, end, call.now_ms, has_codes=True)

    # Checks ---------------------------------------------------------------------------

    def checked_queue(
        self, call: Call[SendRequest], name: str, again: Callable[[Call[SendRequest]], Result]
    ) -> int | Wait:
        """The queue of a message to topic *name*; a missing topic may be created.

        A ``Wait`` if the new topic is being registered: then *again* handles the call.
        Raises ``Refusal``.  Upstream: AbstractSendMessageProcessor.msgCheck.
        """
        topic = self._broker.topics.topic_config_table.get(name)
        if topic is None or name in TOPICS_NOT_SENDABLE:
            self._check_name(name)
            topic = self._create(name, call.request, call.now_ms)
            if (bell := self._broker.registering(name)) is not None:
                # Since 5.1.4 a new topic is registered at every NameServer before the answer.
                return self._after_registration(bell, call, again)
        return self._queue(call, topic)

    def _check_name(self, name: str) -> None:
        if (problem := broker_refuses_topic(name)) is not None:
            raise Refusal(self._broker.bad_parameter_code, problem)
        if name in TOPICS_NOT_SENDABLE:
            raise Refusal(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )

    def _create(self, name: str, request: SendRequest, now_ms: int) -> TopicConfig:
        """Create a missing topic.  Upstream: TopicConfigManager.createTopicInSendMessageMethod."""
        broker = self._broker
        template, queues_max = request.default_topic, request.default_topic_queue_nums
        if template is None or queues_max is None:
            raise BadFields(f"a new topic {name} without a template")
        is_retry = name.startswith(RETRY_GROUP_TOPIC_PREFIX)
        flag = (TOPIC_UNIT_SUB if is_retry else TOPIC_UNIT) if request.unit_mode else 0
        made = broker.create_topic_on_send(name, template, queues_max, now_ms, sys_flag=flag)
        if made is None and is_retry:
            made = broker.ensure_topic(name, 1, now_ms, by="send", sys_flag=flag)
        if made is None:
            remark = f"topic[{name}] not exist, apply first please!{broker.see_faq}"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
        return made

    def _queue(self, call: Call[SendRequest], topic: TopicConfig) -> int:
        if topic.order:
            check_writable(self._broker.config, self._broker.host)
        queue_id = call.request.queue_id
        if queue_id < 0:
            return self._rng.randrange(max(1, topic.write_queue_nums))
        if queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            shown = _shown(topic, has_attributes=self._release >= TOPIC_ATTRIBUTES_SHOWN)
            remark = (
                f"request queueId[{queue_id}] is illegal, {shown} Producer: {call.peer.address}"
            )
            raise Refusal(self._broker.bad_parameter_code, remark)
        return queue_id

    def _is_half(self, message: MessageToStore) -> bool:
        """Whether the message waits for its transaction; raises ``Refusal`` if none may.

        The type in its system flag does not count.
        """
        text = message.properties
        if (property_of(text, TRAN_MSG) or "").lower() != "true":
            return False
        is_retry = message.reconsume_times > 0 and delay_level(text) > 0
        if is_retry and self._release >= RETRIES_ARE_NOT_HALF:
            return False
        if self._broker.config.reject_transactions:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker.host}] sending transaction message is forbidden",
            )
        return True

    def _look_for_misuses(self, call: Call[SendRequest], properties: str) -> None:
        """Of a message that was stored: a delay that does not hold, tags that nobody wants."""
        broker, topic = self._broker, call.request.topic or ""
        tags = broker.misuses.tags
        for found in tags.stored(topic, property_of(properties, TAGS), broker.clients.subscribes):
            broker.misuses.notice(found)
        level_max = broker.store.levels.level_max
        seen = in_delay(topic, properties, level_max, knows_times=not self._ignores_times)
        if seen is not None:
            client = call.peer.client_id or call.peer.address
            group = call.request.producer_group or ""
            broker.misuses.notice(FoundMisuse(seen[0], client, group, topic, seen[1]))

    # Storing --------------------------------------------------------------------------

    def message(
        self, call: Call[SendRequest], queue_id: int, properties: str, body: bytes
    ) -> MessageToStore:
        """The message of a request, with *properties* instead of the request's."""
        request = call.request
        return MessageToStore(
            topic=request.topic or "",
            queue_id=queue_id,
            body=body,
            properties=properties,
            flag=request.flag,
            sys_flag=request.sys_flag,
            born_ms=request.born_timestamp,
            born_host=host_bytes(call.peer.address),
            reconsume_times=request.reconsume_times or 0,
        )

    def _with_added(self, properties: str) -> str:
        """The sender's properties with those that the broker adds, in place of older ones.

        A message that comes from another broker has them: an acting master sent it.
        """
        for name, key in self._added_names:
            if key in properties:
                properties = without_property(properties, name)
        if not properties:
            return self._added_properties
        between = "" if properties.endswith(PROPERTY_SEPARATOR) else PROPERTY_SEPARATOR
        return f"{properties}{between}{self._added_properties}"

    def _store_batch(self, call: Call[SendRequest], queue_id: int) -> Result:
        """Store each member of a batch as its own record, with consecutive queue offsets."""
        request, broker = call.request, self._broker
        try:
            members = decode_batch(call.body, BATCH_MESSAGES_MAX)
        except BadBatch as error:
            raise BadFields(f"the body is no batch: {error}") from error
        properties = request.properties or ""
        if delay_level(properties) > 0 or transaction_type(request.sys_flag):
            raise PutRefused(PutStatus.MESSAGE_ILLEGAL, "a batch with a delay level, or prepared")
        whole = self.message(call, queue_id, self._with_added(properties), b"")
        whole = broker.puts.shared(whole, call.now_ms)
        shared = whole.properties.encode()
        messages = []
        for member in members:
            text = str(with_batch_properties(member.properties, shared), "utf-8", "replace")
            message = self.message(call, whole.queue_id, text, member.body)
            message.topic, message.flag = whole.topic, member.flag
            messages.append(message)
        puts = broker.puts.put_all(messages, call.now_ms)
        if request.topic in self._watched_tags:
            for message in messages:
                self._look_for_misuses(call, message.properties)
        ids = ",".join(offset_msg_id(broker.store_host, put.position) for put in puts)
        uniq_key = property_of(properties, UNIQ_KEY) if self._adds_uniq_key else None
        may_recall = puts[0].timer_text and call.command.code != SEND_BATCH_MESSAGE.code
        handle = self._recall_handle(puts[0]) if may_recall else None
        reply = Reply(
            self._reply_header(
                msg_id=ids,
                queue_id=queue_id,
                queue_offset=puts[0].queue_offset,
                transaction_id=uniq_key,
                recall_handle=handle,
            )
        )
        return self._when_safe(call, puts[-1], reply) if broker.puts_wait else reply

    def _retries_max(self, name: str, call: Call[SendRequest]) -> int | None:
        """The retries after which a message sent to a retry topic becomes a dead letter.

        None for an allowed batch, which is no retry; raises ``Refusal`` for any other batch.
        Upstream: AbstractSendMessageProcessor.handleRetryAndDLQ.
        """
        broker, request = self._broker, call.request
        if request.batch and RETRY_BATCH_TAKEN.holds(self._release):
            return None
        group = name[len(RETRY_GROUP_TOPIC_PREFIX) :]
        config = broker.groups.require(group, call.now_ms, by="send")
        if request.batch:
            remark = f"batch request does not support retry group {name}"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
        locks_count = self._release >= ORDERLY_RETRY_GOES_TO_DLQ
        if locks_count and broker.locks.holds_any(group, call.now_ms):
            return -1
        retries_max = client_retries_max(call.command.version, request.max_reconsume_times)
        if retries_max is None:
            retries_max = config.retry_max_times
        return retries_max if self._release >= DEAD_AFTER_ONE_MORE_RETRY else retries_max - 1

    def _after_registration(
        self,
        bell: object,
        call: Call[SendRequest],
        again: Callable[[Call[SendRequest]], Result],
    ) -> Wait:
        def then(now_ms: int, _expired: bool) -> Result:
            call.now_ms = now_ms
            return again(call)  # creates the topic again if it was deleted meanwhile

        return Wait(bell, call.now_ms + self._broker.register_call_ms_max, then)


def _shown(topic: TopicConfig, *, has_attributes: bool) -> str:
    """The topic as a text in remarks.  Upstream: TopicConfig.toString."""
    order = "true" if topic.order else "false"
    attributes = ", attributes={}" if has_attributes else ""  # always empty here
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={flags.perm_text(topic.perm)}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={order}{attributes}]"
    )
