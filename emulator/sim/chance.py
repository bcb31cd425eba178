"""All chance of a world, drawn from one seed but kept apart by purpose.

Each consumer has a generator of its own, seeded with the world's seed and the
consumer's name: one more consumer does not shift what the others draw.
"""

from __future__ import annotations

import hashlib
from random import Random


class Chance:
    """Generators by name; the same name is the same generator, going on where it was."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, Random] = {}

    def seed_of(self, purpose: str) -> int:
        digest = hashlib.sha256(f"{self.seed}/{purpose}".encode()).digest()
        return int.from_bytes(digest[:8])

    def rng(self, purpose: str) -> Random:
        if purpose not in self._generators:
            self._generators[purpose] = Random(self.seed_of(purpose))
        return self._generators[purpose]
