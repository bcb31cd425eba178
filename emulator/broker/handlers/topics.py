"""Topics for tools: created, changed, deleted and listed.

Answers UPDATE_AND_CREATE_TOPIC, DELETE_TOPIC_IN_BROKER, GET_ALL_TOPIC_CONFIG and
GET_SYSTEM_TOPIC_LIST_FROM_BROKER in every release, GET_TOPIC_CONFIG since 5.0.  Does not create
several topics by one request, or static topics.

Upstream: AdminBrokerProcessor.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.checks import NOT_SET
from rocketmq_emulator.broker.tables.topic_attributes import (
    altered,
    changes_of,
    is_mixed,
)
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result, Wait
from rocketmq_emulator.net.slices import in_pieces, long_reply
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.routes import TopicList
from rocketmq_emulator.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigSerializeWrapper,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields, Header
from rocketmq_emulator.protocol.messages.names import (
    SYSTEM_TOPICS,
    SYSTEM_TOPICS_5_2,
    is_system_topic,
)
from rocketmq_emulator.protocol.messages.validation import broker_refuses_topic
from rocketmq_emulator.protocol.requests.admin import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetTopicConfigRequest,
)
from rocketmq_emulator.settings.releases import (
    CHECKPOINT_TOPIC_IS_SYSTEMS,
    ORDER_SET_BY_ADMIN,
    SAME_TOPIC_NOT_WRITTEN,
    TOPIC_ATTRIBUTES_READ,
    TOPIC_MAPPING_SENT,
    UNNAMED_TOPIC_FAILS,
)

SLICE_TOPICS = 500  # about 15 µs each


class TopicProcessor:
    """Reads and changes the topic table for administrators."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._system_topics = (
            SYSTEM_TOPICS_5_2 if broker.release >= CHECKPOINT_TOPIC_IS_SYSTEMS else SYSTEM_TOPICS
        )

    def update(self, call: Call[CreateTopicRequest]) -> Result:
        """Create or change a topic; answered when its registration has ended, or at a timeout."""
        request = call.request
        if request.topic is None and self._broker.release >= UNNAMED_TOPIC_FAILS:
            raise BadFields("a topic without a name")
        name = request.topic or ""
        problem = broker_refuses_topic(name)
        if problem is None and self._is_system(name):
            problem = f"The topic[{name}] is conflict with system topic."
        if problem is not None:
            raise Refusal(self._broker.bad_parameter_code, problem)
        changes, after = self._attributes(request)
        config = TopicConfig(
            topic_name=name,
            read_queue_nums=request.read_queue_nums,
            write_queue_nums=request.write_queue_nums,
            perm=request.perm,
            topic_filter_type=request.topic_filter_type,
            topic_sys_flag=request.topic_sys_flag or 0,
            order=request.order and self._broker.release >= ORDER_SET_BY_ADMIN,
            attributes=after,
        )
        done = Reply(remark=NOT_SET)
        asked = msgspec.structs.replace(config, attributes=changes)  # so upstream compares it
        is_same = asked == self._broker.topics.get(name)
        if is_same and self._broker.release >= SAME_TOPIC_NOT_WRITTEN:
            return done
        bell = self._broker.update_topic(config, call.now_ms)
        if bell is None:
            return done
        until_ms = call.now_ms + self._broker.register_call_ms_max
        return Wait(bell, until_ms, lambda _now_ms, _expired: done)

    def _attributes(self, request: CreateTopicRequest) -> tuple[dict[str, str], dict[str, str]]:
        """The changes that *request* names, and the topic's attributes after them.

        Raises ``Refusal``; then nothing was changed.
        """
        release = self._broker.release
        if release < TOPIC_ATTRIBUTES_READ:
            return {}, {}
        known = self._broker.topics.get(request.topic or "")
        changes = changes_of(request.attributes)
        if is_mixed(changes, release):
            raise Refusal(self._broker.bad_parameter_code, "MIXED message type is not supported.")
        return changes, altered(None if known is None else known.attributes, changes, release)

    def delete(self, call: Call[DeleteTopicRequest]) -> Result:
        """Delete a topic; refused for system topics."""
        name = call.request.topic
        if not name.strip():
            raise Refusal(self._broker.bad_parameter_code, "The specified topic is blank.")
        if self._is_system(name):
            problem = f"The topic[{name}] is conflict with system topic."
            raise Refusal(self._broker.bad_parameter_code, problem)
        self._broker.delete_topic(name, call.now_ms)
        return Reply()

    def all(self, call: Call[Header]) -> Result:
        """All topics, system topics included."""
        topics = self._broker.topics
        kind: type[TopicConfigAndMappingSerializeWrapper | TopicConfigSerializeWrapper]
        kind = TopicConfigSerializeWrapper
        if self._broker.release >= TOPIC_MAPPING_SENT:
            kind = TopicConfigAndMappingSerializeWrapper
        table = topics.topic_config_table
        pieces = map(table.subset, in_pieces(list(table), SLICE_TOPICS))
        empty = kind(data_version=topics.data_version)
        tables = {"topicConfigTable": pieces}
        return long_reply(empty, tables, self._broker.release, call.now_ms, Header())

    def one(self, call: Call[GetTopicConfigRequest]) -> Result:
        """One topic, which may be a system topic."""
        name = call.request.topic
        topic = self._broker.topics.get(name)
        if topic is None:
            remark = f"No topic in this broker. topic: {name}"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
        return Reply(body=encode_body(topic, self._broker.release))

    def system_topics(self, _call: Call[Header]) -> Result:
        """The topics that no client may change: upstream's system topics, and this broker's.

        Upstream: TopicValidator.getSystemTopicSet.
        """
        own = self._broker.topics.system_names()
        names = [*own, *sorted(self._system_topics.difference(own))]
        return Reply(body=encode_body(TopicList(topic_list=names), self._broker.release))

    def _is_system(self, topic: str) -> bool:
        if self._broker.topics.is_system(topic):
            return True
        return is_system_topic(topic, self._system_topics)
