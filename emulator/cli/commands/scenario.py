"""``scenario list | show | check``: scenarios as they are written; no scenario is run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Annotated, NamedTuple

import typer
from rich.console import Group
from rich.text import Text

from rocketmq_emulator.cli.commands.run import InWorld, world_named
from rocketmq_emulator.cli.options.completion import complete_scenario, one_of
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import AsJson, make_console, show, show_json, show_line
from rocketmq_emulator.cluster.world import WorldKind
from rocketmq_emulator.scenarios.catalog.finding import (
    LIBRARY,
    in_folder,
    load,
    load_checked,
    names_in,
)
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.problems import Path as PlanPath
from rocketmq_emulator.scenarios.plan.strategies import strategy_named
from rocketmq_emulator.scenarios.plan.validity import problems_of, refusals_of
from rocketmq_emulator.scenarios.recording.writing import plan_as_python
from rocketmq_emulator.scenarios.report.timeline_picture import count_of, timeline_picture

WIDTH, WIDTH_MAX = 80, 120


def _as_toml(plan: Plan) -> str:
    from rocketmq_emulator.scenarios.files.writing import plan_as_toml  # noqa: PLC0415  # loads tomlkit

    return plan_as_toml(plan)


FORMS: Mapping[str, Callable[[Plan], str]] = {
    "timeline": lambda plan: timeline_picture(plan, _width()),
    "toml": _as_toml,
    "python": plan_as_python,
}

app = typer.Typer(no_args_is_help=True, help="List, show and check scenarios.")
Name = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        autocompletion=complete_scenario,
        help="A name of the library, FILE.toml, FILE.py:NAME or MODULE:NAME.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the scenario; repeatable."),
]


class ScenarioRow(NamedTuple):
    """A scenario in a list; ``problem`` is why it cannot be run, or empty."""

    name: str
    title: str
    issue: str
    teaches: str
    file: str
    problem: str


@app.command("list")
def list_(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", show_default="the library", help="Your folder of scenarios."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the scenarios of the library or of a folder."""
    with errors_as_exit_codes():
        rows = _rows(folder or LIBRARY)
        if as_json:
            show_json([row._asdict() for row in rows])
            return
        console = make_console()
        room = min(console.width, WIDTH_MAX) if console.is_terminal else console.width
        show(Group(*_blocks(rows, room)))


@app.command("show")
def show_(
    name: Name,
    form: Annotated[
        str,
        typer.Option(
            "--as", metavar="|".join(FORMS), autocompletion=one_of(FORMS), help="The form."
        ),
    ] = "timeline",
    settings: Set = None,
) -> None:
    """Show a scenario as a picture of its timeline, TOML or Python."""
    with errors_as_exit_codes():
        if form not in FORMS:
            raise BadUse(f"--as is one of {', '.join(FORMS)}, not {form!r}")
        plan = _loaded(name, settings)
        try:
            typer.echo(FORMS[form](plan), nl=False)
        except ValueError as error:
            raise BadUse(str(error)) from None


@app.command()
def check(
    name: Name,
    settings: Set = None,
    world: InWorld = "virtual",
) -> None:
    """Check that a scenario can be run.  If not: exit code 2, and each problem with its line.

    Of a Python file with several scenarios each is checked.  Besides names and numbers: whether
    the world can do its faults, and whether its strategies and programs can be imported.
    """
    with errors_as_exit_codes(), _importable_here():
        checks = partial(problems_before_a_run, world_named(world))
        given, refused = parameters_of(settings), []
        try:
            names = names_in(name)
        except BadScenario as error:
            raise BadUse(str(error)) from None
        if given and len(names) > 1:
            raise BadUse(f"--set is for one scenario; name one of {', '.join(names)}")
        for one in names:
            try:
                plan = load_checked(one, given, checks)
            except BadScenario as error:
                refused.append(str(error))
                continue
            steps = count_of(len(plan.timeline), "step")
            expected = count_of(len(plan.expect), "expectation")
            show_line(f"{plan.name} can be run: {steps}, {expected}")
        if refused:
            raise BadUse("\n".join(refused))


def problems_before_a_run(world: WorldKind, plan: Plan) -> list[tuple[PlanPath, str]]:
    """All that is wrong with *plan* and can be found without a run in *world*."""
    found = problems_of(plan)
    known = {path[:2] for path, _ in found}  # an unknown node is a problem of every world
    for path, why in refusals_of(plan, world, has_links=True):
        if path[:2] not in known or "world cannot do" in why:
            found.append((path, why))
    return [*found, *_unknown_functions(plan, {path for path, _ in found})]


def _unknown_functions(plan: Plan, known: Container[PlanPath]) -> Iterator[tuple[PlanPath, str]]:
    """A problem for each strategy and program of the user's own that cannot be imported.

    None for the paths in *known*, which have a problem already.
    """
    from rocketmq_emulator.scenarios.running.client_runner import BadFunction, function_named  # noqa: PLC0415  # loads clients

    for at, group in enumerate(plan.consumers):
        if ":" in group.strategy and ("consumers", at, "strategy") not in known:
            try:
                strategy_named(group.strategy)
            except ValueError as error:
                yield ("consumers", at, "strategy"), str(error)
    for at, program in enumerate(plan.programs):
        if ("programs", at, "run") in known:
            continue
        try:
            function_named(program.run, "a client program")
        except BadFunction as error:
            yield ("programs", at, "run"), str(error)


@contextmanager
def _importable_here() -> Iterator[None]:
    """Inside the block modules of this folder can be imported, as in a run."""
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def parameters_of(settings: list[str] | None) -> dict[str, str]:
    """Names and values of each ``--set members=5``.  Raises ``BadUse``."""
    found = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals:
            raise BadUse(f"--set {setting}: write it as NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _loaded(name: str, settings: list[str] | None) -> Plan:
    try:
        return load(name, parameters_of(settings))
    except BadScenario as error:
        raise BadUse(str(error)) from None


def _rows(folder: Path) -> list[ScenarioRow]:
    rows = []
    try:
        found = list(in_folder(folder))
    except BadScenario as error:
        raise BadUse(str(error)) from None
    for listed in found:
        try:
            plan = listed.plan({})
        except BadScenario as error:
            problem = str(error).partition("\n")[0]
            rows.append(ScenarioRow(listed.name, "", "", "", str(listed.file), problem))
            continue
        file = str(listed.file)
        rows.append(ScenarioRow(listed.name, plan.title, plan.issue, plan.teaches, file, ""))
    return rows


def _blocks(rows: Sequence[ScenarioRow], width: int) -> Iterator[Text]:
    """Name and issue of each scenario, below them its title and what it teaches.

    In a pipe, where *width* is large, each of them is one line.
    """
    for row in rows:
        yield Text.assemble((row.name, "bold"), f"  {row.issue}" if row.issue else "")
        if row.problem:
            yield from _indented(row.problem, width, "red")
            continue
        yield from _indented(row.title, width, "")
        yield from _indented(row.teaches, width, "dim")


def _indented(text: str, width: int, style: str) -> Iterator[Text]:
    for line in wrap(text, width, initial_indent="    ", subsequent_indent="    "):
        yield Text(line, style)


def _width() -> int:
    console = make_console()
    return min(console.width, WIDTH_MAX) if console.is_terminal else WIDTH
