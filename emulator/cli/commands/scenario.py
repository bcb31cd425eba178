"""``scenario list | show | check``: scenarios as they are written; no scenario is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from rocketmq_emulator.cli.commands.run import world_for
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import AsJson, make_console, show, show_json
from rocketmq_emulator.cli.screens.cluster_tables import a_table
from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, load
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.problems import BadScenario
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
        metavar="NAME|FILE", help="One of `scenario list`, a .toml or .py file, module:function."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the scenario; repeatable."),
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
        Path | None, typer.Argument(help="Your folder of scenarios; default: the library.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the scenarios of the library or of a folder."""
    with errors_as_exit_codes():
        rows = _rows(folder or LIBRARY)
        if as_json:
            show_json([row._asdict() for row in rows])
            return
        table = a_table("name", "issue", "title, and what it teaches")
        for row in rows:
            text = row.problem or "\n".join(filter(None, (row.title, row.teaches)))
            table.add_row(row.name, row.issue or "-", text)
        show(table)


@app.command("show")
def show_(
    name: Name,
    form: Annotated[
        str, typer.Option("--as", help="timeline, toml or python.", metavar="FORM")
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
    world: Annotated[
        str, typer.Option(help="The world to run in: virtual, embedded or processes.")
    ] = "virtual",
) -> None:
    """Check that a scenario can be run.  If not: exit code 2, and each problem with its line."""
    with errors_as_exit_codes():
        plan = _loaded(name, settings)
        world_for(plan, name, world)
        steps = count_of(len(plan.timeline), "step")
        expected = count_of(len(plan.expect), "expectation")
        typer.echo(f"{plan.name} can be run: {steps}, {expected}")


def parameters_of(settings: list[str] | None) -> dict[str, str]:
    """Names and values of each ``--set members=5``.  Raises ``BadUse``."""
    found = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals:
            raise BadUse(f"--set {setting}: write it as KEY=VALUE")
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


def _width() -> int:
    console = make_console()
    return min(console.width, WIDTH_MAX) if console.is_terminal else WIDTH
