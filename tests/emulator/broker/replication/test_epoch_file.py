"""Epochs of a log: which are added, how far two logs are equal, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_emulator.broker.replication.epoch_file import (
    BadEpochFile,
    EpochFile,
    EpochFileCache,
    decode_epochs,
    encode_epochs,
)
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import EPOCH_FILE
from rocketmq_emulator.facts import (
    EpochBegun,
    EpochFileUnreadable,
    EpochNotKept,
    Fact,
    StoreRefused,
)
from rocketmq_emulator.protocol.auto_switch import NO_END, LogEpoch

Starts = dict[int, int]  # where an epoch begins, by its number


def epochs(starts: Starts) -> EpochFileCache:
    """Epochs that begin there."""
    return EpochFileCache(LogEpoch(*each) for each in starts.items())


def test_each_epoch_ends_where_the_next_one_begins() -> None:
    assert epochs({1: 0, 2: 100, 5: 120}).entries == (
        LogEpoch(1, 0, 100),
        LogEpoch(2, 100, 120),
        LogEpoch(5, 120, NO_END),
    )
    assert epochs({}).entries == ()


@pytest.mark.parametrize(
    ("number", "start", "is_added"),
    [(3, 101, True), (3, 100, False), (3, 99, False), (2, 101, False), (1, 500, False)],
)
def test_an_epoch_is_added_only_if_number_and_position_are_larger(
    number: int, start: int, is_added: bool
) -> None:
    found = epochs({1: 0, 2: 100})
    assert found.append(number, start) is is_added
    assert (found.last_epoch == 3) is is_added
    assert found.entries[1].end == (start if is_added else NO_END)


def test_the_first_epoch_may_begin_anywhere() -> None:
    found = epochs({})
    assert found.last_epoch == -1
    assert found.append(7, 0)
    assert found.last == LogEpoch(7, 0)


def test_an_epoch_is_found_by_a_position_from_its_start_to_before_its_end() -> None:
    found = epochs({1: 50, 2: 100})
    assert [found.at(position) for position in (49, 50, 99, 100, 10**12)] == [
        None,
        LogEpoch(1, 50, 100),
        LogEpoch(1, 50, 100),
        LogEpoch(2, 100),
        LogEpoch(2, 100),
    ]


def test_the_next_epoch_has_the_next_larger_number() -> None:
    found = epochs({1: 0, 4: 100})
    assert found.after(1) == found.after(3) == LogEpoch(4, 100)
    assert found.after(-1) == LogEpoch(1, 0, 100)
    assert found.after(4) is None


def test_epochs_are_removed_at_either_end() -> None:
    found = epochs({1: 0, 2: 100, 3: 200})
    found.cut_from(200)
    assert [each.epoch for each in found.entries] == [1, 2]
    found.cut_before(100)
    assert [each.epoch for each in found.entries] == [2]
    found.cut_from_epoch(2)
    assert found.entries == ()


def test_an_epoch_keeps_its_old_end_after_its_follower_was_removed() -> None:
    found = epochs({1: 0, 2: 100})
    found.cut_from(100)
    assert found.entries == (LogEpoch(1, 0, 100),)
    found.append(3, 70)
    assert found.entries == (LogEpoch(1, 0, 70), LogEpoch(3, 70))


@pytest.mark.parametrize(
    ("own", "own_end", "masters", "masters_end", "point"),
    [
        ({1: 0, 2: 100}, 150, {1: 0, 2: 100, 3: 120}, 300, 120),  # R52
        ({1: 0, 2: 100}, 110, {1: 0, 2: 100, 3: 120}, 300, 110),
        ({1: 0, 2: 100}, 150, {1: 0, 2: 100}, 130, 130),
        ({1: 0, 2: 100}, 150, {1: 0, 2: 90}, 300, 90),
        ({1: 0, 3: 100}, 150, {1: 0, 2: 80, 3: 120}, 300, 80),
        ({4: 0}, 150, {5: 0}, 300, -1),
        ({4: 10}, 150, {4: 0}, 300, -1),
        ({1: 0}, 150, {}, 0, -1),
    ],
)
def test_r52_logs_are_equal_up_to_the_end_of_the_newest_epoch_that_both_have(
    own: Starts, own_end: int, masters: Starts, masters_end: int, point: int
) -> None:
    of_slave, of_master = epochs(own), epochs(masters)
    of_slave.end_at(own_end)
    of_master.end_at(masters_end)
    assert of_slave.consistent_point(of_master) == point


def test_a_slave_keeps_bytes_that_its_master_lost_twice_from_one_position() -> None:
    """The second loss begins no epoch, so that nothing tells the logs apart: as upstream.

    The first loss began epoch 2 at 500, and the slave copied on to 700.  After the second one the
    master writes other bytes from 500 on.

    Upstream: EpochFileCache.appendEntry, findConsistentPoint; AutoSwitchHAService.changeToMaster,
    which shortens the epochs only while the dispatch is behind.
    """
    master = epochs({1: 0})
    assert master.append(2, 500)
    slave = EpochFileCache(master.entries)
    slave.end_at(700)
    assert not master.append(3, 500)
    master.end_at(900)
    assert slave.consistent_point(master) == 700
    assert master.append(4, 900)  # the next one is told apart again
    assert slave.consistent_point(master) == 700


def test_an_end_before_the_last_epoch_does_not_count() -> None:
    found = epochs({1: 0, 2: 100})
    found.end_at(99)
    assert found.entries[-1].end == NO_END


# The file -----------------------------------------------------------------------------


def test_the_file_has_a_count_a_crc_and_a_line_for_each_epoch() -> None:
    text = encode_epochs([LogEpoch(7, 7000), LogEpoch(8, 8000)])
    assert text == b"2\n773307083\n7-7000\n8-8000\n"  # the example of CheckpointFile
    assert decode_epochs(text) == [LogEpoch(7, 7000), LogEpoch(8, 8000)]
    assert decode_epochs(text.replace(b"773307083", b"0")) == decode_epochs(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"2\n",
        b"x\n0\n1-0\n",
        b"2\n0\n1-0\n",
        b"1\n0\n1-0-5-6\n",
        b"1\n0\n1\n",
        b"1\n0\nx-0\n",
        b"1\n17\n1-0\n",
        bytes(range(256)),
    ],
)
def test_a_damaged_file_is_refused(text: bytes) -> None:
    with pytest.raises(BadEpochFile):
        decode_epochs(text)


class EpochRig:
    """The epoch file of a disk, as of a broker that has just started."""

    def __init__(self, disk: Any) -> None:
        self.facts: list[Fact] = []
        self.file = EpochFile(disk, self.facts.append)


def test_each_change_is_written_and_the_text_before_is_kept_too() -> None:
    disk = MemoryDisk()
    file = EpochRig(disk).file
    file.append(1, 0)
    file.append(2, 100)
    assert disk.read(EPOCH_FILE) == encode_epochs(file.entries)
    assert disk.read(f"{EPOCH_FILE}.bak") == encode_epochs([LogEpoch(1, 0)])
    file.cut_from(100)
    assert EpochRig(disk).file.entries == (LogEpoch(1, 0),)


def test_no_epochs_are_never_written() -> None:
    disk = MemoryDisk()
    file = EpochRig(disk).file
    file.append(1, 0)
    file.cut_from(0)
    assert file.entries == ()
    assert disk.read(EPOCH_FILE) == encode_epochs([LogEpoch(1, 0)])


def test_a_damaged_file_is_replaced_by_the_one_before_and_two_by_no_epochs() -> None:
    disk = MemoryDisk()
    file = EpochRig(disk).file
    file.append(1, 0)
    file.append(2, 100)
    disk.replace(EPOCH_FILE, b"garbage")
    rig = EpochRig(disk)
    assert rig.file.entries == (LogEpoch(1, 0),)
    (fact,) = rig.facts
    assert isinstance(fact, EpochFileUnreadable)
    assert fact.file == EPOCH_FILE
    disk.replace(f"{EPOCH_FILE}.bak", b"garbage")
    rig = EpochRig(disk)
    assert rig.file.entries == ()
    assert len(rig.facts) == 2


def test_what_is_added_and_what_is_not_are_facts() -> None:
    rig = EpochRig(MemoryDisk())
    rig.file.append(1, 0)
    rig.file.append(2, 0)
    rig.file.append(1, 0)
    assert rig.facts == [EpochBegun(1, 0), EpochNotKept(2, 0, 1, 0)]


def test_epochs_that_cannot_be_written_count_until_the_end_of_the_process() -> None:
    disk = MemoryDisk(bytes_max=40)
    rig = EpochRig(disk)
    for number in range(1, 6):
        rig.file.append(number, 1_000 * number)
    assert rig.file.last_epoch == 5
    assert any(isinstance(fact, StoreRefused) for fact in rig.facts)
    assert EpochRig(disk).file.last_epoch < 5


def test_the_file_is_beside_the_folders_as_upstreams(tmp_path: Path) -> None:
    EpochRig(FileDisk(tmp_path)).file.append(1, 0)
    assert (tmp_path / "epochFileCheckpoint").read_bytes().startswith(b"1\n")


def test_after_a_reset_the_last_epoch_begins_with_the_new_log_also_on_the_disk() -> None:
    disk = MemoryDisk()
    file = EpochRig(disk).file
    for epoch, start in ((1, 0), (2, 100)):
        file.append(epoch, start)
    file.begin_anew(50)
    assert file.entries == (LogEpoch(2, 50),)
    assert EpochRig(disk).file.entries == (LogEpoch(2, 50),)


def test_after_a_reset_a_slave_has_no_epochs_also_if_the_file_is_damaged_later() -> None:
    disk = MemoryDisk()
    file = EpochRig(disk).file
    for epoch, start in ((1, 0), (2, 100)):
        file.append(epoch, start)
    file.begin_anew(None)
    assert file.entries == ()
    rig = EpochRig(disk)
    assert (rig.file.entries, rig.facts) == ((), [])
    disk.replace(EPOCH_FILE, b"garbage")
    assert EpochRig(disk).file.entries == ()
