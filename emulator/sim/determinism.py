"""One seed, one order of tasks: trio's two private switches.

trio shuffles every batch of runnable tasks with a generator of its own, and sorts the
batch first only when told to.  Both names are private and belong to the module, not to
a run: hence the checks, and hence no other run beside a virtual one in its process.
"""

from __future__ import annotations

import random
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from trio._core import _run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

assert isinstance(getattr(_run, "_r", None), random.Random), "trio shuffles with something else"
assert hasattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING"), "trio no longer sorts its batches"


class NotAlone(RuntimeError):
    """Another trio run is active in this process: give the virtual world one of its own."""


@contextmanager
def deterministic_scheduling(seed: int) -> Iterator[None]:
    """Inside, trio runs tasks in an order that only *seed* decides.  Raises ``NotAlone``."""
    if trio.lowlevel.in_trio_run() or _runs_in_another_thread():
        raise NotAlone("a virtual world cannot be repeated beside another trio run")
    was_sorted, state = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()  # noqa: SLF001 - the one place
    _switch(sort=True)
    _run._r.seed(seed)  # noqa: SLF001 - the one place
    try:
        yield
    finally:
        _switch(sort=was_sorted)
        _run._r.setstate(state)  # noqa: SLF001 - the one place


def _switch(*, sort: bool) -> None:
    # setattr, for trio calls the name Final and means it for everybody else.
    setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", sort)  # noqa: B010 - see above


def _runs_in_another_thread() -> bool:
    # A run's state is thread-local; the only trace another thread can see is its stack.
    here = threading.get_ident()
    others = [frame for ident, frame in sys._current_frames().items() if ident != here]  # noqa: SLF001 - documented
    return any(_is_inside_run(frame) for frame in others)


def _is_inside_run(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is trio.run.__code__:
            return True
        frame = frame.f_back
    return False
