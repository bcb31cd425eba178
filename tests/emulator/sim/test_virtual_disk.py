"""A drive outlives the process, and what was flushed outlives the power."""

from __future__ import annotations

import pytest

from emulator.disk.port import DiskFull
from emulator.sim.disk import VirtualDisk, VirtualDrive

SIZE = 8192


def a_disk(bytes_max: int = 1_000_000) -> tuple[VirtualDrive, VirtualDisk]:
    drive = VirtualDrive(bytes_max)
    return drive, drive.plug()


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


@pytest.mark.parametrize(
    ("flushed_to", "kept"),
    [(0, 0), (1, 1), (SIZE, SIZE), (SIZE + 5, SIZE + 5), (2 * SIZE, 2 * SIZE)],
)
def test_the_power_takes_what_was_not_flushed(flushed_to: int, kept: int) -> None:
    drive, disk = a_written_disk()
    disk.flush(flushed_to)
    drive.lose_power()
    assert bytes_at(disk, 0) + bytes_at(disk, SIZE) == (b"x" * kept).ljust(2 * SIZE, b"\0")


def test_a_disk_that_is_never_flushed_writes_through() -> None:
    drive, disk = a_written_disk()
    drive.lose_power()
    assert bytes_at(disk, SIZE) == b"x" * SIZE


def test_the_dead_process_cannot_write_to_what_the_next_one_reads() -> None:
    drive, disk = a_written_disk()
    dead = disk.open_segment(0, SIZE)
    disk.flush(10)
    drive.lose_power()
    dead.view[:] = b"y" * SIZE
    assert bytes_at(disk, 0) == (b"x" * 10).ljust(SIZE, b"\0")


def test_an_unplugged_disk_changes_nothing_any_more() -> None:
    drive, disk = a_written_disk()
    disk.replace("offsets", b"1")
    disk.unplug()
    disk.replace("offsets", b"2")
    disk.remove_segment(0)
    disk.open_segment(2 * SIZE, SIZE)
    disk.flush(1)
    drive.lose_power()
    heir = drive.plug()
    assert heir.read("offsets") == b"1"
    assert heir.segments() == [0, SIZE]
    assert bytes_at(heir, SIZE) == b"x" * SIZE
