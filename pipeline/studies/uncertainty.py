"""The uncertainty of a mean: confidence intervals of 95 %.

A study shows the interval beside the mean, so that noise is not taken for a result.  Intervals
are those of Student's t, which assumes that the mean, not the values, is nearly normal: valid
from about thirty seeds on.  A metric that does not vary among its runs has an interval of width
0, which proves little if there are few runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

T_975: Mapping[int, float] = {  # by degrees of freedom, from any table of Student's t
    **dict(enumerate((12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228), 1)),
    **dict(enumerate((2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086), 11)),
    25: 2.060,
    30: 2.042,
    40: 2.021,
    60: 2.000,
    120: 1.980,
}
T_LIMIT = 1.960


class Interval(NamedTuple):
    """A value with its 95 % confidence interval; the bounds are None for a single run."""

    value: float
    low: float | None
    high: float | None


def t_975(freedom: float) -> float:
    """The 97.5 % quantile of Student's t, rounded up to the next row of the table."""
    known = [degrees for degrees in T_975 if degrees <= freedom]
    return T_LIMIT if freedom > max(T_975) else T_975[max(known, default=1)]


def of_mean(mean: float, deviation: float | None, count: int) -> Interval:
    """The interval of a sample's mean; *deviation* is the sample's standard deviation."""
    if count < 2 or deviation is None:
        return Interval(mean, None, None)
    half = t_975(count - 1) * deviation / count**0.5
    return Interval(mean, mean - half, mean + half)


class Sample(msgspec.Struct, frozen=True):
    """Count, mean and standard deviation of a metric in the runs of a cell."""

    mean: float
    deviation: float | None
    count: int


def of_difference(before: Sample, after: Sample) -> Interval:
    """The interval of the difference of two means, *after* minus *before* (Welch)."""
    difference = after.mean - before.mean
    if min(before.count, after.count) < 2 or before.deviation is None or after.deviation is None:
        return Interval(difference, None, None)
    parts = [each.deviation**2 / each.count for each in (before, after) if each.deviation]
    if not parts:
        return Interval(difference, difference, difference)
    spread = sum(parts)
    weights = [
        (each.deviation**2 / each.count) ** 2 / (each.count - 1)
        for each in (before, after)
        if each.deviation
    ]
    half = t_975(spread**2 / sum(weights)) * spread**0.5
    return Interval(difference, difference - half, difference + half)
