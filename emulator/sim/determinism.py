"""One seed decides all random numbers of a world, and the order in which its tasks run.

Each consumer of random numbers has a generator of its own, seeded with the world's seed and
the consumer's name: one more consumer does not shift what the others draw.

trio shuffles every batch of runnable tasks with a generator of its own, and sorts the
batch first only when told to.  Both names are private and belong to the module, not to
a run: hence the checks, and hence no other run beside a virtual one in its process.
"""

from __future__ import annotations

import hashlib
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

TRIO_FROM, TRIO_BELOW = (0, 30), (0, 36)  # pyproject.toml allows the same
assert TRIO_FROM <= tuple(map(int, trio.__version__.split(".")[:2])) < TRIO_BELOW, (
    f"trio {trio.__version__} is not among the releases whose private scheduler was read: "
    "run tests/emulator/sim with it, then raise the bounds here and in pyproject.toml"
)
assert isinstance(getattr(_run, "_r", None), random.Random), "trio shuffles with something else"
assert hasattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING"), "trio no longer sorts its batches"


class SeededRngs:
    """Generators by name; the same name is the same generator, going on where it was."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, random.Random] = {}

    def seed_of(self, purpose: str) -> int:
        """64 bits that follow from the world's seed and *purpose* alone."""
        digest = hashlib.sha256(f"{self.seed}/{purpose}".encode()).digest()
        return int.from_bytes(digest[:8])

    def rng(self, purpose: str) -> random.Random:
        """The generator for *purpose*."""
        if purpose not in self._generators:
            self._generators[purpose] = random.Random(self.seed_of(purpose))
        return self._generators[purpose]


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
