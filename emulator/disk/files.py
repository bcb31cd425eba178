"""A directory as a disk: written bytes stay when the process ends.

Segments are mapped files, so bytes are in the kernel's page cache as soon as they are copied:
``kill -9`` loses nothing.  A loss of power loses unflushed bytes; a flush syncs every file that
may have changed since the last one.  A write to a mapping beyond the end of a full disk kills the
process (SIGBUS), so a segment's space is reserved before it is mapped, and a full disk raises
``DiskFull``.  Names are upstream's: ``commitlog/<20 digits>``, ``config/<document>``, ``lock``,
and beside these the ``ROOT_DOCUMENTS``.

One thread syncs: requests queue up during a sync, and the next ``fdatasync`` serves all of them
(group commit).  The thread owns the descriptors that it syncs, so no other thread closes them.
It starts at the first request: a store that is never flushed has no thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rocketmq_emulator.disk.port import ROOT_DOCUMENTS, DiskFull, OnFlushed, Space
from rocketmq_emulator.protocol.error_families import CannotDoHere

PAGE_BYTES = mmap.PAGESIZE
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class StoreInUse(CannotDoHere):
    """Another process has locked the directory; nothing was changed."""


class StoreUnwritable(CannotDoHere):
    """The directory cannot be created or written; nothing was changed."""


class FileSegment:
    """One mapped file of the commit log."""

    def __init__(self, path: Path, base: int, writer: LogWriter) -> None:
        self.base = base
        self.is_closed = False
        self._path = path
        self._writer = writer
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.size = len(self._map)
        self.view = memoryview(self._map)

    def write(self, start: int, data: bytes | memoryview) -> None:
        """As ``Segment.write``: the first touch of each page of a map takes the kernel longer."""
        if len(data) >= PAGE_BYTES and self._writer.opens(self._path):
            self._writer.write(start, data)
        else:
            self.view[start : start + len(data)] = data

    def make_dirty(self, start: int, end: int) -> None:
        """Write every page between two positions of the log again, unchanged.

        After a failed sync the kernel marks the pages as clean: the next sync would
        succeed without writing them.
        """
        if self.is_closed:
            return
        first = max(start - self.base, 0) // PAGE_BYTES * PAGE_BYTES
        for at in range(first, min(end - self.base, self.size), PAGE_BYTES):
            self.view[at : at + 1] = bytes(self.view[at : at + 1])

    def close(self) -> None:
        """Unmap it when its last slice is released; the file stays."""
        self.is_closed = True
        # A slice that is being sent keeps the map; it is unmapped with the last slice.
        with contextlib.suppress(BufferError):
            self.view.release()
            self._map.close()


class LogWriter:
    """Writes to files of the log; the one that was written last stays open, as a log grows there.

    Reads through a memory map of the file see a write at once: both use Linux's page cache.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._file = -1

    def opens(self, path: Path) -> bool:
        """Open the file, unless it is open; False if that is not possible now."""
        if path is not self._path:
            self.close()
            try:
                self._file, self._path = os.open(path, os.O_WRONLY), path
            except OSError:  # no free descriptors
                return False
        return True

    def write(self, start: int, data: bytes | memoryview) -> None:
        """Put *data* at *start* of the open file.  Raises ``OSError``."""
        left = memoryview(data)
        while left:
            count = os.pwrite(self._file, left, start)
            left, start = left[count:], start + count

    def close(self) -> None:
        """Close the file, which may be removed now."""
        if self._path is not None:
            os.close(self._file)
            self._path = None


class FileDisk:
    """Segments and documents in one directory, which only one process may open.

    ``__init__`` raises StoreInUse or StoreUnwritable.  ``close`` unlocks the directory; so does
    the end of the process, of any kind.  With *soon* (it runs a function in the caller's
    thread, later) flushes are done by a thread; without it they block.
    """

    needs_flush = True

    def __init__(self, directory: str | Path, soon: RunSoon | None = None) -> None:
        self.directory = Path(directory)
        self._log = self.directory / "commitlog"
        self._config = self.directory / "config"
        try:
            self._log.mkdir(parents=True, exist_ok=True)
            self._config.mkdir(exist_ok=True)
            self._lock = _lock(self.directory / "lock")
            self._remove_temporary_files()
        except OSError as error:
            reason = f"cannot write to the store directory {self.directory}: {error.strerror}"
            raise StoreUnwritable(reason) from error
        self._open: dict[int, FileSegment] = {}
        self._writer = LogWriter()
        self._flusher = Flusher(soon)
        # All bytes below it are flushed; None: unknown, a killed process may have left any.
        self._flushed_to: int | None = None
        self._failed_to = 0  # a sync up to this position failed, and none has succeeded since
        self._attempt = 0
        self._cut_count = 0
        self._made_count = self._made_count_synced = 0  # new files; their names must be synced

    @property
    def sync_count(self) -> int:
        """The number of syncs of files: with group commit far fewer than flushes."""
        return self._flusher.sync_count

    def close(self) -> None:
        """Finish the requested flushes, in some seconds at most, and unlock the directory."""
        self._flusher.close()
        for segment in self._open.values():
            segment.close()
        self._open.clear()
        self._writer.close()
        os.close(self._lock)

    def space(self) -> Space:
        """As ``Disk.space``, of the file system of the directory."""
        found = os.statvfs(self.directory)
        return Space(found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail)

    def segments(self) -> list[int]:
        """As ``Disk.segments``: the files of the log, by their names."""
        return sorted(int(path.name) for path in self._log.iterdir() if _is_segment(path))

    def unexpected_files(self) -> list[tuple[str, str]]:
        """As ``Disk.unexpected_files``, among the files of the log."""
        found = []
        for path in sorted(self._log.iterdir()):
            name = f"{self._log.name}/{path.name}"
            if not _is_segment(path):
                found.append((name, "is no file of a commit log: it is not read"))
            elif path.stat().st_size == 0:
                found.append((name, "is empty: if messages were in it, they are lost"))
        return found

    def open_segment(self, base: int, size: int) -> FileSegment:
        """The segment at *base*; an existing one keeps the size of its file, not *size*."""
        found = self._open.get(base)
        if found is not None and not found.is_closed:
            return found
        path = self._path(base)
        if not path.exists() or path.stat().st_size == 0:  # an empty file cannot be mapped
            _reserve(path, size)
            self._made_count += 1
        segment = self._open[base] = FileSegment(path, base, self._writer)
        return segment

    def remove_segment(self, base: int) -> None:
        """As ``Disk.remove_segment``; slices of it stay valid."""
        if (segment := self._open.pop(base, None)) is not None:
            segment.close()
        self._writer.close()
        self._path(base).unlink()

    def read(self, name: str) -> bytes | None:
        """As ``Disk.read``; raises OSError when the file cannot be read."""
        try:
            return (self._folder_of(name) / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """As ``Disk.replace``: a new file is written and renamed to the old one's name."""
        folder = self._folder_of(name)
        temporary = folder / f"{name}.tmp"
        with _no_room_left(temporary):
            with temporary.open("wb") as file:
                file.write(data)
                if flushed:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(folder / name)
        if flushed:
            sync_folder(str(folder))

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """As ``Disk.append``; if only a part fits, the file is truncated to its old length."""
        folder = self._folder_of(name)
        path = folder / name
        is_new = not path.exists()
        with path.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                written = file.write(data)
                if flushed and written == len(data):
                    os.fsync(file.fileno())
            except OSError as error:
                file.truncate(end)
                if error.errno in NO_ROOM:
                    raise DiskFull(f"no room for {path}") from error
                raise
            if written != len(data):
                file.truncate(end)
                raise DiskFull(f"no room for {path}")
        if flushed and is_new:
            sync_folder(str(folder))

    def flush(self, upto: int, on_done: OnFlushed) -> None:
        """As ``Disk.flush``: one sync for all waiting calls, of files that may have changed."""
        if self._failed_to:
            self._make_dirty(upto)
        made_count, cut_count = self._made_count, self._cut_count
        folders = (str(self._log),) if made_count > self._made_count_synced else ()

        def finish(error: OSError | None, safe_to: int) -> None:
            if error is not None:
                self._failed_to = max(safe_to, self._failed_to)
                on_done(error)
                return
            if cut_count == self._cut_count:
                self._flushed_to = max(safe_to, self._flushed_to or 0)
            self._made_count_synced = max(made_count, self._made_count_synced)
            on_done(safe_to if self._flushed_to is None else self._flushed_to)

        self._flusher.request(
            SyncRequest(upto, self._changed_files(upto), folders, finish, self._attempt)
        )

    def cut(self, position: int) -> None:
        """As ``Disk.cut``."""
        self._cut_count += 1
        self._failed_to = min(position, self._failed_to)
        if self._flushed_to is not None:
            self._flushed_to = min(position, self._flushed_to)

    def _changed_files(self, upto: int) -> tuple[str, ...]:
        """The segments that may have unflushed bytes below *upto*, oldest first."""
        since = self._flushed_to
        return tuple(
            str(self._path(base))
            for base, segment in self._open.items()
            if base < upto and (since is None or base + segment.size > since)
        )

    def _make_dirty(self, upto: int) -> None:
        since, end = self._flushed_to or 0, max(upto, self._failed_to)
        for segment in self._open.values():
            if segment.base < end and segment.base + segment.size > since:
                segment.make_dirty(since, end)
        self._failed_to = 0
        self._attempt += 1

    def _folder_of(self, name: str) -> Path:
        return self.directory if name in ROOT_DOCUMENTS else self._config

    def _path(self, base: int) -> Path:
        return self._log / f"{base:020d}"

    def _remove_temporary_files(self) -> None:
        """Remove the files of writes that a killed process did not finish."""
        for folder in (self._log, self._config):
            for path in folder.glob("*.tmp"):
                path.unlink()
        for name in ROOT_DOCUMENTS:
            (self.directory / f"{name}.tmp").unlink(missing_ok=True)


def _is_segment(path: Path) -> bool:
    return len(path.name) == 20 and path.name.isdigit()


def _reserve(path: Path, size: int) -> None:
    """Create a file of *size* zero bytes with all its blocks reserved, or no file."""
    temporary = path.with_name(f"{path.name}.tmp")
    with _no_room_left(temporary), temporary.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        temporary.replace(path)


@contextlib.contextmanager
def _no_room_left(temporary: Path) -> Iterator[None]:
    """Turn the kernel's errors for a full disk into DiskFull; remove *temporary* on errors."""
    try:
        yield
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno in NO_ROOM:
            raise DiskFull(f"no room for {temporary.with_suffix('')}") from error
        raise


def _lock(path: Path) -> int:
    """The descriptor of the locked file; the kernel unlocks it when the process ends."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 20).decode() or "unknown"
        os.close(lock)
        raise StoreInUse(
            f"the store directory {path.parent} is in use by process {holder}"
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return lock


# The thread that syncs ----------------------------------------------------------------


RunSoon: TypeAlias = Callable[[Callable[[], object]], object]  # run this in the loop's thread

CLOSE_S_MAX = 3.0  # a disk that hangs must not block the end of the process


class SyncRequest(NamedTuple):
    """The *files* and *folders* to sync, so that the log below *upto* is durable.

    ``on_done`` gets the error or None, and the position below which the log is durable now.
    After a failed sync the kernel marks the unwritten pages as clean, and the next sync would
    succeed: so a failure fails every request of the same *attempt*.  A caller that has written
    the pages again uses a higher *attempt*.
    """

    upto: int
    files: tuple[str, ...]
    folders: tuple[str, ...]
    on_done: Callable[[OSError | None, int], object]
    attempt: int = 0


class Flusher:
    """Carries out sync requests in a thread; results are passed to *soon*.

    Without *soon* there is no thread: each request is carried out at once, in its caller.
    """

    def __init__(self, soon: RunSoon | None = None) -> None:
        self.sync_count = 0  # system calls on files, for tests and measurements
        self._soon = soon
        self._requests: queue.SimpleQueue[SyncRequest | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._descriptors: dict[str, int] = {}
        self._failed_attempt, self._error = -1, OSError()

    def request(self, request: SyncRequest) -> None:
        """Carry out *request*, with others; its ``on_done`` is called in the loop's thread."""
        if self._soon is None:
            request.on_done(self._sync([request]), request.upto)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
            self._thread.start()
        self._requests.put(request)

    def close(self) -> None:
        """Finish the waiting requests and end the thread."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread.join(CLOSE_S_MAX)
        else:
            self._close_descriptors()

    # In the thread --------------------------------------------------------------------

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            late = [request for request in batch if request.attempt <= self._failed_attempt]
            live = [request for request in batch if request.attempt > self._failed_attempt]
            if late:
                self._report(late, self._error)
            if live:
                self._report(live, self._sync(live))
        self._close_descriptors()

    def _report(self, batch: list[SyncRequest], error: OSError | None) -> None:
        assert self._soon is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended: no caller waits
            self._soon(partial(_finish, batch, error))

    def _next_batch(self) -> tuple[list[SyncRequest], bool]:
        """All waiting requests, at least one unless closed; and whether more may come."""
        batch: list[SyncRequest] = []
        request = self._requests.get()
        with contextlib.suppress(queue.Empty):
            while request is not None:
                batch.append(request)
                request = self._requests.get_nowait()
        return batch, request is not None

    def _sync(self, batch: list[SyncRequest]) -> OSError | None:
        """Sync the files and folders of *batch*, each once; returns the first error."""
        try:
            for name in dict.fromkeys(name for request in batch for name in request.files):
                self._sync_file(name)
            for name in dict.fromkeys(name for request in batch for name in request.folders):
                sync_folder(name)
        except OSError as error:
            self._failed_attempt, self._error = batch[-1].attempt, error
            return error
        return None

    def _sync_file(self, name: str) -> None:
        descriptor = self._descriptors.get(name)
        if descriptor is None or not os.fstat(descriptor).st_nlink:  # the file was removed
            self._close_descriptors()  # only the last file is synced often
            try:
                descriptor = os.open(name, os.O_RDWR)
            except FileNotFoundError:
                return  # removed by retention meanwhile: there is nothing to sync
            self._descriptors[name] = descriptor
        os.fdatasync(descriptor)
        self.sync_count += 1

    def _close_descriptors(self) -> None:
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()  # before close, which may fail
            os.close(descriptor)


def sync_folder(name: str) -> None:
    """Make the names in a folder durable: else a new file may be lost with the power."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _finish(batch: list[SyncRequest], error: OSError | None) -> None:
    upto = max(request.upto for request in batch)
    for request in batch:
        request.on_done(error, upto)
