"""Flushing a directory: which files are synced, one sync for all that wait, failures."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from rocketmq_emulator.disk import files
from rocketmq_emulator.disk.files import PAGE_BYTES, FileDisk

SIZE = 16 * PAGE_BYTES


class Syncs:
    """A fake ``fsync``: keeps the names of synced files; can block a sync, or fail it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.fails = False
        self.began = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, descriptor: int) -> None:
        self.names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        self.began.set()
        assert self.may_go_on.wait(10)
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    found = Syncs()
    monkeypatch.setattr(files.os, "fdatasync", found)
    monkeypatch.setattr(files.os, "fsync", found)
    return found


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FileDisk]:
    found = FileDisk(tmp_path)
    yield found
    found.close()


def name(base: int) -> str:
    return f"{base:020d}"


def ignore(_result: object) -> None:
    """Discard the result."""


def test_the_first_flush_syncs_every_segment_that_a_dead_process_may_have_left_unflushed(
    tmp_path: Path, syncs: Syncs
) -> None:
    first = FileDisk(tmp_path)
    for base in (0, SIZE):
        first.open_segment(base, SIZE)
    first.close()
    syncs.names.clear()
    disk = FileDisk(tmp_path)
    for base in disk.segments():
        disk.open_segment(base, SIZE)
    disk.flush(SIZE + 10, ignore)
    assert syncs.names == [name(0), name(SIZE)]
    disk.close()


def test_later_flushes_sync_what_may_have_changed_and_the_names_of_new_files(
    disk: FileDisk, syncs: Syncs
) -> None:
    disk.open_segment(0, SIZE)
    disk.flush(10, ignore)
    assert syncs.names == [name(0), "commitlog"]
    disk.flush(20, ignore)
    assert syncs.names[2:] == [name(0)]
    disk.open_segment(SIZE, SIZE)
    disk.flush(SIZE + 5, ignore)
    assert syncs.names[3:] == [name(0), name(SIZE), "commitlog"]
    disk.flush(SIZE + 6, ignore)
    assert syncs.names[6:] == [name(SIZE)]


def test_a_removed_segment_needs_no_sync(disk: FileDisk, syncs: Syncs) -> None:
    disk.open_segment(0, SIZE)
    disk.open_segment(SIZE, SIZE)
    disk.remove_segment(0)
    disk.flush(SIZE + 1, ignore)
    assert syncs.names == [name(SIZE), "commitlog"]


def test_a_segment_that_was_removed_and_made_again_is_synced_and_not_its_old_file(
    disk: FileDisk, syncs: Syncs
) -> None:
    disk.open_segment(0, SIZE)
    disk.flush(1, ignore)
    disk.remove_segment(0)
    disk.open_segment(0, SIZE)
    disk.flush(2, ignore)
    assert syncs.names == [name(0), "commitlog", name(0), "commitlog"]


def test_a_segment_that_is_removed_while_it_waits_for_its_sync_is_no_failure(
    disk: FileDisk, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.open_segment(0, SIZE)
    disk.open_segment(SIZE, SIZE)
    results: list[int | OSError] = []
    once = files.os.fdatasync

    def remove_first(descriptor: int) -> None:
        once(descriptor)
        monkeypatch.setattr(files.os, "fdatasync", once)
        disk.remove_segment(SIZE)

    monkeypatch.setattr(files.os, "fdatasync", remove_first)
    disk.flush(SIZE + 1, results.append)
    assert results == [SIZE + 1]
    assert syncs.names == [name(0), "commitlog"]


def test_a_disk_without_handles_fails_the_flush_and_the_next_one_succeeds(
    disk: FileDisk, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.open_segment(0, SIZE)
    results: list[int | OSError] = []

    def no_handles(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "open", no_handles)
        disk.flush(1, results.append)
    disk.flush(1, results.append)
    assert isinstance(results[0], OSError)
    assert results[1:] == [1]
    assert syncs.names == [name(0), "commitlog"]


def test_a_durable_document_is_synced_before_it_gets_its_name_and_its_name_after(
    disk: FileDisk, syncs: Syncs
) -> None:
    disk.replace("topics.json", b"{}")
    assert syncs.names == []
    disk.replace("topics.json", b"{}", flushed=True)
    assert syncs.names == ["topics.json.tmp", "config"]


def test_a_failed_flush_is_an_error_and_the_next_one_writes_the_pages_again(
    disk: FileDisk, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[int | OSError] = []
    segment = disk.open_segment(0, SIZE)
    disk.flush(10, results.append)
    syncs.fails = True
    disk.flush(2 * PAGE_BYTES, results.append)
    assert isinstance(results[1], OSError)
    syncs.fails = False
    dirtied: list[tuple[int, int]] = []
    monkeypatch.setattr(segment, "make_dirty", lambda *where: dirtied.append(where))
    disk.flush(2 * PAGE_BYTES + 5, results.append)
    disk.flush(2 * PAGE_BYTES + 6, results.append)
    assert dirtied == [(10, 2 * PAGE_BYTES + 5)]
    assert results[2:] == [2 * PAGE_BYTES + 5, 2 * PAGE_BYTES + 6]


def test_making_pages_dirty_changes_no_byte(disk: FileDisk) -> None:
    segment = disk.open_segment(SIZE, SIZE)
    segment.view[:] = bytes(range(256)) * (SIZE // 256)
    before = bytes(segment.view)
    segment.make_dirty(0, 3 * SIZE)
    segment.make_dirty(SIZE + 5, SIZE + 6)
    assert bytes(segment.view) == before


async def test_one_sync_serves_all_who_asked_while_another_was_under_way(
    tmp_path: Path, syncs: Syncs
) -> None:
    disk = FileDisk(tmp_path, trio.lowlevel.current_trio_token().run_sync_soon)
    disk.open_segment(0, SIZE)
    results: list[int | OSError] = []
    loop_thread = threading.get_ident()
    threads: set[int] = set()
    all_done = trio.Event()

    def done(result: int | OSError) -> None:
        threads.add(threading.get_ident())
        results.append(result)
        if len(results) == 33:
            all_done.set()

    syncs.may_go_on.clear()
    disk.flush(1, done)
    await trio.to_thread.run_sync(syncs.began.wait)
    for upto in range(2, 34):
        disk.flush(upto, done)
    assert results == []
    syncs.may_go_on.set()
    with trio.fail_after(10):
        await all_done.wait()
    assert results == [1, *[33] * 32]
    assert threads == {loop_thread}
    assert disk.sync_count == 2
    disk.close()


async def test_a_failure_fails_what_was_asked_before_anybody_could_write_the_pages_again(
    tmp_path: Path, syncs: Syncs
) -> None:
    disk = FileDisk(tmp_path, trio.lowlevel.current_trio_token().run_sync_soon)
    disk.open_segment(0, SIZE)
    results: list[int | OSError] = []
    both = trio.Event()

    def done(result: int | OSError) -> None:
        results.append(result)
        if len(results) == 2:
            both.set()

    syncs.may_go_on.clear()
    syncs.fails = True
    disk.flush(1, done)
    await trio.to_thread.run_sync(syncs.began.wait)
    disk.flush(2, done)
    syncs.may_go_on.set()
    with trio.fail_after(10):
        await both.wait()
    assert [type(result) for result in results] == [OSError, OSError]
    assert len(syncs.names) == 1
    syncs.fails = False
    again = trio.Event()
    disk.flush(3, lambda result: (results.append(result), again.set()))
    with trio.fail_after(10):
        await again.wait()
    assert results[2] == 3
    disk.close()


async def test_closing_finishes_what_was_asked_for_and_starts_no_thread_without_need(
    tmp_path: Path, syncs: Syncs
) -> None:
    before = threading.active_count()
    soon: Callable[..., object] = trio.lowlevel.current_trio_token().run_sync_soon
    disk = FileDisk(tmp_path, soon)
    disk.open_segment(0, SIZE)
    assert threading.active_count() == before
    disk.flush(10, ignore)
    disk.close()
    assert syncs.names == [name(0), "commitlog"]
    assert threading.active_count() == before
