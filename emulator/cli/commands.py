"""Where each command is: in the order in which ``rmqemu -h`` lists them.

A command loads no other one.  What draws, talks HTTP, reads scenarios or judges journals
takes tenths of a second to load, and most commands need none of it; only a command line
that names no command (``-h``, a word with a typing error) is answered from all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import typer

from emulator.docstrings import docstring_of

SETTINGS_ORDER = (
    "Settings come from (later ones win): defaults, -c, --config, RMQEMU_…, --set, flags."
)


class CommandPlace(NamedTuple):
    """The module of ``emulator.cli`` that holds a command, or a group of them, and its name."""

    module: str
    name: str = "app"
    epilog: str | None = None


COMMANDS: Mapping[str, CommandPlace] = {
    "up": CommandPlace("up", "up"),
    "nameserver": CommandPlace("roles", "nameserver", SETTINGS_ORDER),
    "broker": CommandPlace("roles", "broker", SETTINGS_ORDER),
    "demo": CommandPlace("demo.command", "demo"),
    "status": CommandPlace("status", "status"),
    "produce": CommandPlace("produce", "produce"),
    "consume": CommandPlace("consume", "consume"),
    "watch": CommandPlace("watch", "watch"),
    "nodes": CommandPlace("nodes", "nodes"),
    "kill": CommandPlace("nodes", "kill"),
    "stop": CommandPlace("nodes", "stop"),
    "start": CommandPlace("nodes", "start"),
    "restart": CommandPlace("nodes", "restart"),
    "pause": CommandPlace("nodes", "pause"),
    "resume": CommandPlace("nodes", "resume"),
    "advance": CommandPlace("advancing", "advance"),
    "run": CommandPlace("run", "run"),
    "sweep": CommandPlace("sweep", "sweep"),
    "study": CommandPlace("study", "study"),
    "tables": CommandPlace("tables", "tables"),
    "report": CommandPlace("report", "report"),
    "replay": CommandPlace("replay", "replay"),
    "shrink": CommandPlace("replay", "shrink"),
    "explain": CommandPlace("explain", "explain"),
    "diff": CommandPlace("explain", "diff"),
    "judge": CommandPlace("judge", "judge"),
    "inspect": CommandPlace("inspecting", "inspect"),
    "fault": CommandPlace("fault"),
    "message": CommandPlace("message"),
    "dlq": CommandPlace("dlq"),
    "topic": CommandPlace("topics"),
    "group": CommandPlace("groups"),
    "strategy": CommandPlace("strategy"),
    "scenario": CommandPlace("scenario"),
}


def add_commands(app: typer.Typer, wanted: str = "") -> None:
    """Give *app* the command *wanted*; all of them if there is none of that name."""
    for name in (wanted,) if wanted in COMMANDS else COMMANDS:
        place = COMMANDS[name]
        command = getattr(import_module(f"emulator.cli.{place.module}"), place.name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, epilog=place.epilog)(command)
    _add_help(app)


def _add_help(app: typer.Typer) -> None:
    """Each command's help is its docstring, also where Python has removed it (``-OO``)."""
    for command in app.registered_commands:
        command.help = command.help or docstring_of(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _add_help(group.typer_instance)
