"""``rmqemu run SCENARIO``: runs a scenario from one seed or many, each run in its own process.

``rmqemu run QUESTION`` computes numbers by a function, without a cluster.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Unpack

import msgspec
import typer

from rocketmq_emulator.cli.options.completion import complete_release, complete_scenario, one_of
from rocketmq_emulator.cli.options.errors import FAILED, BadUse, errors_as_exit_codes, interrupted
from rocketmq_emulator.cli.options.server_arguments import RELEASE_METAVAR
from rocketmq_emulator.cli.options.shared import AsJson, make_console, show, show_line
from rocketmq_emulator.cli.screens.columns import Column, Sheet, clean
from rocketmq_emulator.cli.screens.sweep_screen import SweepProgress, coverage_screen, sweep_screen
from rocketmq_emulator.cluster.world import WorldKind
from rocketmq_emulator.scenarios.catalog.finding import find_question, has_plan_per_seed, load
from rocketmq_emulator.scenarios.catalog.questions import Question
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunResult
from rocketmq_emulator.scenarios.plan.validity import refusals_of
from rocketmq_emulator.scenarios.sweeps.row_files import FinishedRuns, cache_folder, junit_xml
from rocketmq_emulator.scenarios.sweeps.run_pool import JOBS
from rocketmq_emulator.scenarios.sweeps.sweep import (
    Sweep,
    SweepOptions,
    WeatherSweep,
    cache_plan_of,
)
from rocketmq_emulator.settings.releases import known_release

SEEDS_MAX = 1_000_000
A_RANGE = re.compile(r"(\d+)\.\.(\d+)")

Scenario = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        autocompletion=complete_scenario,
        help="A name of the library, FILE.toml or FILE.py:NAME.",
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the scenario; repeatable."),
]
Release = Annotated[
    str,
    typer.Option(
        metavar=RELEASE_METAVAR,
        autocompletion=complete_release,
        help="Behave as this RocketMQ release instead.",
    ),
]
Journal = Annotated[
    str,
    typer.Option(
        "--journal", metavar="DIR", help="Keep the journal of every run in DIR, passed or not."
    ),
]


Seed = Annotated[int, typer.Option(min=0, metavar="SEED", help="The seed of one run.")]
Seeds = Annotated[str, typer.Option(metavar="A..B", help="Run each of these seeds, B included.")]
InWorld = Annotated[
    str,
    typer.Option(
        "--world",
        metavar="virtual|embedded|processes",
        autocompletion=one_of(JOBS),
        help="The world to run in.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Runs at once.",
        show_default="the number of processors; 1 where time is real",
    ),
]
Junit = Annotated[
    str, typer.Option("--junit", metavar="FILE", help="Write the results as JUnit XML.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Run finished seeds again.")]


def run(
    scenario: Scenario,
    seed: Seed = 1,
    seeds: Seeds = "",
    release: Release = "",
    world: InWorld = "virtual",
    jobs: Jobs = None,
    parameters: Parameters = None,
    journal: Journal = "",
    junit: Junit = "",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario and judge it.

    Exit code 0: all seeds passed; 1: some did not; 2: it cannot be run.
    """
    with errors_as_exit_codes():
        wanted, cache = seeds_of(seed, seeds), cache_folder()
        if (question := find_question(scenario)) is not None:
            _check_no_cluster(scenario, release, journal, junit, world.replace("virtual", ""))
            answer(question, dict(map(pair_of, parameters or [])), wanted, as_json=as_json)
            return
        plan = loaded(scenario, parameters or [], release)
        kind = world_for(plan, scenario, world)
        is_cached = kind == "virtual" and not no_cache and not journal
        with SweepProgress(is_shown=sys.stderr.isatty() and not as_json) as progress:
            sweep = _sweep(
                plan,
                scenario,
                wanted,
                parameters or [],
                release=release,
                journals=Path(journal) if journal else cache.parent / "journals",
                jobs=jobs or JOBS[kind],
                cache=cache if is_cached else None,
                keeps_passed=bool(journal),
                paths=(str(Path.cwd()),),
                world=kind,
                look=progress.look,
            )
            progress.tally = sweep.tally
            rows, was_interrupted = _finished(sweep, progress)
        rows.sort(key=lambda row: row.seed)
        if junit:
            Path(junit).write_bytes(junit_xml(rows))
        _show(sweep, rows, as_json=as_json)
    if was_interrupted:
        raise interrupted(f"stopped: {sweep.tally.done} of {len(wanted)} seeds were finished")
    if sweep.tally.counts["passed"] < len(rows):
        raise typer.Exit(FAILED)


def _check_no_cluster(question: str, *options: str) -> None:
    if any(options):
        text = "no --release, --world, --journal or --junit"
        raise BadUse(f"{question} is a question, which runs no cluster: {text}")


def _sweep(
    plan: Plan,
    scenario: str,
    seeds: range,
    parameters: list[str],
    *,
    release: str,
    journals: Path,
    cache: Path | None,
    **options: Unpack[SweepOptions],
) -> Sweep:
    if not has_plan_per_seed(scenario, dict(map(pair_of, parameters))):
        finished = None if cache is None else FinishedRuns(plan, cache)
        return Sweep(plan, seeds, journals, finished=finished, **options)

    def plan_of(seed: int) -> Plan:
        made = loaded(scenario, [*parameters, f"seed={seed}"], release)
        world_for(made, f"{scenario}, seed {seed}", options["world"])
        return made

    finished = None if cache is None else FinishedRuns(cache_plan_of(plan), cache)
    return WeatherSweep(plan_of, plan, seeds, journals, finished=finished, **options)


def loaded(scenario: str, parameters: list[str], release: str) -> Plan:
    """The plan of *scenario*.  Raises ``BadScenario`` and ``BadUse``."""
    given = dict(pair_of(text) for text in parameters)
    if release:
        try:
            known_release(release)
        except ValueError as error:
            raise BadUse(f"--release: {error}") from None
    return load(scenario, given, release)


def world_for(plan: Plan, scenario: str, world: str) -> WorldKind:
    """The kind named *world*.  Raises ``BadUse`` with each part of *plan* that it cannot run."""
    kind = world_named(world)
    if refusals := [why for _, why in refusals_of(plan, kind, has_links=True)]:
        raise BadUse("\n".join(f"{scenario}: {why}" for why in refusals))
    return kind


def world_named(world: str) -> WorldKind:
    """The kind named *world*.  Raises ``BadUse``."""
    for kind in JOBS:
        if kind == world:
            return kind
    raise BadUse(f"--world is one of {', '.join(JOBS)}, not {world!r}")


def _finished(sweep: Sweep, progress: SweepProgress) -> tuple[list[RunResult], bool]:
    """The finished rows, and True if Ctrl-C ended the sweep."""
    rows: list[RunResult] = []
    try:
        for row in sweep.rows():
            rows.append(row)
            progress.look()
    except KeyboardInterrupt:
        return rows, True
    return rows, False


def _show(sweep: Sweep, rows: list[RunResult], *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
        return
    console = make_console()
    console.print(sweep_screen(sweep.tally, rows, is_for_people=console.is_terminal))
    if isinstance(sweep, WeatherSweep):
        console.print(coverage_screen(sweep.coverage, run_count=len(rows)))


def seeds_of(seed: int, seeds: str) -> range:
    """The seeds of ``A..B``, or *seed* alone.  Raises ``BadUse``."""
    if not seeds:
        return range(seed, seed + 1)
    found = A_RANGE.fullmatch(seeds)
    if found is None or int(found[1]) > int(found[2]):
        raise BadUse(f"--seeds is A..B, as in 1..100, not {seeds!r}")
    wanted = range(int(found[1]), int(found[2]) + 1)
    if len(wanted) > SEEDS_MAX:
        raise BadUse(f"--seeds: {len(wanted):,} are more than {SEEDS_MAX:,}")
    return wanted


def pair_of(text: str, option: str = "--set") -> tuple[str, str]:
    """Name and value of ``NAME=VALUE``.  Raises ``BadUse``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadUse(f"{option} is NAME=VALUE, as in members=5, not {text!r}")
    return name, value


# Questions ----------------------------------------------------------------------------


DIGITS = 6
OF_ONE = (Column("metric", narrow=20), Column("value", is_number=True))
OF_MANY = (
    Column("metric", narrow=20),
    Column("smallest", is_number=True),
    Column("mean", is_number=True),
    Column("largest", is_number=True),
)


def answer(
    question: Question, given: Mapping[str, str], seeds: Iterable[int], *, as_json: bool
) -> None:
    """Show the answers of *question*.  Raises ``BadScenario``, and ``Exit`` if one is missing."""
    parameters = question.given(given)
    rows = [question.answer(parameters, seed) for seed in seeds]
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
    else:
        show(numbers_of(rows))
        for row in rows:
            if row.verdict == "error":
                show_line(clean(f"seed {row.seed} has no answer: {row.reason}"))
    if any(row.verdict == "error" for row in rows):
        raise typer.Exit(FAILED)


def numbers_of(rows: Sequence[RunResult]) -> Sheet:
    """A table of the metrics; for several seeds their smallest, mean and largest values."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.metrics.items():
            values.setdefault(name, []).append(value)
    if len(rows) == 1:
        return Sheet(OF_ONE, [(name, _figure(each[0])) for name, each in values.items()])
    return Sheet(
        OF_MANY,
        [
            (name, *(_figure(number) for number in (min(each), fmean(each), max(each))))
            for name, each in values.items()
        ],
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:.{DIGITS}g}"
