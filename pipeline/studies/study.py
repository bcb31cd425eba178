"""The values of a study: cells, and their numbers with seeds and confidence intervals; no HTML.

    study = study_of(spark, folder)      of a sweep's folder, with the texts of its scenario
    study = make_study(rows, about)      of rows
    write_study_page(study); write_files(study, folder)

Spark reduces the rows; a study fits one page for a sweep of any size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rocketmq_emulator.pipeline.studies import steps
from rocketmq_emulator.pipeline.studies.metrics_shown import StudyMetric, metrics_shown
from rocketmq_emulator.pipeline.studies.uncertainty import Interval, Sample, of_difference, of_mean
from rocketmq_emulator.pipeline.sweep.folder import StoredSweep, read_sweep, sweep_rows
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.catalog.finding import find_question, load
from rocketmq_emulator.scenarios.files.parameters import Value
from rocketmq_emulator.scenarios.plan.plan import Expectation
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.sweeps.sweep import metric_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


RELEASE = "release"
CELLS_MAX = 2_000
NUMBERS_MAX = 400_000  # quantiles in one page: about 4 MB of text, 2 MB packed
PARTS = (100, 50, 20, 10)  # a curve has one more point; fewer for more metrics and cells
DIGITS = 6  # of a number in the page; the CSV and Parquet files have all digits


class NothingToStudy(Misuse, ValueError):
    """No page can show this sweep; nothing was written.  The text says what to do."""


class SweepDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a sweep; *varied* has the parameters with their values, in order.

    ``scenario`` and ``settings`` are as the user wrote them, so that a command can repeat them.
    """

    scenario: str
    settings: dict[str, str]
    varied: dict[str, tuple[Value, ...]]
    first_seed: int
    last_seed: int
    release: str  # the given release; empty: the scenario's own, or varied
    code_version: str
    command: str
    title: str = ""
    teaches: str = ""
    expected: tuple[str, ...] = ()  # as texts: "lost == 0"


class Numbers(msgspec.Struct, frozen=True):
    """One metric in one cell.  ``values`` are the quantiles 0 … 1, each with its run's seed."""

    count: int
    mean: float
    deviation: float | None
    low: float | None
    high: float | None
    values: tuple[float, ...]
    seeds: tuple[int, ...]

    def at(self, share: float) -> tuple[float, int]:
        """The quantile *share* of the runs, and the seed of the run with that value."""
        place = round(share * (len(self.values) - 1))
        return self.values[place], self.seeds[place]


class NotPassed(msgspec.Struct, frozen=True, array_like=True):
    """A run that failed, or ended without an answer (verdict ``error``)."""

    seed: int
    verdict: str
    reason: str


class StudyCell(msgspec.Struct, frozen=True):
    """One combination; ``at`` has its values in the order of the study's ``varied``."""

    at: tuple[Value, ...]
    runs: int
    passed: int
    failed: int
    error: int
    first_seed: int
    last_seed: int
    took_s: float
    not_passed: tuple[NotPassed, ...]
    numbers: dict[str, Numbers]


class Change(msgspec.Struct, frozen=True):
    """The difference of a metric's mean from one release to the next; cells by index."""

    metric: str
    before: int
    after: int
    difference: float
    low: float | None
    high: float | None


class Study(msgspec.Struct, frozen=True):
    """The content of a page."""

    about: SweepDescription
    metrics: tuple[StudyMetric, ...]
    cells: tuple[StudyCell, ...]
    changes: tuple[Change, ...]

    @property
    def runs(self) -> int:
        """The number of runs in all cells."""
        return sum(cell.runs for cell in self.cells)


def make_study(rows: DataFrame, about: SweepDescription, wanted: Sequence[str] = ()) -> Study:
    """The study of *rows*: a column for each varied parameter, then those of a ``RunResult``.

    It shows the *wanted* metrics, or those in expectations and those that vary most between cells.
    Raises ``NothingToStudy``.
    """
    cells = steps.cells_of(rows, list(about.varied)).cache()
    try:
        counted = [row.asDict() for row in steps.verdicts(cells).collect()]
        if not counted:
            raise NothingToStudy("the sweep has no finished run yet")
        if len(counted) > CELLS_MAX:
            text = f"{len(counted):,} combinations do not fit one page ({CELLS_MAX:,})"
            raise NothingToStudy(f"{text}: vary less, or sweep into several folders")
        overview = [row.asDict() for row in steps.overview(steps.measured(cells)).collect()]
        shown = metrics_shown(overview, about.expected, wanted)
        numbers = _numbers(cells, [metric.name for metric in shown], len(counted))
        bad = steps.not_passed(cells).collect()
    finally:
        cells.unpersist()
    found = _cells(about, counted, numbers, bad)
    return Study(about, shown, found, tuple(_changes(about, shown, found)))


def _numbers(
    cells: DataFrame, names: Sequence[str], count: int
) -> Mapping[tuple[Any, ...], dict[str, Numbers]]:
    """The numbers by cell and metric."""
    values = steps.measured(cells, names).cache()
    parts = parts_of_curves(count * len(names))
    curves: dict[tuple[Any, ...], dict[str, list[tuple[int, float, int]]]] = {}
    for row in steps.quantiles(values, parts).collect():
        of_cell = curves.setdefault(tuple(row.cell), {})
        of_cell.setdefault(row.metric, []).append((row.part, row.value, row.seed))
    found: dict[tuple[Any, ...], dict[str, Numbers]] = {}
    for row in steps.statistics(values).collect():
        curve = sorted(curves[tuple(row.cell)][row.metric])
        interval = of_mean(row.mean, row.deviation, row["count"])
        found.setdefault(tuple(row.cell), {})[row.metric] = Numbers(
            count=row["count"],
            mean=row.mean,
            deviation=row.deviation,
            low=interval.low,
            high=interval.high,
            values=tuple(value for _, value, _ in curve),
            seeds=tuple(seed for _, _, seed in curve),
        )
    values.unpersist()
    return found


def parts_of_curves(curves: int) -> int:
    """The number of parts per curve, so that *curves* have at most ``NUMBERS_MAX`` in all."""
    return next((parts for parts in PARTS if parts * curves <= NUMBERS_MAX), PARTS[-1])


def _cells(
    about: SweepDescription,
    counted: Iterable[dict[str, Any]],
    numbers: Mapping[tuple[Any, ...], dict[str, Numbers]],
    bad: Iterable[Row],
) -> tuple[StudyCell, ...]:
    """The cells in the order in which their values were given."""
    named: dict[tuple[Any, ...], list[NotPassed]] = {}
    for row in bad:
        one = NotPassed(row.seed, row.verdict, row.reason)
        named.setdefault(tuple(row.cell), []).append(one)
    found = []
    for fields in counted:
        key = tuple(fields.pop("cell"))
        at = key if about.varied else ()
        not_passed = sorted(named.get(key, []), key=lambda one: one.seed)
        found.append(
            StudyCell(at=at, not_passed=tuple(not_passed), numbers=numbers.get(key, {}), **fields)
        )
    places = [{value: at for at, value in enumerate(values)} for values in about.varied.values()]
    return tuple(
        sorted(
            found,
            key=lambda cell: [
                place.get(value, len(place)) for place, value in zip(places, cell.at, strict=True)
            ],
        )
    )


def _changes(
    about: SweepDescription, shown: Sequence[StudyMetric], cells: Sequence[StudyCell]
) -> Iterable[Change]:
    """The changes from each release to the next, between cells that differ in nothing else."""
    if RELEASE not in about.varied:
        return
    column = list(about.varied).index(RELEASE)
    place = {cell.at: at for at, cell in enumerate(cells)}
    releases = about.varied[RELEASE]
    for before, after in itertools.pairwise(releases):
        for cell in cells:
            if cell.at[column] != before:
                continue
            other = place.get((*cell.at[:column], after, *cell.at[column + 1 :]))
            if other is None:
                continue
            for metric in shown:
                found = _difference(cell, cells[other], metric.name)
                if found is not None:
                    here = place[cell.at]
                    yield Change(metric.name, here, other, found.value, found.low, found.high)


def _difference(before: StudyCell, after: StudyCell, metric: str) -> Interval | None:
    if metric not in before.numbers or metric not in after.numbers:
        return None
    samples = [
        Sample(each.mean, each.deviation, each.count)
        for each in (before.numbers[metric], after.numbers[metric])
    ]
    return of_difference(*samples)


# From a sweep's folder ----------------------------------------------------------------


def study_of(spark: SparkSession, folder: Path, wanted: Sequence[str] = ()) -> Study:
    """The study of the sweep in *folder*; *wanted* as for ``make_study``.

    Raises ``BadFolder``, ``NothingToStudy`` and ``NoSuchMetric``.
    """
    about = about_of(read_sweep(folder))
    return make_study(sweep_rows(spark, folder), about, wanted)


def about_of(sweep: StoredSweep) -> SweepDescription:
    """The description of *sweep*, with the scenario's texts if the scenario can be found."""
    title, teaches, expected = _words_of(sweep)
    asked = sweep.asked
    is_one_release = RELEASE not in sweep.grid and len(asked.releases) == 1
    return SweepDescription(
        scenario=asked.scenario,
        settings=dict(asked.settings),
        varied=dict(sweep.grid),
        first_seed=sweep.first_seed,
        last_seed=sweep.last_seed,
        release=asked.releases[0] if is_one_release else "",
        code_version=sweep.code_version,
        command=sweep.command,
        title=title or sweep.name,
        teaches=teaches,
        expected=expected,
    )


def _words_of(sweep: StoredSweep) -> tuple[str, str, tuple[str, ...]]:
    """Title, lesson and expectations of the scenario; all empty if it cannot be found."""
    asked = sweep.asked
    try:
        if (question := find_question(asked.scenario)) is not None:
            _, _, rest = (question.__doc__ or "").partition("\n\n")
            return question.title, _one_line(rest), ()
        plan = load(asked.scenario, asked.settings)
    except BadScenario:
        return "", "", ()
    return plan.title, plan.teaches, tuple(_text_of(each) for each in plan.expect)


def _text_of(expectation: Expectation) -> str:
    return f"{metric_name(expectation)} {expectation.operator} {expectation.bound:g}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
