"""Helpers for the tables of docs/studies: a Markdown table, and formats of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docs.generate.study_data import Datum, Pool

RUNS_MIN = 5  # from this number of runs on an interval is more useful than the range
RING = "consistent_hash"
EVEN = ("averagely", "by_circle")
STRATEGIES = {
    "averagely": "AVG",
    "by_circle": "CIRCLE",
    "consistent_hash": "CHASH",
    "averagely_auto(4.9.6)": "AVG_AUTO",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def same(datum: Datum) -> str:
    """The value that all runs have.  Fails if they differ."""
    assert datum["smallest"] == datum["largest"], f"{datum.metric} varies at {datum.at}"
    return f"{datum['smallest']:g}"


def half(datum: Datum) -> float:
    """Half the width of the confidence interval of the mean."""
    return datum["high_95"] - datum["mean"]


def whole(datum: Datum, digits: int = 2, scale: float = 1) -> str:
    """The mean in units of *scale*; if runs differ, also its confidence interval and the range."""
    columns = ("mean", "high_95", "smallest", "largest")
    mean, high, least, most = (datum.numbers.get(name, 0.0) / scale for name in columns)
    if least == most:
        return f"{mean:.{digits}f}"
    sure = f" ± {high - mean:.{digits}f}" if datum["runs"] >= RUNS_MIN else ""
    return f"{mean:.{digits}f}{sure} ({least:.{digits}f}–{most:.{digits}f})"


def percent(pool: Pool, *, of_range: bool = True) -> str:
    """The mean of a pool of shares, its interval and range, in whole percent."""
    mean, half, least, most = (f"{value * 100:.0f}" for value in pool[1:])
    sure = f" ± {half}" if pool.runs >= RUNS_MIN and half != "0" else ""
    shown = f" ({least}–{most})" if of_range and least != most else ""
    return f"{mean}{sure} %{shown}"


def spread(pool: Pool) -> str:
    """The mean; if runs differ, also the range, and with enough runs the interval."""
    mean, least, most = (figure(value) for value in (pool.mean, pool.least, pool.most))
    if least == most:
        return mean
    sure = figure(pool.half) if pool.runs >= RUNS_MIN else "0"
    return f"{mean}{f' ± {sure}' if sure != '0' else ''} ({least}–{most})"


def of_range(pool: Pool) -> str:
    """The smallest and the largest value."""
    least, most = f"{pool.least:g}", f"{pool.most:g}"
    return least if least == most else f"{least}–{most}"


def figure(value: float) -> str:
    """*value* with two digits, or as a whole number."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
