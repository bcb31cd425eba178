"""Refuses wall time and threads inside a virtual run.

A listener that sleeps with ``time.sleep`` blocks the whole world and takes no virtual time; a
listener that reads ``time.time`` or starts a thread makes each journal different.  Python and the
libraries may do so (logging reads the time); code of the scenario may not.  Other threads of the
process, such as those of a cluster over TCP, are not affected.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import trio

from rocketmq_emulator.protocol.error_families import CannotDoHere

LIBRARIES = tuple(
    sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
)
OURS = str(Path(__file__).absolute().parents[2])

Refused = Callable[["WallTimeRefused"], object]
Wrap: TypeAlias = Callable[[Callable[..., object]], Callable[..., object]]

WALL_TIME: Mapping[str, str] = {  # functions of the module time, with their replacements
    "sleep": "await trio.sleep(seconds)",
    "time": "trio.current_time(), or the times of messages",
    "time_ns": "trio.current_time(), or the times of messages",
    "monotonic": "trio.current_time()",
    "monotonic_ns": "trio.current_time()",
    "perf_counter": "trio.current_time()",
    "perf_counter_ns": "trio.current_time()",
}


class WallTimeRefused(CannotDoHere):
    """Code of a scenario used real time or a thread in the virtual world."""

    def __init__(self, what: str, where: str, instead: str) -> None:
        super().__init__(
            f"{where} uses {what} in the virtual world, where it would make every run "
            f"different: use {instead}"
        )


@contextmanager
def no_wall_time(refused: Refused) -> Iterator[None]:
    """Inside the block, refused calls of this thread raise ``WallTimeRefused``.

    *refused* is called with the error first.  Functions that were imported by name before (``from
    time import sleep``) are not refused.
    """
    _of_thread.refused = refused
    _wrappers.use()
    try:
        yield
    finally:
        _wrappers.leave()
        _of_thread.refused = None


THREADS = (
    (threading.Thread, "start", "a thread"),
    (trio.to_thread, "run_sync", "trio.to_thread.run_sync"),
)


class _OfThread(threading.local):
    """By thread: the function to call with a refusal; None in threads without a virtual run."""

    refused: Refused | None = None


_of_thread = _OfThread()


class _Wrappers:
    """Wraps the functions in their modules while any thread is inside: once for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._originals = ExitStack()

    def use(self) -> None:
        """Count a thread; the first one installs the wrappers."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            for name, instead in WALL_TIME.items():
                self._replace(time, name, _refusing_users(f"time.{name}", instead))
            for owner, name, what in THREADS:
                self._replace(owner, name, _refusing_all(what))

    def leave(self) -> None:
        """Remove a thread from the count; the last one restores the functions."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._originals.close()

    def _replace(self, owner: object, name: str, wrap: Wrap) -> None:
        original = getattr(owner, name)
        setattr(owner, name, wrap(original))
        self._originals.callback(setattr, owner, name, original)


_wrappers = _Wrappers()


def _refusing_users(what: str, instead: str) -> Wrap:
    def wrap(original: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(original)
        def call(*arguments: object) -> object:
            refused = _of_thread.refused
            frame = sys._getframe(1)  # noqa: SLF001  # documented; the cheapest way to see a caller
            file = frame.f_code.co_filename
            if refused is None or file.startswith((*LIBRARIES, OURS, "<")):
                return original(*arguments)
            error = WallTimeRefused(what, _place(frame), instead)
            refused(error)
            raise error

        return call

    return wrap


def _refusing_all(what: str) -> Wrap:
    def wrap(original: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(original)
        def call(*arguments: object, **options: object) -> object:
            refused = _of_thread.refused
            if refused is None:
                return original(*arguments, **options)
            error = WallTimeRefused(what, _users_place(), "async functions and a nursery")
            refused(error)
            raise error

        return call

    return wrap


def _users_place() -> str:
    """The place of the innermost caller that is in no library and not in this project."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  # see above
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*LIBRARIES, OURS, "<")):
            return _place(frame)
        frame = frame.f_back
    return "a library"


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"
