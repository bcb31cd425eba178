"""Selects the metrics of a page: those that were asked for, or the most informative ones.

A run has a hundred metrics, and most of them are 0 in every run.  A page shows the metrics of the
scenario's expectations, then those that differ most between the cells of the sweep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.checks.judging.table import METRICS
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.text.suggestions import suggestion

METRICS_MAX = 12
BETWEEN_MIN = 0.01  # share of the variance; a metric with less is the same in all cells

OverviewRow: TypeAlias = Mapping[str, Any]  # of steps.overview


class NoSuchMetric(Misuse, ValueError):
    """No run measured this metric; the text has the nearest name."""


class StudyMetric(msgspec.Struct, frozen=True):
    """A metric; ``expected`` has the bounds of its expectations; ``is_constant``: in all runs."""

    name: str
    unit: str
    sentence: str
    expected: tuple[str, ...]
    is_constant: bool


def metrics_shown(
    overview: Sequence[OverviewRow], expected: Sequence[str] = (), wanted: Sequence[str] = ()
) -> tuple[StudyMetric, ...]:
    """The metrics in the page's order.  Raises ``NoSuchMetric`` for an unknown *wanted*."""
    rows = {str(row["metric"]): row for row in overview}
    for name in wanted:
        if name not in rows:
            raise NoSuchMetric(f"no run measured {name!r}{suggestion(name, rows)}")
    bounds = _bounds(expected)
    if wanted:
        return tuple(_shown(name, rows, bounds) for name in dict.fromkeys(wanted))
    alone = {name for name in rows if not _says_the_same(name, rows)}
    first = [name for name in bounds if name in alone]
    first += [
        base for name in bounds if name not in alone and (base := name.partition(".")[0]) in alone
    ]
    rest = sorted(
        (name for name in alone - set(first) if _between(rows[name]) >= BETWEEN_MIN),
        key=lambda name: (-round(_between(rows[name]), 2), name),
    )
    left = sorted(name for name in alone - set(first) - set(rest) if not _is_constant(rows[name]))
    chosen = list(dict.fromkeys([*first, *rest, *left]))[:METRICS_MAX]
    if not chosen:  # no metric varies, which is a result too
        chosen = sorted(alone)[:METRICS_MAX]
    return tuple(_shown(name, rows, bounds) for name in chosen)


def _shown(
    name: str, rows: Mapping[str, OverviewRow], bounds: Mapping[str, list[str]]
) -> StudyMetric:
    base, _, scope = name.partition(".")
    known = METRICS.get(base)
    sentence = known.sentence if known else ""
    about = [*bounds.get(name, []), *(_of_the_same(name, rows, bounds) if not scope else [])]
    return StudyMetric(
        name=name,
        unit=known.unit if known else "",
        sentence=f"{sentence} (of {scope})" if scope and sentence else sentence,
        expected=tuple(dict.fromkeys(about)),
        is_constant=_is_constant(rows[name]),
    )


def _of_the_same(
    base: str, rows: Mapping[str, OverviewRow], bounds: Mapping[str, list[str]]
) -> list[str]:
    """The bounds of ``lost.billing`` for ``lost`` if billing is the only group."""
    same = [name for name in bounds if name.startswith(f"{base}.") and _says_the_same(name, rows)]
    return [bound for name in same for bound in bounds[name]]


def _bounds(expected: Sequence[str]) -> dict[str, list[str]]:
    """The bounds by metric, from texts like ``lost.billing == 0``."""
    found: dict[str, list[str]] = {}
    for text in expected:
        name, _, bound = text.partition(" ")
        found.setdefault(name, []).append(bound)
    return found


def _says_the_same(name: str, rows: Mapping[str, OverviewRow]) -> bool:
    """Whether *name* is a part equal to its total, as ``lost.billing`` with only one group."""
    base, _, scope = name.partition(".")
    if not scope or base not in rows or name not in rows:
        return False
    mine, whole = rows[name], rows[base]
    exact = all(mine[field] == whole[field] for field in ("count", "least", "most"))
    return exact and math.isclose(mine["mean"], whole["mean"], rel_tol=1e-9, abs_tol=1e-12)


def _is_constant(row: OverviewRow) -> bool:
    return bool(row["least"] == row["most"])


def _between(row: OverviewRow) -> float:
    return 0.0 if _is_constant(row) else max(0.0, float(row["between"] or 0.0))
