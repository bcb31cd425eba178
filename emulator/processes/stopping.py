"""Stops a process at a signal, or at the end of its parent.

The first signal and the end of standard input request an orderly stop, which needs the loop.  A
busy loop does not handle the request, so after a second signal, or some time after the parent's
end, the process ends at once.  Stored data stays, as after ``kill -9``.

Nodes use handlers and a thread; commands that can wait for their loop use the trio tasks below.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import trio

ORPHAN_S_MAX = 1.5  # from the parent's end to ours, if the loop stays busy
ORPHANED = 1
SIGNALLED = 128  # plus the signal's number, as shells count
READ_BYTES = 4096


@contextmanager
def calling_on_stop(ask: Callable[[], object], *, with_parent: bool = False) -> Iterator[None]:
    """Inside the block, *ask* is called, in any thread, when the process must stop.

    *with_parent*: standard input is a pipe of the parent, which never writes to it, so it closes
    when the parent ends.  Must be entered in the main thread, because it sets signal handlers.
    """
    asked = False

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(SIGNALLED + number)
        asked = True
        ask()

    ended = threading.Event()
    if with_parent:
        arguments = (ask, ended)
        threading.Thread(target=_watch_parent, args=arguments, daemon=True).start()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch_parent(ask: Callable[[], object], ended: threading.Event) -> None:
    """Runs in its own thread, so that a busy loop does not block it."""
    while os.read(0, READ_BYTES):
        continue
    ask()
    if not ended.wait(ORPHAN_S_MAX):
        os._exit(ORPHANED)


# As tasks of trio ---------------------------------------------------------------------


async def stop_on_signal(
    stop: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Set *stop* at SIGTERM and SIGINT."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            stop.set()


async def stop_with_parent(stop: trio.Event) -> None:
    """Set *stop* when standard input closes: the parent, which never writes to it, has died."""
    stdin = trio.lowlevel.FdStream(os.dup(0))
    async with stdin:
        async for _ in stdin:
            continue
    stop.set()
