"""Consumer offsets: commits, resets, saving, and the first offset of a new group."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.offsets import DOCUMENT, ConsumerOffsets, first_offset
from rocketmq_emulator.clocks.clock import StoppedClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_config_file
from rocketmq_emulator.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.settings.releases import Release
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW
from tests.support.golden_data import cases


def a_table(disk: MemoryDisk | None = None, **config: Any) -> ConsumerOffsets:
    return ConsumerOffsets(disk or MemoryDisk(), BrokerConfig(**config), now_ms=NOW)


@pytest.mark.parametrize(
    ("release", "min_offset", "max_offset", "expected"),
    [
        (LAST_4, 0, 5, 0),
        (LAST_5, 0, 5, 0),
        (LAST_4, 3, 5, None),
        (LAST_5, 3, 5, None),
        (LAST_4, 0, 0, 0),
        ("5.0.0", 0, 0, 0),
        ("5.1.0", 0, 0, None),
        (LAST_5, 0, 0, None),
        (LAST_4, 1, 5, None),
    ],
)
def test_invariant_64_a_new_group_gets_an_offset_only_while_the_queue_is_whole(
    release: str, min_offset: int, max_offset: int, expected: int | None
) -> None:
    assert first_offset(min_offset, max_offset, Release.parse(release)) == expected


def test_invariant_65_a_smaller_offset_is_accepted() -> None:
    table = a_table()
    table.commit("g", "t", 0, 10, NOW)
    table.commit("g", "t", 0, 4, NOW)
    assert table.query("g", "t", 0) == 4
    assert table.query("g", "t", 1) is None
    assert table.query("h", "t", 0) is None


def test_invariant_22_offsets_survive_a_restart_once_they_were_persisted() -> None:
    disk = MemoryDisk()
    table = a_table(disk)
    table.commit("g", "t", 0, 10, NOW)
    table.persist()
    table.commit("g", "t", 0, 20, NOW)
    assert a_table(disk).query("g", "t", 0) == 10


def test_invariant_74_a_durable_table_loses_no_commit() -> None:
    disk = MemoryDisk()
    a_table(disk, durable_offsets=True).commit("g", "t", 0, 10, NOW)
    assert a_table(disk).query("g", "t", 0) == 10


def a_large_table(disk: MemoryDisk, release: str) -> ConsumerOffsets:
    table = a_table(disk, release=release)
    for number in range(2_500):
        table.commit(f"g{number}", "orders", number % 3, number, NOW)
    table.commit('say "when"', "Größe", 0, 1, NOW)
    return table


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_a_large_table_is_written_in_slices_to_the_bytes_of_the_whole(release: str) -> None:
    disk = MemoryDisk()
    table = a_large_table(disk, release)
    slices = sum(1 for _ in table.persisting())
    assert slices >= 2
    assert disk.read(DOCUMENT) == encode_config_file(table.wrapper(), Release.parse(release))


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_an_emptied_table_is_written_as_a_real_broker_writes_it(release: str) -> None:
    disk = MemoryDisk()
    table = a_table(disk, release=release)
    table.commit("g", "t", 0, 10, NOW)
    table.delete_group("g")
    table.persist()
    assert disk.read(DOCUMENT) == encode_config_file(table.wrapper(), Release.parse(release))


def test_what_is_committed_or_deleted_between_two_slices_is_written_the_next_time() -> None:
    disk = MemoryDisk()
    table = a_large_table(disk, LAST_5)
    slices = table.persisting()
    next(slices)
    table.commit("g0", "orders", 0, 99, NOW)
    table.delete_group("g2499")
    list(slices)
    table.persist()
    assert (a_table(disk).query("g0", "orders", 0), table.query("g2499", "orders", 0)) == (
        99,
        None,
    )
    assert a_table(disk).query("g2499", "orders", 0) is None


def test_groups_behind_one_that_is_deleted_between_two_slices_are_written() -> None:
    disk = MemoryDisk()
    table = a_large_table(disk, LAST_5)
    slices = table.persisting()
    next(slices)
    table.delete_group("g2400")
    list(slices)
    assert a_table(disk).query("g2499", "orders", 0) == 2499


def test_a_broker_that_ends_while_its_offsets_are_written_leaves_the_last_ones() -> None:
    disk = MemoryDisk()
    table = a_large_table(disk, LAST_5)
    slices = table.persisting()
    next(slices)
    table.commit("g0", "orders", 0, 99, NOW)
    table.persist()
    list(slices)
    assert a_table(disk).query("g0", "orders", 0) == 99


def test_slices_that_find_no_room_on_the_disk_are_written_when_it_has_some() -> None:
    disk = MemoryDisk(bytes_max=10)
    table = a_large_table(disk, LAST_5)
    list(table.persisting())
    disk.bytes_max = None
    list(table.persisting())
    assert a_table(disk).query("g7", "orders", 1) == 7


@pytest.mark.parametrize("durable", [False, True])
def test_a_5x_table_carries_the_time_when_it_was_new(*, durable: bool) -> None:
    """That of its first process, also if nothing was committed.  Upstream: DataVersion."""
    disk = MemoryDisk()
    table = a_table(disk, release=LAST_5, durable_offsets=durable)
    table.persist()
    config = BrokerConfig(release=LAST_5, durable_offsets=durable)
    again = ConsumerOffsets(disk, config, now_ms=NOW + 5)
    again.commit("g", "t", 0, 10, NOW + 7)
    again.persist()
    saved = decode_body(disk.read(DOCUMENT) or b"", ConsumerOffsetSerializeWrapper)
    assert saved.data_version is not None
    assert saved.data_version.timestamp == NOW


def test_a_new_table_is_newer_than_the_copy_of_an_older_one() -> None:
    """So a master that lost its disk does not take the offsets that its slave has of it."""
    master = a_table(release=LAST_5)
    master.commit("g", "t", 0, 10, NOW)
    config = BrokerConfig(release=LAST_5)
    slave = ConsumerOffsets(MemoryDisk(), config, now_ms=NOW + 1)
    slave.copy(master.wrapper())
    assert not ConsumerOffsets(MemoryDisk(), config, now_ms=NOW + 1).take_back(slave.wrapper())
    assert ConsumerOffsets(MemoryDisk(), config, now_ms=NOW).take_back(slave.wrapper())


def test_a_commit_tells_whether_it_changed_anything() -> None:
    table = a_table(release=LAST_5)
    assert table.commit("g", "t", 0, 10, NOW) is True
    assert table.commit("g", "t", 0, 10, NOW) is False
    table.reset("g", "t", 0, 3)
    assert table.commit("g", "t", 0, 11, NOW) is False


def test_a_durable_table_is_written_once_for_commits_that_repeat() -> None:
    disk = MemoryDisk()
    table = a_table(disk, durable_offsets=True)
    table.commit("g", "t", 0, 10, NOW)
    disk.replace(DOCUMENT, b"{}")
    table.commit("g", "t", 0, 10, NOW)
    assert disk.read(DOCUMENT) == b"{}"


def test_a_repeated_commit_is_written_by_a_durable_table_that_owes_it_to_the_disk() -> None:
    disk = MemoryDisk(bytes_max=10)
    table = a_table(disk, durable_offsets=True)
    table.commit("g", "t", 0, 10, NOW)
    assert table.has_unsaved_commits
    disk.bytes_max = None
    assert table.commit("g", "t", 0, 10, NOW) is True
    assert a_table(disk).query("g", "t", 0) == 10


def test_a_5x_table_has_a_new_version_every_500_commits() -> None:
    table = a_table(release=LAST_5)
    versions = []
    for offset in range(1, 1001):
        table.commit("g", "t", 0, offset, NOW)
        version = table.wrapper().data_version
        assert version is not None
        versions.append(version.counter)
    assert versions == [0] * 499 + [1] * 500 + [2]


def test_a_4x_table_has_no_version_and_no_map_of_groups() -> None:
    table = a_table()
    for offset in range(501):
        table.commit("g", "t", 0, offset, NOW)
    assert (table.wrapper().data_version, table.wrapper().group_topic_map) == (None, None)


def test_a_5x_table_tells_the_topics_of_each_group() -> None:
    table = a_table(release=LAST_5)
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        table.commit(group, topic, 0, 1, NOW)
    assert table.wrapper().group_topic_map == {"g": ["t", "u"], "h": ["t"]}
    assert list(table.entries()) == [
        ("t", "g", {0: 1}),
        ("u", "g", {0: 1}),
        ("t", "h", {0: 1}),
    ]


def test_a_new_topic_or_queue_is_refused_where_the_table_is_full() -> None:
    table = a_table(committed_max=1, topic_queues_max=1)
    table.check_room("g", "t", 0)
    table.commit("g", "t", 0, 1, NOW)
    table.check_room("g", "t", 0)
    refusals = []
    for topic, queue_id in (("u", 0), ("t", 1), ("t" * 2_000, 0)):
        with pytest.raises(Refusal) as refused:
            table.check_room("g", topic, queue_id)
        refusals.append(str(refused.value.remark))
    assert refusals == [
        "too many committed topics: the limit is 1",
        "too many committed queues: the limit is 1",
        "a topic and a group of 2002 characters: the limit is 1000",
    ]


@pytest.mark.parametrize("durable", [False, True])
def test_a_group_that_is_deleted_leaves_no_offset_and_no_reset(*, durable: bool) -> None:
    disk = MemoryDisk()
    table = a_table(disk, release=LAST_5, durable_offsets=durable)
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        table.commit(group, topic, 0, 5, NOW)
        if topic == "t":
            table.reset(group, topic, 0, 1)
    table.delete_group("g")
    assert (table.topics_of_group("g"), table.topics_of_group("h")) == ([], ["t"])
    assert table.pending_resets == {"t@h": {0: 1}}
    table.delete_group("never")
    table.persist()
    saved = decode_body(disk.read(DOCUMENT) or b"", ConsumerOffsetSerializeWrapper)
    assert saved.offset_table == {"t@h": {0: 1}}
    assert saved.data_version is not None
    assert saved.data_version.timestamp == NOW


def test_a_group_that_committed_nothing_is_deleted_without_a_write() -> None:
    disk = MemoryDisk()
    a_table(disk, durable_offsets=True).delete_group("never")
    assert disk.read(DOCUMENT) is None


def test_a_topic_that_is_deleted_takes_its_resets_along() -> None:
    table = a_table(release=LAST_5)
    for topic in ("t", "u"):
        table.reset("g", topic, 0, 1)
    table.delete_topic("t")
    assert table.pending_resets == {"u@g": {0: 1}}


def test_a_broker_that_stops_dates_its_offsets() -> None:
    disk = MemoryDisk()
    config = BrokerConfig(release=LAST_5)
    broker = Broker(config, disk=disk, journal=Journal("b", StoppedClock(NOW)), now_ms=NOW)
    broker.offsets.commit("g", "t", 0, 1, NOW)
    broker.close(NOW + 9)
    saved = decode_body(disk.read(DOCUMENT) or b"", ConsumerOffsetSerializeWrapper)
    assert saved.data_version is not None
    assert saved.data_version.timestamp == NOW


def test_an_unchanged_table_is_not_written_again() -> None:
    disk = MemoryDisk()
    table = a_table(disk)
    table.commit("g", "t", 0, 1, NOW)
    table.persist()
    disk.replace(DOCUMENT, b"{}")
    table.persist()
    assert disk.read(DOCUMENT) == b"{}"


def test_a_table_the_disk_had_no_room_for_is_written_later() -> None:
    disk = MemoryDisk(bytes_max=10)
    table = a_table(disk)
    table.commit("g", "t", 0, 1, NOW)
    table.persist()
    disk.bytes_max = None
    table.persist()
    assert a_table(disk).query("g", "t", 0) == 1


def test_a_reset_is_taken_once_and_commits_before_that_do_not_count() -> None:
    table = a_table(release=LAST_5)
    table.commit("g", "t", 0, 90, NOW)
    table.reset("g", "t", 0, 7)
    table.commit("g", "t", 0, 91, NOW)
    assert table.query("g", "t", 0) == 7
    assert table.take_reset("g", "t", 0) == 7
    assert table.take_reset("g", "t", 0) is None
    assert table.pending_resets == {}
    table.commit("g", "t", 0, 8, NOW)
    assert table.query("g", "t", 0) == 8


def test_topics_and_groups_are_found_by_each_other() -> None:
    table = a_table()
    for group, topic in (("g", "t"), ("g", "%RETRY%g"), ("h", "t")):
        table.commit(group, topic, 0, 1, NOW)
    assert table.topics_of_group("g") == ["t", "%RETRY%g"]
    assert table.groups_of_topic("t") == ["g", "h"]
    table.delete_topic("t")
    assert table.topics_of_group("g") == ["%RETRY%g"]


def test_a_clone_goes_its_own_way() -> None:
    table = a_table()
    table.commit("g", "t", 0, 5, NOW)
    table.clone("g", "h", "t")
    table.clone("never", "i", "t")
    table.commit("g", "t", 0, 6, NOW)
    assert table.query("h", "t", 0) == 5
    assert table.query("i", "t", 0) is None


@pytest.mark.parametrize(("line", "release"), [("4.9", LAST_4), ("5.3", LAST_5)])
def test_a_real_brokers_file_is_loaded_and_written_back(line: str, release: str) -> None:
    for case in cases("config-files.jsonl", "file_consumerOffset", line):
        text = case["out"].encode()
        disk = MemoryDisk()
        disk.replace(DOCUMENT, text)
        table = a_table(disk, release=release)
        expected = {key: dict(queues["map"]) for key, queues in offset_pairs(case)}
        assert table.offset_table == expected
        table._changed()
        table.persist()
        if line == "4.9":
            assert disk.read(DOCUMENT) == text
        assert a_table(disk, release=release).offset_table == expected


def offset_pairs(case: dict[str, Any]) -> list[Any]:
    pairs: list[Any] = case["in"]["fields"]["offsetTable"]["map"]
    return pairs
