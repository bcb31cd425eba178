"""One thread that makes files durable: one ``fdatasync`` for all who wait for it.

Requests queue up while a sync is under way; the next one serves all of them (group
commit).  The thread owns the descriptors it syncs, so that nobody closes one under it,
and starts with the first request: a store that is never flushed has no thread.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

Soon: TypeAlias = Callable[[Callable[[], object]], object]  # run this in the loop's thread

CLOSE_S_MAX = 3.0  # a disk that hangs must not keep the process


class SyncRequest(NamedTuple):
    """The *files* and *folders* to sync, so that the log is safe below *upto*.

    ``on_done`` gets the error, or None and how far the log is safe now.  After a failed
    sync the kernel takes the unwritten pages for clean, and the next sync would succeed:
    so a failure fails every request of the same *attempt*.  Whoever has written the pages
    again asks with a higher one.
    """

    upto: int
    files: tuple[str, ...]
    folders: tuple[str, ...]
    on_done: Callable[[OSError | None, int], object]
    attempt: int = 0


class Flusher:
    """Syncs what is asked for.  Results come back through *soon*.

    Without *soon* there is no thread: every request is carried out at once, by its caller.
    """

    def __init__(self, soon: Soon | None = None) -> None:
        self.sync_count = 0  # system calls on files, for tests and figures
        self._soon = soon
        self._requests: queue.SimpleQueue[SyncRequest | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._descriptors: dict[str, int] = {}
        self._failed_attempt, self._error = -1, OSError()

    def request(self, request: SyncRequest) -> None:
        """Carry *request* out, with others; its ``on_done`` is called in the loop's thread."""
        if self._soon is None:
            request.on_done(self._sync([request]), request.upto)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
            self._thread.start()
        self._requests.put(request)

    def close(self) -> None:
        """Finish what was asked for; nobody is told any more."""
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
                self._tell(late, self._error)
            if live:
                self._tell(live, self._sync(live))
        self._close_descriptors()

    def _tell(self, batch: list[SyncRequest], error: OSError | None) -> None:
        assert self._soon is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended, nobody waits
            self._soon(partial(_finish, batch, error))

    def _next_batch(self) -> tuple[list[SyncRequest], bool]:
        """Everything that waits, at least one; and whether more may come."""
        batch: list[SyncRequest] = []
        request = self._requests.get()
        with contextlib.suppress(queue.Empty):
            while request is not None:
                batch.append(request)
                request = self._requests.get_nowait()
        return batch, request is not None

    def _sync(self, batch: list[SyncRequest]) -> OSError | None:
        """Sync what they ask for, each once; the first error, if there was one."""
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
        if descriptor is None or not os.fstat(descriptor).st_nlink:  # removed, perhaps made anew
            self._close_descriptors()  # only the file being filled is synced again and again
            try:
                descriptor = os.open(name, os.O_RDWR)
            except FileNotFoundError:
                return  # retention has removed it since: nothing is left to lose
            self._descriptors[name] = descriptor
        os.fdatasync(descriptor)
        self.sync_count += 1

    def _close_descriptors(self) -> None:
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()  # first: who fails to close is closed
            os.close(descriptor)


def sync_folder(name: str) -> None:
    """Make the names in a folder durable: without this a new file may be gone."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _finish(batch: list[SyncRequest], error: OSError | None) -> None:
    upto = max(request.upto for request in batch)
    for request in batch:
        request.on_done(error, upto)
