"""Consumer offsets: the last commit counts, and where a group without one begins."""

from __future__ import annotations

from typing import Any

import pytest
from golden_data import cases
from store_makers import LAST_4, LAST_5, NOW

from emulator.broker.broker import Broker
from emulator.broker.tables.offsets import DOCUMENT, ConsumerOffsets, first_offset
from emulator.clock import StoppedClock
from emulator.config import BrokerConfig
from emulator.disk.memory import MemoryDisk
from emulator.journal import Journal
from emulator.releases import Release
from protocol.bodies.body import decode_body
from protocol.bodies.offsets import ConsumerOffsetSerializeWrapper


def a_table(disk: MemoryDisk | None = None, **config: Any) -> ConsumerOffsets:
    return ConsumerOffsets(disk or MemoryDisk(), BrokerConfig(**config))


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
    table.persist(NOW)
    table.commit("g", "t", 0, 20, NOW)
    assert a_table(disk).query("g", "t", 0) == 10


def test_invariant_74_a_durable_table_loses_no_commit() -> None:
    disk = MemoryDisk()
    a_table(disk, durable_offsets=True).commit("g", "t", 0, 10, NOW)
    assert a_table(disk).query("g", "t", 0) == 10


@pytest.mark.parametrize("durable", [False, True])
def test_a_5x_table_carries_the_time_of_its_last_change(*, durable: bool) -> None:
    disk = MemoryDisk()
    table = a_table(disk, release=LAST_5, durable_offsets=durable)
    table.commit("g", "t", 0, 10, NOW + 7)
    table.persist(NOW + 7)
    saved = decode_body(disk.read(DOCUMENT) or b"", ConsumerOffsetSerializeWrapper)
    assert saved.data_version is not None
    assert saved.data_version.timestamp == NOW + 7


def test_a_broker_that_stops_dates_its_offsets() -> None:
    disk = MemoryDisk()
    config = BrokerConfig(release=LAST_5)
    broker = Broker(config, disk=disk, journal=Journal("b", StoppedClock(NOW)), now_ms=NOW)
    broker.offsets.commit("g", "t", 0, 1, NOW)
    broker.close(NOW + 9)
    saved = decode_body(disk.read(DOCUMENT) or b"", ConsumerOffsetSerializeWrapper)
    assert saved.data_version is not None
    assert saved.data_version.timestamp == NOW + 9


def test_an_unchanged_table_is_not_written_again() -> None:
    disk = MemoryDisk()
    table = a_table(disk)
    table.commit("g", "t", 0, 1, NOW)
    table.persist(NOW)
    disk.replace(DOCUMENT, b"{}")
    table.persist(NOW)
    assert disk.read(DOCUMENT) == b"{}"


def test_a_table_the_disk_had_no_room_for_is_written_later() -> None:
    disk = MemoryDisk(bytes_max=10)
    table = a_table(disk)
    table.commit("g", "t", 0, 1, NOW)
    table.persist(NOW)
    disk.bytes_max = None
    table.persist(NOW)
    assert a_table(disk).query("g", "t", 0) == 1


def test_a_reset_is_taken_once_and_commits_before_that_do_not_count() -> None:
    table = a_table(release=LAST_5)
    table.commit("g", "t", 0, 90, NOW)
    table.reset("g", "t", 0, 7, NOW)
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
    table.delete_topic("t", NOW)
    assert table.topics_of_group("g") == ["%RETRY%g"]


def test_a_clone_goes_its_own_way() -> None:
    table = a_table()
    table.commit("g", "t", 0, 5, NOW)
    table.clone("g", "h", "t", NOW)
    table.clone("never", "i", "t", NOW)
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
        table._changed(NOW)
        table.persist(NOW)
        if line == "4.9":
            assert disk.read(DOCUMENT) == text
        assert a_table(disk, release=release).offset_table == expected


def offset_pairs(case: dict[str, Any]) -> list[Any]:
    pairs: list[Any] = case["in"]["fields"]["offsetTable"]["map"]
    return pairs
