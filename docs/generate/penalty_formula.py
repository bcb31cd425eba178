"""A flapping broker's share of the sends while it is well, computed from the lengths of spells.

After a send that takes *slow_s* the producer avoids the broker for *penalty_s*.  While the broker
is ill it gets a send as soon as it is no longer avoided; while it is well it gets its fair share,
or nothing while it is avoided.  Runs are compared with these formulas.
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
    """The share over all well times of *spells*: (seconds ill, seconds well), in order."""
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
    """The share if all spells are equal and last longer in sum than the penalty.

    Each ill spell then gets one slow send.  With shorter spells a penalty ends some spells later,
    while the broker is well or ill, depending on the exact numbers: use ``share_of_spells``.
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
    """The long-run share with exponentially distributed spells of these mean lengths.

    The penalty begins while the broker is ill.  With probability p the broker is well at its end,
    and is used for *well_s* on average until it is ill again; else the next send is slow again.
    """
    lasts_s = meeting_s + slow_s + penalty_s
    both_s = ill_s + well_s
    p = well_s / both_s * (1 - math.exp(-lasts_s * (1 / ill_s + 1 / well_s)))
    return fair * p * both_s / (lasts_s + p * well_s)
