"""One seed decides all random numbers of a world, and the order in which its tasks run.

Each consumer of random numbers has a generator of its own, seeded with the world's seed and
the consumer's name: one more consumer does not shift what the others draw.

trio shuffles every batch of runnable tasks with a generator of its own, and sorts the
batch first only when told to.  Both names are private and belong to the module, not to
a run: hence the checks, and hence a generator that is another one in each thread.  So a
virtual world repeats itself beside the runs of other threads: an embedded cluster, the
clients of plain programs.  Sorted batches change nothing for them.
"""

from __future__ import annotations

import hashlib
import random
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from trio._core import _run

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIO_FROM, TRIO_BELOW = (0, 30), (0, 36)  # pyproject.toml allows the same
if not TRIO_FROM <= tuple(map(int, trio.__version__.split(".")[:2])) < TRIO_BELOW:
    raise ImportError(
        f"trio {trio.__version__} is not among the releases whose private scheduler was read: "
        "run tests/emulator/sim with it, then raise the bounds here and in pyproject.toml"
    )
if type(getattr(_run, "_r", None)) is not random.Random:
    raise ImportError("trio shuffles with something else")
if not hasattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING"):
    raise ImportError("trio no longer sorts its batches")


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


class InsideTrioRun(RuntimeError):
    """The caller is inside a trio run; a virtual world begins in plain code or another thread."""


class ThreadLocalRandom(random.Random):
    """What trio draws in a thread comes from that thread's generator alone."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        super().__init__()

    @property
    def generator(self) -> random.Random:
        """The generator of the calling thread."""
        try:
            generator: random.Random = self._of_thread.generator
        except AttributeError:
            self._of_thread.generator = generator = random.Random()
        return generator

    @generator.setter
    def generator(self, generator: random.Random) -> None:
        self._of_thread.generator = generator

    def random(self) -> float:
        """As ``random.Random``; what shuffles and chooses is built on these two."""
        return self.generator.random()

    def getrandbits(self, k: int, /) -> int:
        """As ``random.Random``."""
        return self.generator.getrandbits(k)


_trio_random = ThreadLocalRandom()
_run._r = _trio_random  # noqa: SLF001 - the one place
_lock = threading.Lock()
_virtual_runs = 0  # in this process; under the lock


@contextmanager
def deterministic_scheduling(seed: int) -> Iterator[None]:
    """Inside, trio runs this thread's tasks in an order that only *seed* decides.

    Raises ``InsideTrioRun`` inside a trio run.
    """
    if trio.lowlevel.in_trio_run():
        raise InsideTrioRun(
            "a virtual world is a trio run of its own, and this is inside another one"
        )
    before, _trio_random.generator = _trio_random.generator, random.Random(seed)
    _count(+1)
    try:
        yield
    finally:
        _count(-1)
        _trio_random.generator = before


def _count(change: int) -> None:
    global _virtual_runs  # noqa: PLW0603 - trio's switch is one a process
    with _lock:
        _virtual_runs += change
        # setattr, for trio calls the name Final and means it for everybody else.
        setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", _virtual_runs > 0)  # noqa: B010 - see above
