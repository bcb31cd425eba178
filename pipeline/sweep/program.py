"""A sweep from a program or a notebook: one call, and its rows as a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.sweep.driving import SparkSweep
from pipeline.sweep.folder import SweepFolder, stored_sweep, sweep_rows
from pipeline.sweep.grid import SweepAsked, grid_of
from pipeline.sweep.preflight import check_executors
from scenarios.files.parameters import Value
from scenarios.running.fleet import RUN_S_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sweep(
    spark: SparkSession,
    scenario: str,
    to: str | Path,
    *,
    seeds: range = range(1, 2),
    vary: Mapping[str, Iterable[Value]] | None = None,
    settings: Mapping[str, Value] | None = None,
    releases: Sequence[str] = (),
    run_s_max: float = RUN_S_MAX,
    look: Callable[[SparkSweep], object] = lambda _: None,
) -> DataFrame:
    """Make what is missing of this sweep in the folder *to*; all its rows, as ``sweep_rows``.

    *vary* has the values of each parameter; *seeds* is a range without gaps.  *look* is called
    with each row, for a progress of one's own.  Raises ``BadScenario``, ``BadGrid``,
    ``BadFolder`` and ``SparkNotHere`` before anything is run, ``SparkEnded`` later.
    """
    asked = SweepAsked(
        scenario=scenario,
        settings={name: _text(value) for name, value in (settings or {}).items()},
        vary={name: tuple(map(_text, values)) for name, values in (vary or {}).items()},
        releases=tuple(releases),
        first_seed=seeds[0],
        last_seed=seeds[-1],
    )
    grid = grid_of(asked)
    check_executors(spark)
    with SweepFolder(Path(to), stored_sweep(grid, ["rocketmq_emulator.spark.sweep"])) as folder:
        made = SparkSweep(lambda: spark, grid, folder, run_s_max=run_s_max)
        for _ in made.rows():
            look(made)
    return sweep_rows(spark, Path(to))


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
