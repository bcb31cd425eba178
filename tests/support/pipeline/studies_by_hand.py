"""Small sweeps and studies for tests: rows as a sweep has them, and the sweep's description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rocketmq_emulator.pipeline.studies.metrics_shown import StudyMetric
from rocketmq_emulator.pipeline.studies.study import (
    Change,
    NotPassed,
    Numbers,
    Study,
    StudyCell,
    SweepDescription,
)

COLUMNS = (
    "seed long, verdict string, reason string, metrics map<string, double>, took_s double, "
    "release string"
)
SWEEP = "rmqemu sweep a_story --seeds 1..4 --vary strategy=circle,block --vary members=2,10"


def a_row(
    seed: int,
    metrics: Mapping[str, float],
    *,
    verdict: str = "passed",
    reason: str = "",
    release: str = "4.9.7",
) -> tuple[Any, ...]:
    return seed, verdict, reason, {name: float(v) for name, v in metrics.items()}, 0.5, release


def a_sweep(
    spark: SparkSession,
    cells: Mapping[tuple[Any, ...], Iterable[tuple[Any, ...]]],
    types: str = "strategy string, members long",
) -> DataFrame:
    """A table of rows; *cells* has the rows by the values of the varied parameters."""
    rows = [(*at, *row) for at, of_cell in cells.items() for row in of_cell]
    return spark.createDataFrame(rows, f"{types}, {COLUMNS}" if types else COLUMNS)


def about(**fields: Any) -> SweepDescription:
    known: dict[str, Any] = {
        "scenario": "a_story",
        "settings": {"queues": "8"},
        "varied": {"strategy": ("circle", "block"), "members": (2, 10)},
        "first_seed": 1,
        "last_seed": 4,
        "release": "",
        "code_version": "c0de",
        "command": SWEEP,
        "title": "A story",
    }
    return SweepDescription(**{**known, **fields})


HOSTILE = "<img src=x onerror=alert(1)>"


def numbers_of(values: Sequence[float], first_seed: int = 1) -> Numbers:
    """The numbers of *values*, given by seed; each value is a quantile."""
    ranked = sorted((value, seed) for seed, value in enumerate(values, first_seed))
    mean = sum(values) / len(values)
    return Numbers(
        count=len(values),
        mean=mean,
        deviation=1.0,
        low=mean - 1,
        high=mean + 1,
        values=tuple(value for value, _ in ranked),
        seeds=tuple(seed for _, seed in ranked),
    )


def a_cell(
    at: tuple[Any, ...], idle: Sequence[float], *, failed: int = 0, lost: int = 0
) -> StudyCell:
    reason = f"idle == 0 was expected, it is {HOSTILE}"
    return StudyCell(
        at=at,
        runs=len(idle),
        passed=len(idle) - failed,
        failed=failed,
        error=0,
        first_seed=1,
        last_seed=len(idle),
        took_s=1.0,
        not_passed=tuple(NotPassed(seed, "failed", reason) for seed in range(1, failed + 1)),
        numbers={"idle": numbers_of(idle), "lost": numbers_of([lost] * len(idle))},
    )


def a_study() -> Study:
    """Two strategies, two sizes of the group, two releases; texts of users are hostile."""
    varied: dict[str, Any] = {
        "strategy": ("circle", HOSTILE),
        "members": (2, 10),
        "release": ("4.9.7", "5.1.4"),
    }
    cells = [
        a_cell((strategy, members, release), [float(base + n * n) for n in range(members)])
        for base, strategy in enumerate(varied["strategy"])
        for members in varied["members"]
        for release in varied["release"]
    ]
    cells[2] = a_cell(cells[2].at, [3.0, 1.0, 2.5], failed=2)
    settings = {"why": "it's so", "queues": "8"}
    return Study(
        about=about(varied=varied, settings=settings, title=f"A story {HOSTILE}"),
        metrics=(
            StudyMetric("idle", "members", "who got nothing", ("== 0",), is_constant=False),
            StudyMetric("lost", "messages", "", (), is_constant=True),
        ),
        cells=tuple(cells),
        changes=(Change("idle", 0, 1, 0.5, -0.5, 1.5), Change("idle", 2, 3, 2.0, 1.0, 3.0)),
    )
