"""A virtual disk outlives the process; the power only what was flushed."""

from __future__ import annotations

import pytest

from emulator.disk.port import DiskFull
from emulator.sim.disk import VirtualDisk

SIZE = 8192


def a_written_disk() -> VirtualDisk:
    disk = VirtualDisk()
    for base in (0, SIZE):
        segment = disk.open_segment(base, SIZE)
        segment.view[:] = b"x" * SIZE
        segment.close()
    return disk


def bytes_at(disk: VirtualDisk, base: int) -> bytes:
    segment = disk.open_segment(base, SIZE)
    try:
        return bytes(segment.view)
    finally:
        segment.close()


def test_a_new_segment_is_zero_and_a_reopened_one_as_it_was() -> None:
    disk = a_written_disk()
    assert disk.segments() == [0, SIZE]
    assert bytes_at(disk, 2 * SIZE) == bytes(SIZE)
    assert bytes_at(disk, SIZE) == b"x" * SIZE


def test_removed_segments_are_gone() -> None:
    disk = a_written_disk()
    disk.remove_segment(0)
    disk.remove_segment(0)
    assert disk.segments() == [SIZE]


def test_a_document_is_replaced_whole() -> None:
    disk = VirtualDisk()
    assert disk.read("topics.json") is None
    disk.replace("topics.json", b"old")
    disk.replace("topics.json", b"new")
    assert disk.read("topics.json") == b"new"


def test_a_full_disk_writes_nothing() -> None:
    disk = VirtualDisk(bytes_max=SIZE + 10)
    disk.open_segment(0, SIZE)
    with pytest.raises(DiskFull):
        disk.open_segment(SIZE, SIZE)
    disk.replace("a", b"0123456789")
    with pytest.raises(DiskFull):
        disk.replace("a", b"0123456789!")
    assert disk.segments() == [0]
    assert disk.read("a") == b"0123456789"


def test_a_disk_can_be_full_for_a_while() -> None:
    disk = a_written_disk()
    with disk.full(), pytest.raises(DiskFull):
        disk.replace("a", b"x")
    disk.replace("a", b"x")
    assert disk.read("a") == b"x"


@pytest.mark.parametrize(
    ("flushed_to", "kept"),
    [(0, 0), (1, 1), (SIZE, SIZE), (SIZE + 5, SIZE + 5), (2 * SIZE, 2 * SIZE)],
)
def test_the_power_takes_what_was_not_flushed(flushed_to: int, kept: int) -> None:
    disk = a_written_disk()
    disk.flush(flushed_to)
    disk.lose_power()
    assert bytes_at(disk, 0) + bytes_at(disk, SIZE) == (b"x" * kept).ljust(2 * SIZE, b"\0")


def test_a_disk_that_is_never_flushed_writes_through() -> None:
    disk = a_written_disk()
    disk.lose_power()
    assert bytes_at(disk, SIZE) == b"x" * SIZE


def test_the_dead_process_cannot_write_to_what_the_next_one_reads() -> None:
    disk = a_written_disk()
    dead = disk.open_segment(0, SIZE)
    disk.flush(10)
    disk.lose_power()
    dead.view[:] = b"y" * SIZE
    assert bytes_at(disk, 0) == (b"x" * 10).ljust(SIZE, b"\0")
