"""A drive's contents survive its process, and flushed contents survive a loss of power."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rocketmq_emulator.disk.port import DiskFull
from rocketmq_emulator.sim.clock import VirtualClock
from rocketmq_emulator.sim.drive import PowerLoss, VirtualDisk, VirtualDrive

SIZE = 8192


SEEDS = range(50)


def at_once(action: Any, argument: Any) -> None:
    action(argument)


def a_disk(bytes_max: int = 1_000_000) -> tuple[VirtualDrive, VirtualDisk]:
    drive = VirtualDrive(bytes_max, clock=VirtualClock(), deliver=at_once)
    return drive, VirtualDisk(drive)


def pass_time(drive: VirtualDrive) -> None:
    """Deliver everything that is due on the drive's clock."""
    clock = drive._clock
    assert clock is not None
    while clock._due:
        clock._deliver()


def flushed(disk: VirtualDisk, upto: int) -> int | OSError:
    """The result of a flush."""
    results: list[int | OSError] = []
    disk.flush(upto, results.append)
    pass_time(disk._drive)
    return results[0]


def log_of(disk: VirtualDisk) -> bytes:
    return b"".join(bytes_at(disk, base) for base in disk.segments())


def a_written_disk() -> tuple[VirtualDrive, VirtualDisk]:
    drive, disk = a_disk()
    for base in (0, SIZE):
        segment = disk.open_segment(base, SIZE)
        segment.view[:] = b"x" * SIZE
        segment.close()
    return drive, disk


def bytes_at(disk: VirtualDisk, base: int) -> bytes:
    segment = disk.open_segment(base, SIZE)
    try:
        return bytes(segment.view)
    finally:
        segment.close()


def test_a_new_segment_is_zero_and_a_reopened_one_as_it_was() -> None:
    _drive, disk = a_written_disk()
    assert disk.segments() == [0, SIZE]
    assert bytes_at(disk, 2 * SIZE) == bytes(SIZE)
    assert bytes_at(disk, SIZE) == b"x" * SIZE


def test_removed_segments_are_gone() -> None:
    _drive, disk = a_written_disk()
    disk.remove_segment(0)
    disk.remove_segment(0)
    assert disk.segments() == [SIZE]


def test_a_document_is_replaced_whole() -> None:
    _, disk = a_disk()
    assert disk.read("topics.json") is None
    disk.replace("topics.json", b"old")
    disk.replace("topics.json", b"new")
    assert disk.read("topics.json") == b"new"


def test_a_loss_of_power_leaves_a_prefix_of_what_was_added_to_a_document() -> None:
    added = b"one\ntwo\nthree\n"
    found = set()
    for seed in SEEDS:
        drive, disk = a_disk()
        disk.append("topics.json.changes", b"zero\n", flushed=True)
        for line in added.splitlines(keepends=True):
            disk.append("topics.json.changes", line)
        drive.lose_power(Random(seed))
        left = VirtualDisk(drive).read("topics.json.changes")
        assert left is not None
        assert b"zero\n" <= left <= b"zero\n" + added
        assert (b"zero\n" + added).startswith(left)
        found.add(left)
    assert len(found) > 4
    assert any(not left.endswith(b"\n") for left in found)


def test_what_an_unplugged_disk_adds_to_a_document_does_not_reach_the_drive() -> None:
    drive, disk = a_disk()
    disk.append("topics.json.changes", b"one\n")
    disk.unplug()
    disk.append("topics.json.changes", b"two\n")
    assert VirtualDisk(drive).read("topics.json.changes") == b"one\n"


def test_a_full_disk_writes_nothing() -> None:
    _, disk = a_disk(bytes_max=SIZE + 10)
    disk.open_segment(0, SIZE)
    with pytest.raises(DiskFull):
        disk.open_segment(SIZE, SIZE)
    disk.replace("a", b"0123456789")
    with pytest.raises(DiskFull):
        disk.replace("a", b"0123456789!")
    assert disk.segments() == [0]
    assert disk.read("a") == b"0123456789"


def test_a_disk_can_be_full_for_a_while() -> None:
    drive, disk = a_written_disk()
    with drive.full(), pytest.raises(DiskFull):
        disk.replace("a", b"x")
    disk.replace("a", b"x")
    assert disk.read("a") == b"x"


@pytest.mark.parametrize("flushed_to", [0, 1, SIZE, SIZE + 5, 2 * SIZE])
def test_the_power_takes_a_tail_of_what_was_not_flushed(flushed_to: int) -> None:
    ends = set()
    for seed in SEEDS:
        drive, disk = a_written_disk()
        assert flushed(disk, flushed_to) == flushed_to
        loss = drive.lose_power(Random(seed))
        kept = len(log_of(VirtualDisk(drive)).rstrip(b"\0"))
        assert log_of(VirtualDisk(drive)) == (b"x" * kept).ljust(2 * SIZE, b"\0")
        assert flushed_to <= kept <= 2 * SIZE
        assert loss == PowerLoss(flushed_to, kept, 2 * SIZE, ())
        ends.add(kept)
    assert len(ends) > 10 or flushed_to == 2 * SIZE


def test_what_was_never_flushed_may_go_with_its_segment() -> None:
    left = set()
    for seed in SEEDS:
        drive, _disk = a_written_disk()
        drive.lose_power(Random(seed))
        left.add(tuple(VirtualDisk(drive).segments()))
    assert left == {(), (0,), (0, SIZE)}


def test_a_flush_takes_its_time_and_what_is_written_meanwhile_is_not_part_of_it() -> None:
    drive, disk = a_disk()
    drive.seek_ms, drive.bytes_per_s = 2, 1_000_000
    segment = disk.open_segment(0, SIZE)
    segment.view[:4000] = b"x" * 4000
    done: list[tuple[int, int | OSError]] = []
    clock = drive._clock
    assert clock is not None
    disk.flush(4000, lambda result: done.append((clock.now_us, result)))
    segment.view[4000:5000] = b"y" * 1000
    pass_time(drive)
    assert done == [(2_000 + 4_000, 4000)]
    assert drive._durable_segments[0][:5000].rstrip(b"\0") == b"x" * 4000


def test_one_flush_serves_all_who_asked_while_another_was_under_way() -> None:
    drive, disk = a_written_disk()
    done: list[int | OSError] = []
    for upto in range(1, 34):
        disk.flush(upto, done.append)
    pass_time(drive)
    assert done == [1, *[33] * 32]
    assert drive.flush_count == 2


def test_a_failing_drive_says_so_and_loses_nothing_that_was_safe() -> None:
    for seed in SEEDS:
        drive, disk = a_written_disk()
        assert flushed(disk, 10) == 10
        with drive.failing():
            assert isinstance(flushed(disk, 20), OSError)
        assert drive.lose_power(Random(seed)).flushed_to == 10
        assert bytes_at(VirtualDisk(drive), 0)[:10] == b"x" * 10


def test_a_drive_that_failed_can_flush_again() -> None:
    drive, disk = a_written_disk()
    with drive.failing():
        flushed(disk, 20)
    assert flushed(disk, 20) == 20
    for seed in SEEDS:
        drive.lose_power(Random(seed))
        assert bytes_at(VirtualDisk(drive), 0)[:20] == b"x" * 20


def test_what_was_kept_is_kept_for_good() -> None:
    for seed in SEEDS:
        drive, disk = a_written_disk()
        flushed(disk, 10)
        kept = drive.lose_power(Random(seed)).kept_to
        again = drive.lose_power(Random(seed + 1))
        assert (again.flushed_to, again.kept_to) == (kept, kept)
        assert len(log_of(VirtualDisk(drive)).rstrip(b"\0")) == kept


def test_a_flush_that_was_under_way_when_the_power_went_is_never_heard_of() -> None:
    drive, disk = a_written_disk()
    done: list[int | OSError] = []
    disk.flush(10, done.append)
    assert drive.lose_power(Random(1)).flushed_to == 0
    pass_time(drive)
    assert done == []
    assert drive.flush_count == 0


def test_a_document_is_the_old_or_the_new_text_and_a_flush_makes_it_the_new() -> None:
    found = set()
    for seed in SEEDS:
        drive, disk = a_disk()
        disk.replace("a", b"old")
        flushed(disk, 0)
        disk.replace("a", b"new")
        disk.replace("b", b"first")
        loss = drive.lose_power(Random(seed))
        found.add((VirtualDisk(drive).read("a"), VirtualDisk(drive).read("b"), loss.reverted))
    assert found == {
        (b"old", None, ("a", "b")),
        (b"new", None, ("b",)),
        (b"new", b"first", ()),
    }


def test_a_document_that_was_asked_to_be_durable_is() -> None:
    for seed in SEEDS:
        drive, disk = a_disk()
        disk.replace("a", b"old")
        disk.replace("a", b"new", flushed=True)
        drive.lose_power(Random(seed))
        assert VirtualDisk(drive).read("a") == b"new"


def test_names_are_durable_after_some_seconds_without_any_flush() -> None:
    for seed in SEEDS:
        drive, disk = a_disk()
        clock = drive._clock
        assert clock is not None
        disk.replace("a", b"1")
        clock.at(5_000_000, lambda _: None)
        pass_time(drive)
        disk.replace("a", b"2")
        drive.lose_power(Random(seed))
        assert VirtualDisk(drive).read("a") in (b"1", b"2")


def test_a_log_that_was_cut_does_not_get_its_old_tail_back_once_it_was_flushed() -> None:
    for seed in SEEDS:
        drive, disk = a_written_disk()
        flushed(disk, 2 * SIZE)
        disk.unplug()
        heir = VirtualDisk(drive)
        heir.remove_segment(SIZE)
        heir.open_segment(0, SIZE).view[100:] = bytes(SIZE - 100)
        flushed(heir, 100)
        drive.lose_power(Random(seed))
        assert log_of(VirtualDisk(drive)) == (b"x" * 100).ljust(SIZE, b"\0")


def test_the_dead_process_cannot_write_to_what_the_next_one_reads() -> None:
    drive, disk = a_written_disk()
    dead = disk.open_segment(0, SIZE)
    flushed(disk, 2 * SIZE)
    drive.lose_power(Random(1))
    dead.view[:] = b"y" * SIZE
    assert bytes_at(VirtualDisk(drive), 0) == b"x" * SIZE


def test_an_unplugged_disk_changes_nothing_any_more() -> None:
    drive, disk = a_written_disk()
    disk.replace("offsets", b"1")
    flushed(disk, 2 * SIZE)
    disk.unplug()
    disk.replace("offsets", b"2")
    disk.remove_segment(0)
    disk.open_segment(2 * SIZE, SIZE)
    disk.flush(3 * SIZE, pytest.fail)
    pass_time(drive)
    drive.lose_power(Random(1))
    heir = VirtualDisk(drive)
    assert heir.read("offsets") == b"1"
    assert heir.segments() == [0, SIZE]
    assert bytes_at(heir, SIZE) == b"x" * SIZE


def test_a_process_that_was_killed_does_not_hear_of_its_flush_but_the_drive_does_it() -> None:
    drive, disk = a_written_disk()
    disk.flush(10, pytest.fail)
    disk.unplug()
    pass_time(drive)
    assert drive.flushed_to == 10
