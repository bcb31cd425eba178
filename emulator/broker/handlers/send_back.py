"""A consumer sends a message back: it is redelivered after a delay, or becomes a dead letter.

Answers CONSUMER_SEND_MSG_BACK in every release.  Does not forward from a slave to its master, and
does not read the original's topic and id from the request: the original is read from the log.

Upstream: SendMessageProcessor.asyncConsumerSendMsgBack.
"""

from __future__ import annotations

import random

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, stored_again
from rocketmq_emulator.broker.tables.checks import check_writable, client_retries_max
from rocketmq_emulator.facts import MessageSentBack
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.flags import TOPIC_UNIT_SUB
from rocketmq_emulator.protocol.messages.delay_levels import FIRST_RETRY_LEVEL
from rocketmq_emulator.protocol.messages.message_ids import offset_msg_id
from rocketmq_emulator.protocol.messages.names import dlq_topic, retry_topic
from rocketmq_emulator.protocol.messages.properties import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    WAIT,
    decode_properties,
    properties_text,
)
from rocketmq_emulator.protocol.messages.records import StoredMessage
from rocketmq_emulator.protocol.messages.subscription import to_int32
from rocketmq_emulator.protocol.requests.sending import ConsumerSendMsgBackRequest
from rocketmq_emulator.settings.releases import LAST_PROPERTY_OPEN, SENT_BACK_IS_STORED_HERE


class SendMessageBackProcessor:
    """CONSUMER_SEND_MSG_BACK."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng

    def send_back(self, call: Call[ConsumerSendMsgBackRequest]) -> Result:
        """Store the message again, in the group's retry or dead letter topic."""
        broker, request = self._broker, call.request
        config = broker.groups.require(request.group, call.now_ms, by="send back")
        check_writable(broker.config, broker.host)
        if config.retry_queue_nums <= 0:
            return Reply()  # as upstream: success, and the message is lost
        topic, queue_id = self._retry_queue(request, config, call.now_ms)
        original = broker.store.message_at(request.offset)
        if original is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {request.offset}"
            )
        level = request.delay_level
        retries_max = client_retries_max(call.command.version, request.max_reconsume_times)
        if retries_max is None:
            retries_max = config.retry_max_times
        if original.reconsume_times >= retries_max or level < 0:
            topic, queue_id, level = dlq_topic(request.group), 0, 0
            broker.ensure_topic(topic, 1, call.now_ms, by="send back")
        elif level == 0:
            level = FIRST_RETRY_LEVEL + original.reconsume_times
        try:
            broker.puts.put(self._copy(original, topic, queue_id, level), call.now_ms)
            if level and (early_ms := broker.store.early_deliveries.of(request.offset)):
                broker.delays.advance_last(level, early_ms)
                broker.puts.on_delayed()
        except PutRefused as refused:
            # Upstream answers SYSTEM_ERROR with the name of any status.
            raise Refusal(ResponseCode.SYSTEM_ERROR, refused.status.name) from refused
        broker.store.figures.returned(original.topic, request.group, call.now_ms)
        broker.note(
            MessageSentBack(
                request.group,
                original.topic,
                topic,
                original.reconsume_times + 1,
                level,
                request.offset,
                call.peer.address,
            )
        )
        return Reply()

    def _retry_queue(
        self, request: ConsumerSendMsgBackRequest, config: SubscriptionGroupConfig, now_ms: int
    ) -> tuple[str, int]:
        name = retry_topic(request.group)
        queues, flag = config.retry_queue_nums, TOPIC_UNIT_SUB if request.unit_mode else 0
        topic = self._broker.ensure_topic(name, queues, now_ms, by="send back", sys_flag=flag)
        if not topic.perm & flags.PERM_WRITE:
            raise Refusal(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )
        return name, self._rng.randrange(queues)

    def _copy(
        self, original: StoredMessage, topic: str, queue_id: int, level: int
    ) -> MessageToStore:
        release = self._broker.release
        properties = decode_properties(original.properties)
        properties.setdefault(RETRY_TOPIC, original.topic)
        origin = offset_msg_id(original.store_host, original.position)
        properties.setdefault(ORIGIN_MESSAGE_ID, origin)
        properties[WAIT] = "false"
        properties[DELAY] = str(level)
        text = properties_text(properties, trailing=not LAST_PROPERTY_OPEN.holds(release))
        copy = stored_again(original, topic, queue_id, text)
        copy.reconsume_times = to_int32(original.reconsume_times + 1)  # as Java counts
        if release >= SENT_BACK_IS_STORED_HERE:
            copy.store_host = None
        return copy
