"""Drives that are full, slow or refuse flushes for a while, alone and at once."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.disk.port import DiskFull
from rocketmq_emulator.faults.links_and_drives import (
    DriveFault,
    FailingFlushes,
    NoRoom,
    SlowFlushes,
)
from rocketmq_emulator.sim.clock import VirtualClock
from rocketmq_emulator.sim.drive import VirtualDisk, VirtualDrive

SIZE = 8_000


def at_once(action: Any, argument: Any) -> None:
    action(argument)


def a_disk() -> tuple[VirtualClock, VirtualDrive, VirtualDisk]:
    """A drive without a seek time, 1 MB a second: a flush of one segment takes 8 ms."""
    clock = VirtualClock()
    drive = VirtualDrive(1_000_000, clock=clock, deliver=at_once)
    drive.seek_ms, drive.bytes_per_s = 0.0, 1_000_000
    disk = VirtualDisk(drive)
    segment = disk.open_segment(0, SIZE)
    segment.view[:] = b"x" * SIZE
    segment.close()
    return clock, drive, disk


def pass_time(clock: VirtualClock, until_us: float = float("inf")) -> None:
    while clock._due and clock._due[0][0] <= until_us:
        clock._deliver()
    if until_us < float("inf"):
        clock._move(int(until_us))


def test_a_full_drive_has_so_much_room_and_what_is_removed_makes_more() -> None:
    _, drive, disk = a_disk()
    full = DriveFault(NoRoom(free_bytes=10))
    with drive.under(full):
        disk.replace("a", b"0123456789")
        with pytest.raises(DiskFull, match=r"1 bytes do not fit: 8010 of 8010 are used"):
            disk.replace("b", b"!")
        disk.replace("a", b"0123")
        disk.replace("b", b"456789")
        assert full.tally.times == {"refused a write": 1}
        disk.remove_segment(0)
        disk.open_segment(SIZE, SIZE).close()
    disk.replace("b", b"x" * 100)


def test_of_two_full_drives_each_ends_alone() -> None:
    _, drive, disk = a_disk()
    narrow, wide = DriveFault(NoRoom()), DriveFault(NoRoom(free_bytes=5))
    drive.begin(narrow)
    drive.begin(wide)
    drive.end(narrow)
    disk.replace("a", b"01234")
    with pytest.raises(DiskFull):
        disk.append("a", b"5")
    drive.end(wide)
    disk.append("a", b"5")
    assert (narrow.tally.count, wide.tally.count) == (0, 1)


def test_a_flush_under_way_does_the_rest_at_the_new_speed() -> None:
    clock, drive, disk = a_disk()
    ended_us: list[int] = []
    disk.flush(SIZE, lambda _: ended_us.append(clock.now_us))
    pass_time(clock, 2_000)  # a quarter of it is done
    slow = DriveFault(SlowFlushes(bytes_per_s=10_000))  # all of it would take 800 ms
    drive.begin(slow)
    pass_time(clock, 302_000)  # one half of the remaining 600 ms
    drive.end(slow)
    pass_time(clock)
    assert ended_us == [302_000 + 3_000]
    assert slow.tally.times == {"slowed a flush": 1}


def test_the_slowest_of_several_decides() -> None:
    clock, drive, disk = a_disk()
    ended_us: list[int] = []
    with drive.slow(seek_ms=500), drive.slow(seek_ms=50, bytes_per_s=80_000):
        disk.flush(SIZE, lambda _: ended_us.append(clock.now_us))
        pass_time(clock)
    assert ended_us == [600_000]


def test_flushes_fail_by_chance_and_who_flushes_again_gets_all_on_the_platter() -> None:
    clock, drive, disk = a_disk()
    failing = DriveFault(FailingFlushes(probability=0.3))
    results: list[int | OSError] = []
    with drive.under(failing):
        for upto in range(1, 1_001):
            disk.flush(upto, results.append)
            pass_time(clock)
    failed = [upto for upto, result in enumerate(results, 1) if isinstance(result, OSError)]
    assert 250 < len(failed) == failing.tally.times["refused a flush"] < 350
    disk.flush(1_000, results.append)
    pass_time(clock)
    assert results[-1] == drive.flushed_to == 1_000


@pytest.mark.parametrize(
    ("make", "fields", "name"),
    [
        (NoRoom, {"free_bytes": -1}, "free_bytes"),
        (SlowFlushes, {"flush_ms": float("inf")}, "flush_ms"),
        (SlowFlushes, {"bytes_per_s": 0}, "bytes_per_s"),
        (FailingFlushes, {"probability": 1.5}, "probability"),
    ],
)
def test_a_trouble_that_cannot_be_is_refused_by_its_field(make, fields, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is"):
        make(**fields)
