"""The commands that run on Spark: ``sweep``, ``study`` and ``tables``.

    rmqemu sweep SCENARIO -o DIR       every combination of parameters from every seed
    rmqemu study DIR                   a sweep as one HTML page, with tables beside it
    rmqemu tables JOURNAL… -o DIR    add journals to tables in a folder

Spark is imported only after a check that it is installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rocketmq_emulator.cli.commands.replay import shrink_plan
from rocketmq_emulator.cli.commands.run import Parameters, pair_of, seeds_of
from rocketmq_emulator.cli.options.completion import complete_release, complete_scenario
from rocketmq_emulator.cli.options.errors import (
    FAILED,
    BadUse,
    errors_as_exit_codes,
    fail,
    interrupted,
    print_error,
    print_note,
)
from rocketmq_emulator.cli.options.shared import (
    AsJson,
    duration_s,
    make_console,
    show_json,
    show_line,
)
from rocketmq_emulator.cli.screens.columns import clean
from rocketmq_emulator.cli.screens.sweep_screen import (
    GridProgress,
    grid_screen,
    sentence,
    summary_of,
)
from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.scenarios.after.replay import started_in
from rocketmq_emulator.scenarios.sweeps.run_pool import JOBS, RUN_S_MAX, RunPool
from rocketmq_emulator.scenarios.sweeps.sweep import file_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketmq_emulator.pipeline.studies.study import Study
    from rocketmq_emulator.pipeline.sweep.driving import SparkSweep
    from rocketmq_emulator.pipeline.sweep.grid import SweepGrid, SweepSpec
    from rocketmq_emulator.pipeline.sweep.rows import SweptRow
    from rocketmq_emulator.pipeline.tables.folder import Added, TableFolder
    from rocketmq_emulator.pipeline.tables.run_rows import AddedRun
    from rocketmq_emulator.scenarios.plan.plan import Plan


Scenario = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        autocompletion=complete_scenario,
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
    str,
    typer.Option(
        "--release",
        metavar="4.9.7,5.3.3,…",
        autocompletion=complete_release,
        help="Behave as each of these RocketMQ releases.",
    ),
]
To = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="The folder of this sweep.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Runs at once, on this machine.",
        show_default="the number of processors",
    ),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="The URL of a Spark cluster, such as spark://host:7077.")
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting; repeatable."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        parser=duration_s,
        show_default=f"{RUN_S_MAX / 60:g}m",
        help="A run that takes longer is an error.",
    ),
]
RUN_S_MIN = 0.1
Shrink = Annotated[bool, typer.Option("--shrink", help="Shrink the first seed that did not pass.")]


def sweep(
    scenario: Scenario,
    to: To,
    seeds: Seeds = "1..1",
    vary: Vary = None,
    parameters: Parameters = None,
    release: Releases = "",
    jobs: Jobs = None,
    master: Master = "",
    conf: Conf = None,
    timeout: Timeout = None,
    shrink: Shrink = False,
    as_json: AsJson = False,
) -> None:
    """Run every combination of parameters from every seed, on Spark.

    Rows are kept in DIR: the same command goes on where one was stopped.  Exit code 0: all rows
    passed; 1: some did not; 2: it cannot be run.
    """
    with errors_as_exit_codes():
        need_spark()
        wanted = seeds_of(0, seeds)
        asked = _asked(scenario, wanted, vary or [], parameters or [], release)
        grid = _grid(asked)
        run_s_max = RUN_S_MAX if timeout is None else max(RUN_S_MIN, timeout)
        settings = dict(pair_of(text, "--conf") for text in conf or [])
        if master:
            settings["spark.master"] = master
        is_told = sys.stderr.isatty() and not as_json
        start = _session(scenario, jobs, settings, is_told=is_told)
        with GridProgress(is_silent=as_json) as progress:
            made, was_interrupted = _made(grid, to, start, run_s_max, progress)
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
    """Raise ``BadUse`` with the command to install Spark, if it is missing."""
    from rocketmq_emulator.pipeline.session import SparkUnavailable, check_spark  # noqa: PLC0415  # an extra

    try:
        check_spark()
    except SparkUnavailable as error:
        raise BadUse(str(error)) from None


def _asked(
    scenario: str, seeds: range, vary: Sequence[str], parameters: Sequence[str], release: str
) -> SweepSpec:
    from rocketmq_emulator.pipeline.sweep.grid import BadGrid, SweepSpec, values_of, variation  # noqa: PLC0415

    try:
        varied = [variation(text) for text in vary]
        if len(dict(varied)) < len(varied):
            raise BadUse("--vary: a parameter is varied twice")
        return SweepSpec(
            scenario=scenario,
            settings=dict(pair_of(text, "--set") for text in parameters),
            vary=dict(varied),
            releases=values_of(release) if release else (),
            first_seed=seeds[0],
            last_seed=seeds[-1],
        )
    except BadGrid as error:
        raise BadUse(str(error)) from None


def _grid(asked: SweepSpec) -> SweepGrid:
    from rocketmq_emulator.pipeline.sweep.grid import BadGrid, grid_of  # noqa: PLC0415

    try:
        return grid_of(asked)
    except BadGrid as error:
        raise BadUse(str(error)) from None


def _session(
    scenario: str, cores: int | None, settings: Mapping[str, str], *, is_told: bool
) -> Callable[[], SparkSession]:
    """A function that starts Spark at its first call: a finished sweep never calls it."""

    @cache
    def start() -> SparkSession:
        from rocketmq_emulator.pipeline.session import SparkUnavailable, spark_session  # noqa: PLC0415
        from rocketmq_emulator.pipeline.sweep.preflight import check_executors  # noqa: PLC0415

        if is_told:
            print_note("Spark is starting")  # for some seconds there is no progress to show
        try:
            session = spark_session(f"sweep {scenario}", cores, settings)
            check_executors(session)
        except SparkUnavailable as error:
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
    """Run the sweep; True if Ctrl-C ended it."""
    from rocketmq_emulator.pipeline.sweep.driving import SparkStopped, SparkSweep  # noqa: PLC0415
    from rocketmq_emulator.pipeline.sweep.folder import BadFolder, SweepFolder, stored_sweep  # noqa: PLC0415

    about = stored_sweep(grid, ["rmqemu", *sys.argv[1:]])
    try:
        with SweepFolder(to, about) as folder:
            made = SparkSweep(start, grid, folder, run_s_max=timeout, look=progress.look)
            progress.begin(made)
            if made.stale_count:
                print_error(
                    f"{made.stale_count:,} rows in {to} are of other code or values: not counted"
                )
            try:
                for _ in made.rows():
                    progress.look()
            except KeyboardInterrupt:
                return made, True
            return made, False
    except BadFolder as error:
        raise BadUse(str(error)) from None
    except SparkStopped as error:
        raise fail(f"{error}; finished rows are kept, and the same command goes on") from None


def _shrink(row: SweptRow, made: SparkSweep, to: Path, *, as_json: bool) -> None:
    """Write the smallest scenario that fails as *row* does into the folder *to*."""
    if row.world == "function":
        print_error("a question cannot be shrunk: it has no plan")
        return
    plan = _plan_of(row, made)
    target = to / f"{file_name(plan)}-seed{row.seed}-shrunk.toml"
    with RunPool() as fleet:
        shrink_plan(fleet, plan, row.seed, target, jobs=JOBS["virtual"], as_json=as_json)


def _plan_of(row: SweptRow, made: SparkSweep) -> Plan:
    if row.journal and Path(row.journal).is_file():
        return started_in(Path(row.journal)).plan
    return made.tallies[row.made_from].plan


# A sweep as a page --------------------------------------------------------------------


Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of `rmqemu sweep -o DIR`.")
]
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", show_default="DIR/study.html", help="The page."
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Show this metric; repeatable.  Default: those that expectations name, then those "
        "that differ most between combinations.",
    ),
]
Title = Annotated[str, typer.Option(metavar="TEXT", help="The title of the page.")]


def study(folder: Folder, output: Output = "", metric: Metrics = None, title: Title = "") -> None:
    """Draw the results of a sweep on one HTML page, with tables.

    Each number links to its seed and to the command that replays it.  The data of the plots is
    written as CSV and Parquet to a folder beside the page, with the page's name.
    """
    with errors_as_exit_codes():
        page = Path(output) if output else folder / "study.html"
        made = _studied(folder, metric or [])
        if title:
            from msgspec.structs import replace  # noqa: PLC0415

            made = replace(made, about=replace(made.about, title=title))
        from rocketmq_emulator.pipeline.studies.page import (  # noqa: PLC0415
            write_files,
            write_study_page,
        )

        page.write_text(write_study_page(made), encoding="utf-8")
        tables = page.with_suffix("")
        write_files(made, tables)
        show_line(f"{page}: {_summary(made)}; tables in {tables}")


def _studied(folder: Path, metrics: list[str]) -> Study:
    """The study of *folder*.  Raises ``BadUse``, if possible before Spark is started."""
    from rocketmq_emulator.pipeline.session import SparkUnavailable, check_spark, spark_session  # noqa: PLC0415

    try:
        check_spark()
    except SparkUnavailable as error:
        raise BadUse(str(error)) from None
    from rocketmq_emulator.pipeline.studies.metrics_shown import NoSuchMetric  # noqa: PLC0415
    from rocketmq_emulator.pipeline.studies.page import PlotlyMissing, find_plotly  # noqa: PLC0415
    from rocketmq_emulator.pipeline.studies.study import (  # noqa: PLC0415
        NothingToStudy,
        study_of,
    )
    from rocketmq_emulator.pipeline.sweep.folder import BadFolder, read_sweep  # noqa: PLC0415

    try:
        find_plotly()
        read_sweep(folder)
        return study_of(spark_session(f"study {folder.name}"), folder, metrics)
    except (PlotlyMissing, BadFolder, NoSuchMetric, NothingToStudy) as error:
        raise BadUse(str(error)) from None


def _summary(made: Study) -> str:
    combinations = len(made.cells)
    text = f"{made.runs:,} runs of {combinations:,} combination{'s' * (combinations != 1)}"
    if bad := sum(cell.failed + cell.error for cell in made.cells):
        text += f", {bad:,} did not pass"
    return f"{text}, {len(made.metrics)} metrics"


# Journals as tables -------------------------------------------------------------------


Journals = Annotated[
    list[Path],
    typer.Argument(metavar="JOURNAL…", help="Journals (*.jsonl, *.jsonl.gz), or folders of them."),
]
TablesFolder = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="The folder of the tables.")
]
FactsOnly = Annotated[
    bool, typer.Option("--facts-only", help="Make silver and gold tables when they are read.")
]
KeepClasses = Annotated[
    bool,
    typer.Option(
        "--keep-java-classes",
        help="Keep what Java has loaded for Spark (200 MB in the cache): later sessions start "
        "in a third less time.",
    ),
]
ROWS_MAX = 20  # runs shown in the table
REJECTED_MAX = 5  # rejected lines shown


def tables(
    journals: Journals,
    to: TablesFolder,
    facts_only: FactsOnly = False,
    keep_java_classes: KeepClasses = False,
    as_json: AsJson = False,
) -> None:
    """Make Parquet tables of journals, for Spark, DuckDB, pandas and others.

    Runs that are in DIR are not read again.  Lines that are not facts become rows of the table
    `rejected`.  The table `runs` has each run's verdict.
    """
    with errors_as_exit_codes():
        notes = _Notes()
        with _keeping_classes(notes) if keep_java_classes else nullcontext("") as java_options:
            folder = _folder(to, java_options)
            added = _added(folder, journals, notes)
            if not facts_only and any(not run.why for run in folder.runs()):
                _make_all(folder, notes)
            rejected = _rejected(folder, added)
    if as_json:
        show_json({"added": added, "rejected": rejected})
    else:
        _show(added, rejected, to)


class _Notes:
    """Notes with the seconds since the start, on standard error."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def note(self, text: str) -> None:
        print_note(f"{time.monotonic() - self._began_s:6.1f} s  {text}")


@contextmanager
def _keeping_classes(notes: _Notes) -> Iterator[str]:
    """Java's options for the session of this block, which ends with it and keeps its classes."""
    from rocketmq_emulator.pipeline import java_classes  # noqa: PLC0415  # an extra
    from rocketmq_emulator.pipeline.session import (  # noqa: PLC0415
        SparkUnavailable,
        archive_path,
        check_spark,
        end_session,
    )

    try:
        archive = archive_path(check_spark())
    except SparkUnavailable as error:
        raise BadUse(str(error)) from None
    try:
        with java_classes.keeping(archive) as options:
            yield options
            notes.note("Java keeps its classes")
            end_session()
    except java_classes.ClassesNotKept as error:
        raise fail(f"{error}; the tables are whole") from None
    notes.note(f"kept in {archive} ({archive.stat().st_size / 1e6:.0f} MB): delete it at any time")


def _folder(to: Path, java_options: str) -> TableFolder:
    from rocketmq_emulator.pipeline.session import SparkUnavailable, check_spark  # noqa: PLC0415  # an extra

    try:
        check_spark()
        from rocketmq_emulator.pipeline.tables.folder import TableFolder  # noqa: PLC0415
    except SparkUnavailable as error:
        raise BadUse(str(error)) from None
    return TableFolder(to, java_options=java_options)


def _added(folder: TableFolder, journals: list[Path], notes: _Notes) -> Added:
    from rocketmq_emulator.pipeline.session import SparkUnavailable  # noqa: PLC0415  # an extra
    from rocketmq_emulator.pipeline.tables.folder import TableFolderBusy, TableNotMade  # noqa: PLC0415
    from rocketmq_emulator.pipeline.tables.journal_files import NoJournals  # noqa: PLC0415

    notes.note("Spark is starting")
    # Judged in a process: Python threads would delay each call of Spark.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as judges:
        try:
            return folder.add(
                journals,
                lambda done, total: notes.note(f"runs: {done} of {total}"),
                judge=lambda run: judges.submit(verdict_of, run.files).result,
            )
        except (NoJournals, TableFolderBusy, SparkUnavailable) as error:
            raise BadUse(str(error)) from None
        except TableNotMade as error:
            raise fail(str(error)) from None
        finally:
            judges.shutdown(cancel_futures=True)


def _make_all(folder: TableFolder, notes: _Notes) -> None:
    from rocketmq_emulator.pipeline.tables.folder import TableNotMade  # noqa: PLC0415

    try:
        folder.make_all(lambda name, done, total: notes.note(f"{name}: {done} of {total}"))
    except TableNotMade as error:
        raise fail(str(error)) from None


def verdict_of(files: Sequence[str]) -> str:
    """The verdict of the run that wrote *files*, as in its report; empty if it has no facts."""
    from rocketmq_emulator.checks.judging.reading import Skipped, read_journals  # noqa: PLC0415
    from rocketmq_emulator.scenarios.report.report_data import read_and_judge  # noqa: PLC0415

    skipped = Skipped()
    try:
        return read_and_judge(
            read_journals([Path(file) for file in files], skipped), skipped
        ).verdict
    except DamagedData:
        return ""


def _rejected(folder: TableFolder, added: Added) -> list[dict[str, Any]]:
    """The first lines that this call rejected, by file and line."""
    if not added.rejected:
        return []
    names = [run.run for run in added.runs if run.rejected]
    found = folder.table("rejected")
    rows = found.where(found.run.isin(names)).orderBy("file", "line").limit(REJECTED_MAX).collect()
    return [row.asDict() for row in rows]


def _show(added: Added, rejected: list[dict[str, Any]], to: Path) -> None:
    if added.runs:
        from rich.table import Table  # noqa: PLC0415  # --json shows none

        table = Table(box=None, pad_edge=False)
        for heading, side in (
            ("scenario", "left"),
            ("seed", "right"),
            ("release", "left"),
            ("verdict", "left"),
        ):
            table.add_column(heading, justify=side)  # type: ignore[arg-type]
        for heading in ("facts", "rejected"):
            table.add_column(heading, justify="right")
        for run in added.runs[:ROWS_MAX]:
            table.add_row(*_row(run))
        make_console().print(table)
        if len(added.runs) > ROWS_MAX:
            print_error(f"and {len(added.runs) - ROWS_MAX} more runs")
    for row in rejected:
        place = f"{row['file']}, line {row['line']}" if row["line"] else row["file"]
        print_error(clean(f"rejected: {place}: {row['reason']}"))
    if added.rejected > len(rejected):
        print_error(f"and {added.rejected - len(rejected)} more in the table rejected")
    for run in added.runs:
        if run.facts_missing:
            text = f"{run.facts_missing:,} facts are missing in its journals, their disk was full"
            print_error(clean(f"not whole: {run.run}: {text}"))
    new = sum(not run.why for run in added.runs)
    print_error(
        f"{new} {'run' if new == 1 else 'runs'} added to {to} ({added.facts} facts), "
        f"{added.known} were there already"
    )


def _row(run: AddedRun) -> tuple[str, ...]:
    seed = "" if run.seed is None else str(run.seed)
    about = clean(run.scenario), seed, run.release, run.verdict
    return *about, str(run.facts), str(run.rejected)
