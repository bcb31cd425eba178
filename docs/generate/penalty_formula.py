"""What share of the sends a broker gets while it is well, from the length of its spells alone.

A send that takes *slow_s* has the producer avoid the broker for *penalty_s*, from its end on.
While the broker is ill it is met again as soon as it is free; while it is well it gets its fair
share, or nothing as long as it is avoided.  So the share is a matter of arithmetic, and runs say
whether the arithmetic is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

FAIR = 0.5  # of two brokers
MEETING_S = 0.3  # until the next send to it: 5/s over 2 brokers with 4 queues each, in rounds


def share_of_spells(
    spells: Iterable[tuple[float, float]],
    penalty_s: float,
    slow_s: float,
    fair: float = FAIR,
    meeting_s: float = MEETING_S,
) -> float:
    """The share over all well times of *spells*: how long it is ill, and then well, each in s."""
    now_s = free_s = used_s = well_in_all_s = 0.0
    for ill_s, well_s in spells:
        well_from_s = now_s + ill_s
        while (met_s := max(now_s, free_s) + meeting_s) < well_from_s:
            free_s = met_s + slow_s + penalty_s
        now_s = well_from_s + well_s
        used_s += max(0.0, now_s - max(well_from_s, free_s))
        well_in_all_s += well_s
    return fair * used_s / well_in_all_s


def share_alike(
    ill_s: float,
    well_s: float,
    penalty_s: float,
    slow_s: float,
    fair: float = FAIR,
    meeting_s: float = MEETING_S,
) -> float:
    """Spells that all are alike and longer in sum than the penalty: each one is met once.

    With shorter ones a penalty ends some spells later, in health or in illness, which is an
    accident of the numbers: ``share_of_spells`` follows it.
    """
    lasts_s = meeting_s + slow_s + penalty_s
    assert lasts_s <= ill_s + well_s, "the penalty ends after the next illness has begun"
    return fair * min(1.0, 1 - (lasts_s - ill_s) / well_s)


def share_drawn(
    ill_s: float,
    well_s: float,
    penalty_s: float,
    slow_s: float,
    fair: float = FAIR,
    meeting_s: float = MEETING_S,
) -> float:
    """Spells without memory (exponential) of these mean lengths, in the long run.

    The penalty begins while it is ill.  With the chance p it is well when that is over, and is
    used then for *well_s* on average until it is ill again; else it is met at once.
    """
    lasts_s = meeting_s + slow_s + penalty_s
    both_s = ill_s + well_s
    p = well_s / both_s * (1 - math.exp(-lasts_s * (1 / ill_s + 1 / well_s)))
    return fair * p * both_s / (lasts_s + p * well_s)
