"""Large tables: a change costs the same at every size, and no change is lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rocketmq_emulator.broker.tables.subscription_groups import SubscriptionGroups
from rocketmq_emulator.broker.tables.topics import DOCUMENT, TopicConfigs
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import Disk
from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.bodies.body import encode_config_file
from rocketmq_emulator.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.java import java_json_writer
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.settings.releases import Release
from rocketmq_emulator.sim.clock import VirtualClock
from rocketmq_emulator.sim.drive import VirtualDisk, VirtualDrive
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW

CHANGES = f"{DOCUMENT}.changes"
SOME = 400  # topics, in a file of more than 32 KiB


class CountingDisk(MemoryDisk):
    """Counts the writes and their bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.written_bytes = 0

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        self._count(data)
        super().replace(name, data, flushed=flushed)

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        self._count(data)
        super().append(name, data, flushed=flushed)

    def _count(self, data: bytes) -> None:
        self.writes += 1
        self.written_bytes += len(data)


def topics_on(disk: Disk, **config: Any) -> TopicConfigs:
    return TopicConfigs(disk, BrokerConfig(**config), note=[].append, now_ms=NOW)


def create(topics: TopicConfigs, first: int, count: int) -> None:
    for number in range(first, first + count):
        topics.update(TopicConfig(topic_name=f"topic-{number:06}"), NOW)


def with_changes(disk: Disk, **config: Any) -> TopicConfigs:
    """A table whose last changes are in the changes file only."""
    topics = topics_on(disk, **config)
    create(topics, 0, SOME)
    while not disk.read(CHANGES):
        create(topics, len(topics.all()), 1)
    return topics


def names(topics: TopicConfigs) -> list[str]:
    return list(topics.topic_config_table)


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_creating_a_topic_writes_as_much_in_a_large_table_as_in_a_small_one(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = 0
    value = java_json_writer._Writer.value

    def counted(writer: Any, written: Any) -> None:
        nonlocal parts
        parts += 1
        value(writer, written)

    monkeypatch.setattr(java_json_writer._Writer, "value", counted)
    disk = CountingDisk()
    topics = topics_on(disk, release=release)
    work: list[tuple[int, int]] = []
    for first in range(0, 4_000, 1_000):
        parts = disk.written_bytes = 0
        create(topics, first, 1_000)
        work.append((disk.written_bytes, parts))
    (first_bytes, first_parts), *later = work
    assert all(written < 1.2 * first_bytes for written, _ in later)
    assert all(parts < 1.2 * first_parts for _, parts in later)


def test_every_change_survives_a_kill_and_the_file_has_them_all_after_the_next_start() -> None:
    disk = MemoryDisk()
    topics = with_changes(disk)
    topics.delete("topic-000007", NOW)
    topics.update(TopicConfig(topic_name="topic-000008", perm=4), NOW)
    topics.set_order(["topic-000009", "topic-000010"], NOW)
    again = topics_on(disk)
    assert again.topic_config_table == topics.topic_config_table
    assert again.data_version == topics.data_version
    assert disk.read(CHANGES) == b""
    assert disk.read(DOCUMENT) == upstreams_file(topics)


def test_after_a_clean_end_there_is_upstreams_file_and_nothing_beside_it() -> None:
    disk = MemoryDisk()
    topics = with_changes(disk)
    topics.close()
    assert disk.read(CHANGES) == b""
    assert disk.read(DOCUMENT) == upstreams_file(topics)


def test_a_torn_line_is_no_change_and_no_later_one_is_lost_behind_it() -> None:
    disk = MemoryDisk()
    topics = with_changes(disk)
    create(topics, 900_001, 1)
    changes = disk.read(CHANGES)
    assert changes is not None
    disk.replace(CHANGES, changes[:-20])
    again = topics_on(disk)
    assert names(again) == names(topics)[:-1]
    create(again, 900_002, 1)
    assert names(topics_on(disk))[-1] == "topic-900002"


def test_changes_of_another_file_are_not_read() -> None:
    disk = MemoryDisk()
    topics = with_changes(disk)
    theirs = TopicConfigSerializeWrapper(topic_config_table={"theirs": TopicConfig()})
    disk.replace(DOCUMENT, encode_config_file(theirs, Release.parse(LAST_4)))
    again = topics_on(disk)
    assert set(names(again)) == {"theirs", *names(topics)[:8]}
    assert not disk.read(CHANGES)


def test_a_change_that_finds_no_room_is_refused_and_nothing_has_changed() -> None:
    disk = MemoryDisk()
    topics = with_changes(disk)
    before, version, order = topics.all(), topics.data_version, names(topics)
    disk.bytes_max = disk.bytes_used
    for topic in (TopicConfig(topic_name="fresh"), TopicConfig(topic_name=order[20], perm=4)):
        with pytest.raises(Refusal, match="full"):
            topics.update(topic, NOW)
    assert (topics.all(), topics.data_version, names(topics)) == (before, version, order)
    disk.bytes_max = None
    create(topics, 900_000, 1)
    assert names(topics_on(disk)) == [*order, "topic-900000"]


def test_a_retry_topic_that_found_no_room_is_saved_with_the_next_change() -> None:
    disk = MemoryDisk()
    topics = with_changes(disk)
    disk.bytes_max = disk.bytes_used
    topics.create_internal("%RETRY%g", 1, NOW, by="heartbeat")
    disk.bytes_max = None
    create(topics, 900_000, 1)
    assert names(topics_on(disk))[-2:] == ["%RETRY%g", "topic-900000"]


def test_what_is_saved_together_is_one_write() -> None:
    disk = CountingDisk()
    topics = with_changes(disk)
    writes = disk.writes
    with topics.saved_in_one_write():
        for number in range(5):
            topics.create_internal(f"%RETRY%{number}", 1, NOW, by="heartbeat")
    assert disk.writes == writes + 1
    assert names(topics_on(disk))[-5:] == [f"%RETRY%{number}" for number in range(5)]


def test_groups_survive_a_kill_as_topics_do() -> None:
    disk = MemoryDisk()
    groups = SubscriptionGroups(disk, BrokerConfig(), note=[].append, now_ms=NOW)
    for number in range(SOME):
        groups.find(f"group-{number}", NOW, by="heartbeat")
    assert disk.read("subscriptionGroup.json.changes")
    again = SubscriptionGroups(disk, BrokerConfig(), note=[].append, now_ms=NOW)
    assert again.subscription_group_table == groups.subscription_group_table
    assert again.data_version == groups.data_version


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_of_power_takes_no_flushed_change_and_of_others_only_the_last(seed: int) -> None:
    for flush_disk_type in ("SYNC_FLUSH", "ASYNC_FLUSH"):
        drive = VirtualDrive(clock=VirtualClock())
        settings = {"flush_disk_type": flush_disk_type, "store": "here"}
        topics = with_changes(VirtualDisk(drive), **settings)
        create(topics, 900_000, 5)
        drive.lose_power(Random(seed))
        left = names(topics_on(VirtualDisk(drive), **settings))
        assert left == names(topics)[: len(left)]
        if flush_disk_type == "SYNC_FLUSH":
            assert left == names(topics)


def upstreams_file(topics: TopicConfigs) -> bytes:
    wrapper = TopicConfigSerializeWrapper(
        topic_config_table=dict(topics.topic_config_table), data_version=topics.data_version
    )
    return encode_config_file(wrapper, Release.parse(LAST_4))
