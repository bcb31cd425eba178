"""``rmqemu replay``, ``rmqemu shrink``: repeat a run, and find the smallest that fails like it."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from rocketmq_emulator.checks.judging.reading import BadJournal
from rocketmq_emulator.cli.commands.run import Parameters, Release, loaded
from rocketmq_emulator.cli.options.completion import complete_scenario
from rocketmq_emulator.cli.options.errors import (
    FAILED,
    BadUse,
    errors_as_exit_codes,
    fail,
    interrupted,
    print_error,
    print_note,
)
from rocketmq_emulator.cli.options.shared import AsJson, make_console, show_line
from rocketmq_emulator.scenarios.after.replay import first_difference, started_in
from rocketmq_emulator.scenarios.after.shrinking import (
    NothingToShrink,
    ShrinkAttempt,
    Shrinking,
    ShrinkRuns,
)
from rocketmq_emulator.scenarios.plan.client_starts import ends_ms
from rocketmq_emulator.scenarios.plan.plan import Plan, Step
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult, code_version
from rocketmq_emulator.scenarios.plan.validity import old_names_in
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.sweeps.sweep import file_name

RUNS_SHOWN_MAX = 8
What = Annotated[
    str,
    typer.Argument(
        metavar="JOURNAL|SCENARIO",
        autocompletion=complete_scenario,
        help="The journal of a run, a folder with one, or a scenario.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="SEED", help="The seed, with a SCENARIO.")]


def replay(
    what: What,
    seed: Seed = 1,
    release: Release = "",
    parameters: Parameters = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Keep the new journal in FILE.")
    ] = "",
) -> None:
    """Run a journal's run again: each byte must be the same.

    A SCENARIO is run twice, in two processes.  Exit code 1: the journals differ.
    """
    with errors_as_exit_codes(), tempfile.TemporaryDirectory() as folder, RunPool() as fleet:
        plan, seed, journal = _plan_to_run(what, seed, parameters or [], release)
        one = journal or Path(folder) / "one.jsonl"
        if journal is None:
            _run(fleet, plan, seed, one)
        other = Path(output or Path(folder) / "other.jsonl")
        row = _run(fleet, plan, seed, other)
        with one.open("rb") as first, other.open("rb") as second:
            parting = first_difference(_of_any_version(first), _of_any_version(second))
        if parting is not None:
            raise fail(
                f"the journals differ at line {parting.line}:\n"
                f"  {_shown(parting.one)}\n  {_shown(parting.other)}"
            )
        why = f": {row.reason}" if row.reason else ""
        show_line(f"{plan.name}, seed {seed}: {row.verdict}{why}")
        show_line(f"the same {row.fact_count:,} facts, byte for byte")


def shrink(
    what: What,
    seed: Seed = 1,
    release: Release = "",
    parameters: Parameters = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE.toml", help="The file of the result.")
    ] = "",
    jobs: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Runs at once.", show_default="the number of processors"
        ),
    ] = len(os.sched_getaffinity(0)),
    as_json: AsJson = False,
) -> None:
    """Find the smallest scenario that still fails, and write it.

    Faults, clients, messages and time are removed as long as the same checkers find violations
    and the same expectations are not met.  Exit code 1: the scenario does not fail.
    """
    with errors_as_exit_codes(), RunPool() as fleet:
        plan, seed, _ = _plan_to_run(what, seed, parameters or [], release)
        target = Path(output or f"{file_name(plan)}-seed{seed}-shrunk.toml")
        shrink_plan(fleet, plan, seed, target, jobs=jobs, as_json=as_json)


def shrink_plan(
    fleet: RunPool, plan: Plan, seed: int, target: Path, *, jobs: int, as_json: bool
) -> None:
    """Write the smallest plan that fails as *plan* does to *target*, and show it."""
    attempts = ShrinkRuns(fleet, seed, jobs, paths=(str(Path.cwd()),))
    first = next(attempts.run([plan]), None)
    if first is None:
        raise BadUse(f"{plan.name} cannot be run: see `rmqemu scenario check`")
    try:
        shrinking = Shrinking(plan, first[1], attempts.run)
    except NothingToShrink as error:
        raise fail(str(error), FAILED) from None
    made, was_interrupted = _made(shrinking, is_silent=as_json)
    smallest = msgspec.structs.replace(shrinking.smallest, parameters={})
    from rocketmq_emulator.scenarios.files.writing import plan_as_toml  # noqa: PLC0415  # loads tomlkit

    target.write_text(plan_as_toml(smallest))
    if as_json:
        typer.echo(msgspec.json.encode(_summary(plan, shrinking, target)).decode())
    else:
        _show(plan, shrinking, made, target, seed)
    if was_interrupted:
        raise interrupted("stopped: the smallest found so far was written")


def _plan_to_run(
    what: str, seed: int, parameters: list[str], release: str
) -> tuple[Plan, int, Path | None]:
    """The plan, its seed and the journal they were read from; None for a SCENARIO."""
    path = Path(what)
    if path.is_dir() and (journals := sorted(path.glob("*.jsonl"))):
        path = one_journal(what, journals)
    if path.suffix != ".jsonl":
        return loaded(what, parameters, release), seed, None
    try:
        start = started_in(path)
    except BadJournal as error:
        raise BadUse(str(error)) from None
    if start.fact.world != "virtual":
        raise BadUse(f"{path} is of the {start.fact.world} world: only virtual runs repeat")
    for _, new_name in old_names_in(start.plan):
        raise BadUse(f"{path} can be read, but not run again: {new_name}")
    if start.fact.code_version != code_version():
        print_error(
            f"{path} was written by another version of the code: the run may be another one"
        )
    return start.plan, start.fact.seed, path


def one_journal(folder: str, journals: Sequence[Path]) -> Path:
    """The only run among *journals*, which a note names.  Raises ``BadUse`` if it is not one."""
    runs: dict[Path, str] = {}
    for journal in journals:
        try:
            fact = started_in(journal).fact
        except BadJournal:  # of a node, or damaged: it is no run that can be repeated
            continue
        runs[journal] = f"{journal} ({fact.scenario}, seed {fact.seed})"
    if len(runs) == 1:
        ((path, text),) = runs.items()
        print_note(f"the only run in {folder}: {text}")
        return path
    if not runs:
        raise BadUse(f"{folder}: none of its {len(journals)} journals is of a run of a scenario")
    shown = ", ".join([*runs.values()][:RUNS_SHOWN_MAX])
    more = f" and {len(runs) - RUNS_SHOWN_MAX} more" if len(runs) > RUNS_SHOWN_MAX else ""
    raise BadUse(f"{folder}: these are {len(runs)} runs: name one of {shown}{more}")


def _of_any_version(lines: Iterable[bytes]) -> Iterator[bytes]:
    """*lines* without the version of the code in the first one: runs are compared, not code."""
    for number, line in enumerate(lines):
        yield re.sub(rb'"code_version":"\w*"', b"", line) if number == 0 else line


def _run(fleet: RunPool, plan: Plan, seed: int, journal: Path) -> RunResult:
    order = RunOrder(
        plan=plan, seed=seed, journal=str(journal), keeps_passed=True, paths=(str(Path.cwd()),)
    )
    (row,) = fleet.rows([order], 1)
    if not row.journal:
        raise fail(f"seed {seed} has no journal: {row.reason}")
    return row


def _made(shrinking: Shrinking, *, is_silent: bool) -> tuple[list[ShrinkAttempt], bool]:
    made: list[ShrinkAttempt] = []
    try:
        for trial in shrinking.attempts():
            made.append(trial)
            if trial.is_same and not is_silent:
                print_error(f"{len(made)} tried, {trial.reduction}: {size_of(trial.plan)}")
    except KeyboardInterrupt:
        return made, True
    return made, False


def _show(
    plan: Plan, shrinking: Shrinking, made: list[ShrinkAttempt], target: Path, seed: int
) -> None:
    console = make_console()
    tried = Counter(trial.reduction for trial in made)
    kept = Counter(trial.reduction for trial in made if trial.is_same)
    lines = [
        f"before: {size_of(plan)}",
        f"after:  {size_of(shrinking.smallest)}",
        f"fails:  {shrinking.result.reason}",
        f"tried:  {len(made)} smaller plans, {sum(kept.values())} failed in the same way",
        *(f"  {name}: {count} tried, {kept[name]} kept" for name, count in tried.items()),
        f"written to {target}; run it: rmqemu run {target} --seed {seed}",
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _summary(plan: Plan, shrinking: Shrinking, target: Path) -> dict[str, object]:
    return {
        "before": size_of(plan),
        "after": size_of(shrinking.smallest),
        "reason": shrinking.result.reason,
        "tried": shrinking.attempt_count,
        "file": str(target),
    }


def size_of(plan: Plan) -> str:
    """The size of *plan* as text: time, steps, clients, rate, brokers."""
    steps = len(plan.timeline)
    members = sum(group.members for group in plan.consumers)
    producers = sum(load.producers for load in plan.load)
    rate = sum(load.rate for load in plan.load)
    ends_s = max([ends_ms(plan), plan.lasts_ms or 0, *map(_ends_ms, plan.timeline)]) / 1_000
    return (
        f"{ends_s:g} s, {steps} step{'s' * (steps != 1)}, {members} consumers, "
        f"{producers} producers, {rate:g} messages/s, {plan.cluster.brokers} brokers"
    )


def _ends_ms(step: Step) -> int:
    return (step.at_ms or 0) + (step.for_ms or 0)


def _shown(line: bytes) -> str:
    return line.decode(errors="replace").rstrip()[:300] or "(the end)"
