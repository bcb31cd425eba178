"""The topic table: system topics, creation and change of topics, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.tables.topics import DOCUMENT, TopicConfigs
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import Fact, StoreRefused, TopicChanged, TopicCreated
from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW
from tests.support.golden_data import cases

CLIENT_QUEUES = 4


class Rig:
    """A topic table and the facts it noted."""

    def __init__(self, disk: MemoryDisk | None = None, **config: Any) -> None:
        self.disk = disk or MemoryDisk()
        self.facts: list[Fact] = []
        self.topics = TopicConfigs(
            self.disk, BrokerConfig(**config), note=self.facts.append, now_ms=NOW
        )

    def send(self, topic: str, queues: int = CLIENT_QUEUES, template: str = "TBW102") -> Any:
        return self.topics.create_on_send(topic, template, queues, NOW + 1)


SHAPES_4 = {
    "SELF_TEST_TOPIC": (1, 6),
    "TBW102": (8, 7),
    "BenchmarkTest": (1024, 6),
    "DefaultCluster": (16, 7),
    "broker-a": (1, 7),
    "OFFSET_MOVED_EVENT": (1, 6),
    "SCHEDULE_TOPIC_XXXX": (18, 6),
    "DefaultCluster_REPLY_TOPIC": (1, 6),
}
SHAPES_5 = SHAPES_4 | {
    "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
    "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
    "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
    "rmq_sys_wheel_timer": (1, 6),
}


@pytest.mark.parametrize(("release", "shapes"), [(LAST_4, SHAPES_4), (LAST_5, SHAPES_5)])
def test_a_new_broker_has_the_system_topics_of_its_release(
    release: str, shapes: dict[str, tuple[int, int]]
) -> None:
    topics = Rig(release=release).topics
    found = {topic.topic_name: topic for topic in topics.all()}
    assert {name: (t.write_queue_nums, t.perm) for name, t in found.items()} == shapes
    assert all(topic.read_queue_nums == topic.write_queue_nums for topic in found.values())
    assert all(topics.is_system(name) for name in shapes)


def test_system_topics_follow_the_settings() -> None:
    topics = Rig(
        auto_create_topic=False, trace_topic=True, cluster_topic=False, broker_topic=False
    ).topics
    assert topics.get("TBW102") is None
    assert topics.get("RMQ_SYS_TRACE_TOPIC") is not None
    perms = [topic.perm for name in ("DefaultCluster", "broker-a") if (topic := topics.get(name))]
    assert perms == [1, 1]


def test_the_topic_of_traces_may_have_another_name() -> None:
    topics = Rig(trace_topic=True, trace_topic_name="my-traces").topics
    assert topics.get("RMQ_SYS_TRACE_TOPIC") is None
    assert (made := topics.get("my-traces")) is not None
    assert (made.write_queue_nums, made.perm) == (1, 6)
    assert topics.is_system("my-traces")
    assert Rig(trace_topic_name="my-traces").topics.get("my-traces") is None


@pytest.mark.parametrize(("client_queues", "made"), [(4, 4), (16, 8), (0, 0), (-3, 0)])
def test_invariant_17_a_send_makes_as_many_queues_as_both_sides_want(
    client_queues: int, made: int
) -> None:
    rig = Rig()
    topic = rig.send("orders", client_queues)
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (made, made, 6)
    assert rig.facts == [TopicCreated("orders", made, made, 6, "send")]
    assert rig.send("orders", 2) is topic


def test_invariant_18_without_auto_creation_a_send_makes_nothing() -> None:
    rig = Rig(auto_create_topic=False)
    assert rig.send("orders") is None
    assert rig.topics.get("orders") is None


def test_a_template_must_exist_and_be_inheritable() -> None:
    rig = Rig()
    assert rig.send("orders", template="never") is None
    assert rig.send("orders", template="BenchmarkTest") is None
    assert rig.send("orders", template="DefaultCluster").write_queue_nums == CLIENT_QUEUES


def test_a_saved_default_topic_is_no_template_once_auto_creation_is_off() -> None:
    first = Rig()
    first.send("orders")
    second = Rig(first.disk, auto_create_topic=False)
    assert second.topics.get("TBW102") is not None
    assert second.send("other") is None


def test_a_topic_inherits_what_its_template_is_except_the_inheriting() -> None:
    rig = Rig()
    model = TopicConfig(
        topic_name="model", write_queue_nums=3, perm=5, topic_filter_type="MULTI_TAG"
    )
    rig.topics.update(model, NOW)
    made = rig.topics.create_on_send("child", "model", 8, NOW)
    assert made is not None
    assert (made.write_queue_nums, made.perm) == (3, 4)
    assert made.topic_filter_type == "MULTI_TAG"


@pytest.mark.parametrize(("release", "perm"), [("4.9.1", 2), ("4.9.2", 6), (LAST_5, 6)])
def test_dead_letters_could_not_be_read_before_4_9_2(release: str, perm: int) -> None:
    topics = Rig(release=release).topics
    assert topics.create_internal("%DLQ%g", 1, NOW, by="send back").perm == perm
    assert topics.create_internal("%RETRY%g", 1, NOW, by="heartbeat").perm == 6


def test_an_internal_topic_is_made_once() -> None:
    rig = Rig()
    made = rig.topics.create_internal("%RETRY%g", 1, NOW, by="heartbeat")
    assert rig.topics.create_internal("%RETRY%g", 4, NOW, by="send back") is made
    assert rig.facts == [TopicCreated("%RETRY%g", 1, 1, 6, "heartbeat")]


def test_invariant_22_a_restart_keeps_topics_exactly() -> None:
    rig = Rig()
    rig.send("orders")
    rig.topics.update(TopicConfig(topic_name="主题", order=True, topic_sys_flag=1), NOW + 2)
    rig.topics.create_internal("%RETRY%g", 1, NOW + 3, by="heartbeat")
    again = Rig(rig.disk).topics
    assert again.topic_config_table == rig.topics.topic_config_table
    assert again.data_version == rig.topics.data_version


def test_every_change_is_one_version_and_on_disk_at_once() -> None:
    rig = Rig()
    assert (rig.topics.data_version.counter, rig.topics.data_version.timestamp) == (0, NOW)
    rig.send("orders")
    rig.topics.update(TopicConfig(topic_name="orders", perm=4), NOW + 2)
    assert Rig(rig.disk).topics.data_version.counter == 2
    rig.topics.delete("orders", NOW + 3)
    rig.topics.delete("orders", NOW + 4)
    reread = Rig(rig.disk).topics
    assert (reread.data_version.counter, reread.get("orders")) == (3, None)


def test_a_changed_topic_is_a_fact() -> None:
    rig = Rig()
    rig.topics.update(TopicConfig(topic_name="orders", perm=6), NOW)
    rig.topics.update(TopicConfig(topic_name="orders", perm=4), NOW)
    assert rig.facts == [
        TopicCreated("orders", 16, 16, 6, "admin"),
        TopicChanged("orders", 16, 16, 4),
    ]


def test_a_topic_becomes_ordered_and_never_stops() -> None:
    rig = Rig()
    rig.send("orders")
    rig.send("plain")
    rig.topics.set_order(["orders"], NOW + 5)
    rig.topics.set_order(["orders"], NOW + 6)
    rig.topics.set_order([], NOW + 7)
    flags = {topic.topic_name: topic.order for topic in Rig(rig.disk).topics.all()}
    assert flags["orders"] is True
    assert flags["plain"] is False
    assert rig.topics.data_version.counter == 3


def test_a_damaged_file_falls_back_to_the_one_before() -> None:
    rig = Rig()
    rig.send("first")
    rig.send("second")
    rig.disk.replace(DOCUMENT, b'{"topicConfig')
    again = Rig(rig.disk).topics
    assert again.get("first") is not None
    assert again.get("second") is None


def test_a_full_disk_refuses_a_topic_that_its_messages_would_outlive() -> None:
    rig = Rig()
    rig.send("first")
    rig.disk.bytes_max = rig.disk.bytes_used
    version = rig.topics.data_version
    with pytest.raises(Refusal, match="full"):
        rig.send("second")
    assert rig.topics.get("second") is None
    assert rig.topics.data_version == version
    assert any(isinstance(fact, StoreRefused) for fact in rig.facts)
    rig.disk.bytes_max = None
    rig.send("second")
    assert Rig(rig.disk).topics.get("second") is not None


def test_a_full_disk_keeps_a_retry_topic_in_memory_until_the_next_change() -> None:
    rig = Rig()
    rig.send("first")
    rig.disk.bytes_max = rig.disk.bytes_used
    rig.topics.create_internal("%RETRY%g", 1, NOW, by="heartbeat")
    rig.disk.bytes_max = None
    rig.send("second")
    assert Rig(rig.disk).topics.get("%RETRY%g") is not None


@pytest.mark.parametrize(("line", "release"), [("4.9", LAST_4), ("5.3", LAST_5)])
def test_a_real_brokers_file_is_loaded_and_written_back_to_the_byte(
    line: str, release: str
) -> None:
    for case in cases("config-files.jsonl", "file_topics", line):
        text = case["out"].encode()
        disk = MemoryDisk()
        disk.replace(DOCUMENT, text)
        topics = TopicConfigs(disk, BrokerConfig(release=release), note=[].append, now_ms=NOW)
        pairs = case["in"]["fields"]["topicConfigTable"]["map"]
        for name, fields in pairs:
            topic = topics.get(name)
            assert topic is not None
            assert topic.perm == fields["perm"]
            assert topic.order == fields["order"]
        topics.topic_config_table = topics.topic_config_table.subset(name for name, _ in pairs)
        disk.replace(DOCUMENT, b"")
        topics._document._rewrite()
        assert disk.read(DOCUMENT) == text
