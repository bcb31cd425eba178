"""``rmqemu sweep SCENARIO``: every combination of parameters from every seed, on Spark.

Nothing of Spark is loaded before it is known to be here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.errors import FAILED, BadUse, fail, hint, interrupted, plain_errors, say
from emulator.cli.replay import shrink_plan
from emulator.cli.run import JOBS, Parameters, pair_of, seeds_of
from emulator.cli.shared import AsJson, make_console, show_json
from emulator.cli.sweep_screen import GridProgress, grid_screen, sentence, summary_of
from scenarios.running.fleet import RUN_S_MAX, Fleet
from scenarios.running.replay import started_in
from scenarios.running.sweep import file_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.sweep.driving import SparkSweep
    from pipeline.sweep.grid import SweepAsked, SweepGrid
    from pipeline.sweep.rows import SweptRow
    from scenarios.plan import Plan

Scenario = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A scenario or a question: a name of the library, FILE.toml or FILE.py:NAME.",
    ),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME=VALUES",
        help="A parameter and its values, as in strategy=averagely,circle or members=3..10; "
        "repeatable: all combinations.",
    ),
]
Seeds = Annotated[str, typer.Option(metavar="A..B", help="Each of these seeds, B included.")]
Releases = Annotated[
    str, typer.Option("--release", metavar="A,B", help="Behave as each of these releases.")
]
To = Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder of this sweep.")]
Cores = Annotated[
    int | None,
    typer.Option(min=1, help="Runs at once on this machine.", show_default="all processors"),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="A cluster of Spark, such as spark://host:7077.")
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's own; repeatable."),
]
Timeout = Annotated[
    float, typer.Option(min=0.1, metavar="S", help="A run that takes longer is an error.")
]
Shrink = Annotated[bool, typer.Option("--shrink", help="Shrink the first seed that did not pass.")]


def sweep(
    scenario: Scenario,
    to: To,
    seeds: Seeds = "1..1",
    vary: Vary = None,
    parameters: Parameters = None,
    release: Releases = "",
    cores: Cores = None,
    master: Master = "",
    conf: Conf = None,
    timeout: Timeout = RUN_S_MAX,
    shrink: Shrink = False,
    as_json: AsJson = False,
) -> None:
    """Run every combination of parameters from every seed, on Spark.

    Rows are kept in DIR: the same command goes on where one was stopped.  Exit code 0: all rows
    passed; 1: some did not; 2: it cannot be run.
    """
    with plain_errors():
        need_spark()
        wanted = seeds_of(0, seeds)
        asked = _asked(scenario, wanted, vary or [], parameters or [], release)
        grid = _grid(asked)
        settings = dict(pair_of(text, "--conf") for text in conf or [])
        if master:
            settings["spark.master"] = master
        is_told = sys.stderr.isatty() and not as_json
        start = _session(scenario, cores, settings, is_told=is_told)
        with GridProgress(is_silent=as_json) as progress:
            made, was_interrupted = _made(grid, to, start, timeout, progress)
        summary = summary_of(made, to.resolve())
        if as_json:
            show_json(summary)
        else:
            console = make_console()
            console.print(grid_screen(made, summary, is_for_people=console.is_terminal))
        if shrink and made.first_bad is not None:
            _shrink(made.first_bad, made, to, as_json=as_json)
    if was_interrupted:
        raise interrupted(f"stopped: {sentence(summary)}; the same command goes on")
    if summary.passed < summary.done:
        raise typer.Exit(FAILED)


def need_spark() -> None:
    """Raises ``BadUse`` where Spark is not, with what to do."""
    from pipeline.session import SparkNotHere, check_spark  # noqa: PLC0415  # an extra

    try:
        check_spark()
    except SparkNotHere as error:
        raise BadUse(str(error)) from None


def _asked(
    scenario: str, seeds: range, vary: Sequence[str], parameters: Sequence[str], release: str
) -> SweepAsked:
    from pipeline.sweep.grid import BadGrid, SweepAsked, values_of, variation  # noqa: PLC0415

    try:
        varied = [variation(text) for text in vary]
        if len(dict(varied)) < len(varied):
            raise BadUse("--vary: a parameter is varied twice")
        return SweepAsked(
            scenario=scenario,
            settings=dict(pair_of(text, "--set") for text in parameters),
            vary=dict(varied),
            releases=values_of(release) if release else (),
            first_seed=seeds[0],
            last_seed=seeds[-1],
        )
    except BadGrid as error:
        raise BadUse(str(error)) from None


def _grid(asked: SweepAsked) -> SweepGrid:
    from pipeline.sweep.grid import BadGrid, grid_of  # noqa: PLC0415

    try:
        return grid_of(asked)
    except BadGrid as error:
        raise BadUse(str(error)) from None


def _session(
    scenario: str, cores: int | None, settings: Mapping[str, str], *, is_told: bool
) -> Callable[[], SparkSession]:
    """Starts Spark when it is first wanted: a sweep that is finished needs none."""

    @cache
    def start() -> SparkSession:
        from pipeline.session import SparkNotHere, spark_session  # noqa: PLC0415
        from pipeline.sweep.preflight import check_executors  # noqa: PLC0415

        if is_told:
            hint("Spark is starting")  # for some seconds nothing else can be said
        try:
            session = spark_session(f"sweep {scenario}", cores, settings)
            check_executors(session)
        except SparkNotHere as error:
            raise BadUse(str(error)) from None
        return session

    return start


def _made(
    grid: SweepGrid,
    to: Path,
    start: Callable[[], SparkSession],
    timeout: float,
    progress: GridProgress,
) -> tuple[SparkSweep, bool]:
    """The sweep when it is over, or when Ctrl-C came."""
    from pipeline.sweep.driving import SparkEnded, SparkSweep  # noqa: PLC0415
    from pipeline.sweep.folder import BadFolder, SweepFolder, stored_sweep  # noqa: PLC0415

    about = stored_sweep(grid, ["rmqemu", *sys.argv[1:]])
    try:
        with SweepFolder(to, about) as folder:
            made = SparkSweep(start, grid, folder, run_s_max=timeout, look=progress.look)
            progress.begin(made)
            if made.stale_count:
                say(f"{made.stale_count:,} rows in {to} are of other code or values: not counted")
            try:
                for _ in made.rows():
                    progress.look()
            except KeyboardInterrupt:
                return made, True
            return made, False
    except BadFolder as error:
        raise BadUse(str(error)) from None
    except SparkEnded as error:
        raise fail(f"{error}; what was finished is kept, and the same command goes on") from None


def _shrink(row: SweptRow, made: SparkSweep, to: Path, *, as_json: bool) -> None:
    """The smallest scenario that fails as *row* does, beside the journals."""
    if row.world == "function":
        say("a question has nothing to be shrunk")
        return
    plan = _plan_of(row, made)
    target = to / f"{file_name(plan)}-seed{row.seed}-shrunk.toml"
    with Fleet() as fleet:
        shrink_plan(fleet, plan, row.seed, target, jobs=JOBS["virtual"], as_json=as_json)


def _plan_of(row: SweptRow, made: SparkSweep) -> Plan:
    if row.journal and Path(row.journal).is_file():
        return started_in(Path(row.journal)).plan
    return made.tallies[row.made_from].plan
