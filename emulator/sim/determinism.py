"""One seed decides all random numbers of a world, and the order in which its tasks run.

Each consumer of random numbers has its own generator, seeded with the world's seed and
the consumer's name: an additional consumer does not change the numbers of the others.
"""

from __future__ import annotations

import hashlib
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.sim.scheduler import check_trio, seeded_order

if TYPE_CHECKING:
    from collections.abc import Iterator


class SeededRngs:
    """Generators by name; the same name always gives the same generator object."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, random.Random] = {}

    def seed_of(self, purpose: str) -> int:
        """64 bits computed from the world's seed and *purpose* only."""
        digest = hashlib.sha256(f"{self.seed}/{purpose}".encode()).digest()
        return int.from_bytes(digest[:8])

    def rng(self, purpose: str) -> random.Random:
        """The generator for *purpose*, created at the first call."""
        if purpose not in self._generators:
            self._generators[purpose] = random.Random(self.seed_of(purpose))
        return self._generators[purpose]


class InsideTrioRun(Misuse, RuntimeError):
    """The caller is inside a trio run; a virtual world begins in plain code or another thread."""


@contextmanager
def deterministic_scheduling(seed: int) -> Iterator[None]:
    """Inside, *seed* alone decides the order in which trio runs this thread's tasks.

    Raises ``InsideTrioRun`` inside a trio run, and ``UnknownTrio``.
    """
    check_trio()
    if trio.lowlevel.in_trio_run():
        raise InsideTrioRun(
            "a virtual world is a trio run of its own, and this is inside another one"
        )
    with seeded_order(seed):
        yield
