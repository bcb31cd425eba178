"""How a node ends, whatever its loop is doing: by signals, or with who started it.

The first signal and the end of standard input ask for an orderly stop, which needs the
loop.  A loop that is busy does not see that, so neither a second signal nor a parent that
is gone waits for it: then the process ends at once.  What was stored stays, as after
``kill -9``.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ORPHAN_S_MAX = 1.5  # from the end of the parent to ours, if the loop stays busy
ORPHANED = 1
SIGNALLED = 128  # plus the signal's number, as shells count
READ_BYTES = 4096


@contextmanager
def end_when_told(ask: Callable[[], object], *, with_parent: bool = False) -> Iterator[None]:
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
