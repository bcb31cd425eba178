"""The topic table: the topics of a broker, and the creation of new ones.

A send to a missing topic creates it from a template, a consumer's first heartbeat creates the
retry topic of its group, an administrator creates any topic.  Each change is one step of the
table's data version, and is on disk before the method returns.

Upstream: TopicConfigManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.broker.tables.documents import TableChange, TableDocument
from rocketmq_emulator.facts import TopicChanged, TopicCreated
from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.flags import PERM_INHERIT, PERM_READ_WRITE, PERM_WRITE
from rocketmq_emulator.protocol.java.java_json_writer import CachedTextDict
from rocketmq_emulator.protocol.messages import names
from rocketmq_emulator.protocol.messages.names import AUTO_CREATE_TOPIC_KEY_TOPIC, is_dlq_topic
from rocketmq_emulator.settings.releases import (
    DLQ_IS_READABLE,
    MORE_SYSTEM_TOPICS,
    RETRY_TOPIC_IS_ORDERED,
    TIMER_TOPIC_AT_START,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import AbstractContextManager

    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig

DOCUMENT = "topics.json"
_TEMPLATE = PERM_READ_WRITE | PERM_INHERIT  # a send to a missing topic may inherit from it


class TopicConfigs:
    """All topics of one broker: those saved on *disk*, and the system topics of *config*."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, note: Note, now_ms: int) -> None:
        self.config = config
        self._note = note
        self._orders_retries = config.parsed_release >= RETRY_TOPIC_IS_ORDERED
        self._document = TableDocument[TopicConfigSerializeWrapper, TopicConfig](
            disk,
            DOCUMENT,
            (TopicConfigSerializeWrapper, TableChange[TopicConfig]),
            config.parsed_release,
            note,
            self._wrapper,
            flushed=config.is_sync_flush,
        )
        self._system = {_name(topic): topic for topic in system_topics(config)}
        self.topic_config_table = CachedTextDict(self._system.items())
        self.data_version = DataVersion(timestamp=now_ms)
        self.state_version = 0  # in versions from now on: the master epoch, with a controller
        self._load()

    def get(self, name: str) -> TopicConfig | None:
        """The topic; None if it is missing."""
        return self.topic_config_table.get(name)

    def require(self, name: str) -> TopicConfig:
        """The topic.  Raises ``Refusal`` if it is missing, with the remark of most tool calls."""
        if (known := self.get(name)) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return known

    def is_order(self, name: str) -> bool:
        """Whether the topic exists and is ordered."""
        known = self.topic_config_table.get(name)
        return known is not None and known.order

    def all(self) -> list[TopicConfig]:
        """All topics, the broker's own included."""
        return list(self.topic_config_table.values())

    def is_system(self, name: str) -> bool:
        """Whether the broker created the topic itself: clients may not change or delete it."""
        return name in self._system

    def system_names(self) -> list[str]:
        """The names of the topics that the broker created itself."""
        return list(self._system)

    def create_on_send(
        self,
        name: str,
        template: str,
        queues_max: int,
        now_ms: int,
        *,
        sys_flag: int = 0,
    ) -> TopicConfig | None:
        """The topic; a missing one is created, or None if *template* does not allow it.

        Raises ``Refusal`` if the table cannot be saved: messages would be kept without a topic.
        Upstream: TopicConfigManager.createTopicInSendMessageMethod.
        """
        if (known := self.get(name)) is not None:
            return known
        model = self.get(template)
        if model is None or not model.perm & PERM_INHERIT:
            return None
        if template == AUTO_CREATE_TOPIC_KEY_TOPIC and not self.config.auto_create_topic:
            return None
        queues = max(0, min(queues_max, model.write_queue_nums))
        topic = TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=model.perm & ~PERM_INHERIT,
            topic_filter_type=model.topic_filter_type,
            topic_sys_flag=sys_flag,
        )
        return self._create(topic, now_ms, by="send", must_be_saved=True)

    def create_internal(
        self,
        name: str,
        queues: int,
        now_ms: int,
        *,
        by: str,
        sys_flag: int = 0,
        order: bool = False,
    ) -> TopicConfig:
        """A retry or dead-letter topic, or one of the broker's own; a missing one is created.

        Since 5.0 each call sets whether the topic is ordered.
        Upstream: TopicConfigManager.createTopicInSendMessageBackMethod.
        """
        order = order and self._orders_retries
        if (known := self.get(name)) is not None:
            if known.order == order or not self._orders_retries:
                return known
            changed = msgspec.structs.replace(known, order=order)
            self._put(changed, now_ms)
            return changed
        is_closed = is_dlq_topic(name) and self.config.parsed_release < DLQ_IS_READABLE
        topic = TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=PERM_WRITE if is_closed else PERM_READ_WRITE,
            topic_sys_flag=sys_flag,
            order=order,
        )
        return self._create(topic, now_ms, by=by)

    def update(self, topic: TopicConfig, now_ms: int) -> None:
        """Create or change a topic, for an administrator; raises ``Refusal`` if it is not saved.

        Upstream: TopicConfigManager.updateTopicConfig.
        """
        known = self.get(_name(topic))
        if known is None:
            self._create(topic, now_ms, by="admin", must_be_saved=True)
            return
        self._put(topic, now_ms, must_be_saved=True)
        self._note(TopicChanged(*_shape(topic)))

    def set_order(self, ordered: Collection[str], now_ms: int) -> None:
        """Mark the topics that a NameServer lists as ordered; no topic loses the mark.

        Upstream: TopicConfigManager.updateOrderTopicConfig.
        """
        table = self.topic_config_table
        changed = {
            name: msgspec.structs.replace(topic, order=True)
            for name in ordered
            if (topic := table.get(name)) is not None and not topic.order
        }
        if changed:
            table.update(changed)
            self._changed(changed, now_ms)

    def delete(self, name: str, now_ms: int) -> None:
        """Remove a topic; nothing if it is missing.

        Upstream: TopicConfigManager.deleteTopicConfig.
        """
        if self.topic_config_table.pop(name, None) is not None:
            self._changed([name], now_ms)

    def reset(self, kept: Collection[str], now_ms: int) -> None:
        """Remove all topics but the broker's own and *kept*, whose perm becomes RW."""
        stay = {
            name: msgspec.structs.replace(topic, perm=PERM_READ_WRITE)
            for name in kept
            if (topic := self.get(name)) is not None
        }
        self.topic_config_table = CachedTextDict((stay | self._system).items())
        self.data_version = self.data_version.next(now_ms, self.state_version)
        self._document.rewrite_whole()

    def replace_all(
        self, table: Mapping[str, TopicConfig], version: DataVersion, *, is_saved: bool = True
    ) -> None:
        """Replace the table by a master's, and save it unless *is_saved* is False."""
        self.topic_config_table = CachedTextDict(table.items())
        self.data_version = version
        if is_saved:
            self._document.rewrite_whole()

    def saved_in_one_write(self) -> AbstractContextManager[None]:
        """Write all changes of this block at its end; if that fails, a later save writes them."""
        return self._document.saved_in_one_write()

    def close(self) -> None:
        """Write all changes to the main file, as upstream does."""
        self._document.rewrite()

    def _create(
        self, topic: TopicConfig, now_ms: int, *, by: str, must_be_saved: bool = False
    ) -> TopicConfig:
        self._put(topic, now_ms, must_be_saved=must_be_saved)
        self._note(TopicCreated(*_shape(topic), by))
        return topic

    def _put(self, topic: TopicConfig, now_ms: int, *, must_be_saved: bool = False) -> None:
        """Set and save the topic.

        If it cannot be saved: with *must_be_saved* undoes the change and raises ``Refusal``,
        without it a later save writes it.
        """
        table, name = self.topic_config_table, _name(topic)
        topic_before, version_before = table.get(name), self.data_version
        table[name] = topic
        if self._changed([name], now_ms, must_be_saved=must_be_saved) or not must_be_saved:
            return
        self.data_version = version_before
        if topic_before is None:
            del table[name]
        else:
            table[name] = topic_before
        remark = f"the topic {name} cannot be saved: {self._document.refusal_reason}"
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def _changed(self, topics: Iterable[str], now_ms: int, *, must_be_saved: bool = False) -> bool:
        """Save one change of *topics* as one data version; returns whether it is on disk."""
        self.data_version = self.data_version.next(now_ms, self.state_version)
        put = self.topic_config_table.subset(topics)
        change = TableChange[TopicConfig](
            data_version=self.data_version,
            put=put,
            removed=[name for name in topics if name not in put],
        )
        return self._document.save(change, must_be_saved=must_be_saved)

    def _load(self) -> None:
        saved, changes = self._document.load()
        if saved is None:
            return
        self.topic_config_table.update(saved.topic_config_table)
        self.data_version = saved.data_version
        for change in changes:
            self.topic_config_table.update(change.put)
            for name in change.removed:
                self.topic_config_table.pop(name, None)
            self.data_version = change.data_version
        self._document.rewrite()

    def _wrapper(self) -> TopicConfigSerializeWrapper:
        return TopicConfigSerializeWrapper(
            topic_config_table=self.topic_config_table, data_version=self.data_version
        )


def _name(topic: TopicConfig) -> str:
    assert topic.topic_name, "a topic without a name is refused before this"
    return topic.topic_name


def _shape(topic: TopicConfig) -> tuple[str, int, int, int]:
    return _name(topic), topic.read_queue_nums, topic.write_queue_nums, topic.perm


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """The topics of every broker, in upstream's order: its own topics, and templates.

    Upstream: the constructor of TopicConfigManager.
    """
    queues = config.default_topic_queues
    always = True
    has_more = config.parsed_release >= MORE_SYSTEM_TOPICS
    has_timers = config.parsed_release >= TIMER_TOPIC_AT_START and config.timer_wheel
    rows = (  # wanted, name, queues, perm
        (always, names.SELF_TEST_TOPIC, 1, PERM_READ_WRITE),
        (config.auto_create_topic, names.AUTO_CREATE_TOPIC_KEY_TOPIC, queues, _TEMPLATE),
        (always, names.BENCHMARK_TOPIC, 1024, PERM_READ_WRITE),
        (always, config.cluster, 16, _TEMPLATE if config.cluster_topic else PERM_INHERIT),
        (always, config.name, 1, _TEMPLATE if config.broker_topic else PERM_INHERIT),
        (always, names.OFFSET_MOVED_EVENT, 1, PERM_READ_WRITE),
        (always, names.SCHEDULE_TOPIC, 18, PERM_READ_WRITE),
        (config.trace_topic, config.trace_topic_name, 1, PERM_READ_WRITE),
        (always, names.reply_topic(config.cluster), 1, PERM_READ_WRITE),
        (has_more, f"rmq_sys_REVIVE_LOG_{config.cluster}", 8, PERM_READ_WRITE),
        (has_more, f"rmq_sys_SYNC_BROKER_MEMBER_{config.name}", 1, PERM_INHERIT),
        (has_more, names.TRANS_HALF_TOPIC, 1, PERM_READ_WRITE),
        (has_more, names.TRANS_OP_HALF_TOPIC, 1, PERM_READ_WRITE),
        (has_timers, names.TIMER_TOPIC, 1, PERM_READ_WRITE),
    )
    return [
        TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm)
        for wanted, name, count, perm in rows
        if wanted
    ]
