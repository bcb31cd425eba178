"""``fault``: adds faults to a running ``up``, lists the faults that hold, and removes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.text import Text

from rocketmq_emulator.cli.commands.fault_add import adding
from rocketmq_emulator.cli.commands.nodes import ControlAt
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    show_as,
    show_json,
    show_line,
)
from rocketmq_emulator.cli.screens.cluster_tables import a_table
from rocketmq_emulator.cli.screens.held_changes import UNTIL_REMOVED, fault_text, seconds_text
from rocketmq_emulator.cluster.control.client import find_control
from rocketmq_emulator.cluster.fault_values import (
    FAULTS,
    Fault,
    FaultState,
)
from rocketmq_emulator.cluster.faults.register import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from rocketmq_emulator.cluster.control.client import ClusterAbout

app = typer.Typer(no_args_is_help=True, help="Add, list and remove faults of a running `up`.")
app.add_typer(adding, name="add")


@app.command("list")
def list_faults(
    kinds: Annotated[
        bool,
        typer.Option("--words", help="All kinds of faults, and whether they work here."),
    ] = False,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    """Show the faults that hold, and how often each acted."""
    with errors_as_exit_codes():
        caller = find_control(control, namesrv)
        if kinds:
            show_as(_fault_kinds(caller.about()), fault_kinds_table, as_json=as_json)
        else:
            show_as(caller.faults(), faults_table, as_json=as_json)


@app.command("remove")
def remove(
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID…", help="As in the list.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that hold.")] = False,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    """End faults and undo what they changed."""
    with errors_as_exit_codes():
        if bool(ids) == every:
            raise BadUse("give the ids of faults, or --all")
        caller = find_control(control, namesrv)
        ended = caller.end_faults() if every else _end_each(caller.end_fault, ids or [])
    if as_json:
        show_json(ended)
    else:
        show_line(f"ended: {', '.join(map(str, ended)) or 'none held'}")


def _end_each(end: Callable[[int], tuple[int, ...]], ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(ended for fault_id in ids for ended in end(fault_id))


def faults_table(states: Sequence[FaultState]) -> RenderableType:
    """A table with a row per fault."""
    if not states:
        return Text("no fault holds")
    table = a_table("id", "fault", "nodes", "since", "left", "acted", numbers=("id", "acted"))
    for state in states:
        table.add_row(
            str(state.fault_id),
            fault_text(state.fault),
            ", ".join(state.nodes),
            f"{datetime.fromtimestamp(state.since_ms / 1000).astimezone():%H:%M:%S}",
            UNTIL_REMOVED if state.left_ms is None else seconds_text(state.left_ms),
            str(state.acted_count),
        )
    return table


def flags_of(kind: type[Fault]) -> tuple[str, ...]:
    """The options of ``fault add`` for a fault of *kind*, in the order of its fields."""
    names = (field.encode_name for field in msgspec.structs.fields(kind))
    return tuple(f"--{name.replace('_', '-')}" for name in names)


class FaultKindRow(msgspec.Struct, frozen=True):
    """A fault, its options, and whether this cluster can do it, or why not."""

    word: str
    options: tuple[str, ...]
    here: str


def _fault_kinds(about: ClusterAbout) -> tuple[FaultKindRow, ...]:
    return tuple(
        FaultKindRow(
            word,
            flags_of(kind),
            _here(word, about),
        )
        for word, kind in FAULTS.items()
    )


def _here(word: str, about: ClusterAbout) -> str:
    can = TABLE[word].can(about.world) if word in TABLE else "no"
    if can == "with_links":
        return "yes" if about.with_links else "up --with-links"
    return can


def fault_kinds_table(rows: Sequence[FaultKindRow]) -> RenderableType:
    """A table with a row per kind of fault."""
    table = a_table("fault", "options", "here")
    for row in rows:
        table.add_row(row.word, " ".join(row.options), row.here)
    return table
