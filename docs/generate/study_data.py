"""The shipped data of the finished studies: small CSV files, six digits per number."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from docs.generate.sections import DOCS
from rocketmq_emulator.pipeline.studies.uncertainty import of_mean, t_975

if TYPE_CHECKING:
    from rocketmq_emulator.pipeline.studies.study import Study

COMBINATIONS = CURVES = DOCS / "studies" / "data"
OF_A_COMBINATION = (  # fields of rocketmq_emulator.pipeline.studies.page.combination_rows
    *("metric", "runs", "mean", "low_95", "high_95", "smallest", "p25", "median", "p75"),
    *("p99", "largest", "largest_seed"),
)


class Datum(msgspec.Struct, frozen=True):
    """A metric of a combination: the numbers of a row, by column."""

    at: Mapping[str, str]
    metric: str
    numbers: Mapping[str, float]

    def __getitem__(self, column: str) -> float:
        return self.numbers[column]


class Pool(NamedTuple):
    """Runs of several combinations as one sample, each combination with the same weight.

    ``half`` is half the width of the 95 % confidence interval of the mean.
    """

    runs: int
    mean: float
    half: float
    least: float
    most: float


def write_data(study: Study, name: str, curves: Collection[str]) -> None:
    """Write the shipped tables of *study*."""
    from rocketmq_emulator.pipeline.studies.page import combination_rows, curve_rows  # noqa: PLC0415  # an extra

    varied = list(study.about.varied)
    rows = [
        {column: row[column] for column in (*varied, *OF_A_COMBINATION)}
        for row in combination_rows(study)
    ]
    _write(COMBINATIONS / f"{name}.csv", rows)
    if curves:
        points = [row for row in curve_rows(study) if row["metric"] in curves]
        _write(CURVES / f"{name}-curves.csv", [row for row in points if _is_ring(row)])


@cache
def data(name: str) -> tuple[Datum, ...]:
    """The rows of ``NAME.csv``."""
    with (COMBINATIONS / f"{name}.csv").open(encoding="utf-8") as file:
        return tuple(map(_datum, csv.DictReader(file)))


def one(name: str, metric: str, **at: object) -> Datum:
    """The only row of this metric at these values.  Raises ``ValueError`` for none or several."""
    found = [
        datum
        for datum in data(name)
        if datum.metric == metric
        and all(datum.at[column] == str(value) for column, value in at.items())
    ]
    if len(found) != 1:
        raise ValueError(f"{name}: {len(found)} rows of {metric} at {at}")
    return found[0]


def pooled(name: str, metric: str, **at: object) -> Pool:
    """All rows of this metric at these values, with any values in the other columns."""
    found = [
        datum
        for datum in data(name)
        if datum.metric == metric
        and all(datum.at[column] == str(value) for column, value in at.items())
    ]
    assert found, f"{name}: no row of {metric} at {at}"
    runs = round(sum(datum["runs"] for datum in found))
    mean = sum(datum["runs"] * datum["mean"] for datum in found) / runs
    squares = sum(
        datum["runs"] * (datum["mean"] - mean) ** 2 + _squares_within(datum) for datum in found
    )
    deviation = (squares / (runs - 1)) ** 0.5 if runs > 1 else 0.0
    high = of_mean(mean, deviation, runs).high
    return Pool(
        runs,
        mean,
        0.0 if high is None else high - mean,
        min(datum["smallest"] for datum in found),
        max(datum["largest"] for datum in found),
    )


def _squares_within(datum: Datum) -> float:
    """The variance of a row's runs, computed from the confidence interval in the row."""
    runs = datum["runs"]
    if runs < 2:
        return 0.0
    deviation: float = (datum["high_95"] - datum["mean"]) * runs**0.5 / t_975(runs - 1)
    return (runs - 1) * deviation * deviation


def share_up_to(name: str, metric: str, value: float, **at: object) -> tuple[float, float]:
    """The share of the runs with less than *value*, and the share with at most *value*."""
    below = up_to = 0.0
    for point in curve(name, metric, **at):
        if point[1] < value:
            below = max(below, point[0])
        if point[1] <= value:
            up_to = max(up_to, point[0])
    return below, up_to


def curve(name: str, metric: str, **at: object) -> Iterator[tuple[float, float]]:
    """The points of a distribution: share of the runs, and value."""
    for row in _points(name):
        if row["metric"] == metric and all(row[key] == str(each) for key, each in at.items()):
            yield float(row["share"]), float(row["value"])


@cache
def _points(name: str) -> tuple[dict[str, str], ...]:
    with (CURVES / f"{name}-curves.csv").open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def _datum(row: dict[str, str]) -> Datum:
    names = [name for name in row if name not in OF_A_COMBINATION]
    numbers = {
        name: float(row[name]) for name in OF_A_COMBINATION if name != "metric" and row[name]
    }
    return Datum({name: row[name] for name in names}, row["metric"], numbers)


def _is_ring(row: Mapping[str, object]) -> bool:
    """Whether the row's strategy is a ring of hashes; others have one value for all ids."""
    return row.get("strategy", "consistent_hash") == "consistent_hash"


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in rows)


def _short(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # Spark adds in any order: the last bits of a sum must not change how a half is rounded.
        short = float(f"{float(f'{value:.12g}'):.6g}")
        return int(short) if short.is_integer() else short
    return value
