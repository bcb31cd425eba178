"""Which pairs of a fault and a state a seed aims at, so that consecutive seeds spread over all.

All pairs stand in one fixed order that jumps from fault to fault and from state to state.  A seed
has its next two, whatever other seeds met: so a seed is one plan, and 76 consecutive seeds aim at
every pair once.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from scenarios.weather.coverage import STATES
from scenarios.weather.making import FAULTS_BY_CHANCE

AIMS_A_SEED = 2
STRIDE = 59  # near the golden section of all pairs, and without a factor that they have


class Aim(NamedTuple):
    """A fault's word, and the state of the cluster in which it is to begin."""

    word: str
    state: str


PAIRS: Sequence[Aim] = tuple(Aim(word, state) for word in FAULTS_BY_CHANCE for state in STATES)
ORDER: Sequence[Aim] = tuple(PAIRS[at * STRIDE % len(PAIRS)] for at in range(len(PAIRS)))
assert set(ORDER) == set(PAIRS), "each pair has its place"


def aims_of(seed: int, words: Container[str]) -> list[Aim]:
    """Those of *seed* whose fault is among *words*."""
    first = seed * AIMS_A_SEED
    found = [ORDER[at % len(ORDER)] for at in range(first, first + AIMS_A_SEED)]
    return [aim for aim in found if aim.word in words]
