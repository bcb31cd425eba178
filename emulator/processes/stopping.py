"""How a process learns that it is to stop: by a signal, or by the end of its parent.

The first signal and the end of standard input ask for an orderly stop, which needs the loop.  A
loop that is busy does not see that, so neither a second signal nor a parent that is gone waits
for it: then the process ends at once.  What was stored stays, as after ``kill -9``.

Nodes use handlers and a thread; commands that may wait for their loop use the trio tasks below.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import trio

ORPHAN_S_MAX = 1.5  # from the end of the parent to ours, if the loop stays busy
ORPHANED = 1
SIGNALLED = 128  # plus the signal's number, as shells count
READ_BYTES = 4096


@contextmanager
def calling_on_stop(ask: Callable[[], object], *, with_parent: bool = False) -> Iterator[None]:
    """Inside the block, *ask* is called when the process is to stop, from any thread.

    *with_parent*: standard input is a pipe from who started us; nobody writes there, so it
    ends when they do.  To be entered in the main thread, where signal handlers belong.
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
    """A thread of its own: it runs between any two steps of a busy loop."""
    while os.read(0, READ_BYTES):
        continue
    ask()
    if not ended.wait(ORPHAN_S_MAX):
        os._exit(ORPHANED)


# As tasks of trio ---------------------------------------------------------------------


async def stop_on_signal(
    stop: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """SIGTERM and SIGINT set *stop*."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            stop.set()


async def stop_with_parent(stop: trio.Event) -> None:
    """The end of standard input sets *stop*: nobody writes there, so the parent has died."""
    stdin = trio.lowlevel.FdStream(os.dup(0))
    async with stdin:
        async for _ in stdin:
            continue
    stop.set()
