"""``fault``: hurt a running ``up`` on purpose, see what holds, and heal it.

The commands below ``fault add`` are made from the faults' own fields: ``--ms`` is the field
``ms``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from rocketmq_emulator.cli.commands.nodes import ControlAt
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import NAMESRV, AsJson, Namesrv, show_as, show_json
from rocketmq_emulator.cli.screens.cluster_tables import a_table
from rocketmq_emulator.cluster.control.client import find_control
from rocketmq_emulator.cluster.fault_values import FAULTS, Fault, FaultState, word_of
from rocketmq_emulator.cluster.faults.reading import BadFault, parse_fault
from rocketmq_emulator.cluster.faults.register import TABLE
from rocketmq_emulator.text.docstrings import docstring_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from rocketmq_emulator.cluster.control.client import ClusterAbout

NAME_SEPARATOR, LINK_END_SEPARATOR = "+", ","  # between=broker-a+broker-b,clients

app = typer.Typer(help="Hurt a running `up` on purpose: add, list, remove faults.")
adding = typer.Typer(help="Begin a fault; it holds for a time, or until it is removed.")
app.add_typer(adding, name="add")


# Beginning --------------------------------------------------------------------------------


class FieldOption(msgspec.Struct, frozen=True):
    """A field of a fault as an option."""

    name: str
    flag: str
    is_switch: bool
    metavar: str
    default: str
    read: Callable[[str], Any]

    @property
    def annotation(self) -> object:
        """As typer takes it."""
        if self.is_switch:
            return Annotated[bool, typer.Option(self.flag, help="What the first side sends only.")]
        text = f"default {self.default}" if self.default else ""
        return Annotated[str | None, typer.Option(self.flag, metavar=self.metavar, help=text)]


def options_of(kind: type[Fault]) -> tuple[FieldOption, ...]:
    """The fields of *kind*, in their order."""
    return tuple(map(_option, msgspec.structs.fields(kind)))


def _option(field: msgspec.structs.FieldInfo) -> FieldOption:
    given = field.default
    return FieldOption(
        name=field.encode_name,
        flag=f"--{field.encode_name.replace('_', '-')}",
        is_switch=field.type is bool,
        metavar=METAVARS.get(field.encode_name, "TEXT" if field.type is str else "NUMBER"),
        default="" if given in (msgspec.NODEFAULT, None, "") else str(given),
        read=READERS.get(field.encode_name, str),
    )


def _names(text: str) -> str | list[str]:
    names = text.split(NAME_SEPARATOR)
    return names if len(names) > 1 else text


def _link_ends(text: str) -> list[str | list[str]]:
    return [_names(side) for side in text.split(LINK_END_SEPARATOR)]


def _rule(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadUse(f"--rule is JSON as in docs/reply-rules.md: {error}") from error


READERS: Mapping[str, Callable[[str], Any]] = {
    "between": _link_ends,
    "around": _names,
    "rule": _rule,
}
METAVARS: Mapping[str, str] = {
    "between": "NODES,NODES",
    "around": "NODES",
    "rule": "JSON",
    "distribution": "NAME",
    "pool": "NAME",
}


def _add_command(kind: type[Fault]) -> Callable[..., None]:
    options = options_of(kind)
    word = word_of_kind(kind)

    def command(control: str, namesrv: str, as_json: bool, **given: object) -> None:
        with errors_as_exit_codes():
            body = {"fault": word, **dict(_given(options, given))}
            if (duration := given["duration"]) is not None:
                body["for"] = duration
            fault = _checked(body)
            state = find_control(control, namesrv).begin_fault(fault)
        _show_begun(state, as_json=as_json)

    duration = Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Such as 20s.")
    ]
    parameters = [
        *(_parameter(o.name, o.annotation, False if o.is_switch else None) for o in options),
        _parameter("duration", duration, None),
        _parameter("control", ControlAt, ""),
        _parameter("namesrv", Namesrv, NAMESRV),
        _parameter("as_json", AsJson, False),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # a function takes any
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = docstring_of(kind)
    return command


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _given(options: Sequence[FieldOption], given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields that were given, read."""
    for option in options:
        value = given[option.name]
        if option.is_switch:
            if value:
                yield option.name, True
        elif value is not None:
            yield option.name, option.read(value)


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    """The same with numbers instead of texts.  Raises ``BadUse``."""
    try:
        fault, _ = parse_fault(body, from_texts=True)
    except BadFault as error:
        raise BadUse(str(error)) from error
    checked: dict[str, Any] = msgspec.to_builtins(fault)
    return checked | ({"for": body["for"]} if "for" in body else {})


def _show_begun(state: FaultState, *, as_json: bool) -> None:
    if as_json:
        show_json(state)
        return
    touched = f" at {', '.join(state.nodes)}" if state.nodes else ""
    left = f" for {_seconds(state.left_ms)}" if state.left_ms is not None else ""
    typer.echo(f"fault {state.fault_id}: {word_of(state.fault)}{touched}{left}")


def word_of_kind(kind: type[Fault]) -> str:
    """The word of a class of faults."""
    return next(word for word, known in FAULTS.items() if known is kind)


for _kind in FAULTS.values():
    adding.command(word_of_kind(_kind))(_add_command(_kind))


# Listing and ending -----------------------------------------------------------------------


@app.command("list")
def list_faults(
    kinds: Annotated[
        bool, typer.Option("--words", help="All faults there are, and what this cluster can do.")
    ] = False,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    """Show the faults that hold, and what they did."""
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
    """End faults: what they changed is as before."""
    with errors_as_exit_codes():
        if bool(ids) == every:
            raise BadUse("give the ids of faults, or --all")
        caller = find_control(control, namesrv)
        ended = caller.end_faults() if every else _end_each(caller.end_fault, ids or [])
    if as_json:
        show_json(ended)
    else:
        typer.echo(f"ended: {', '.join(map(str, ended)) or 'none held'}")


def _end_each(end: Callable[[int], tuple[int, ...]], ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(ended for fault_id in ids for ended in end(fault_id))


def faults_table(states: Sequence[FaultState]) -> RenderableType:
    """A line a fault."""
    if not states:
        return Text("no fault holds")
    table = a_table("id", "fault", "nodes", "since", "left", "acted", numbers=("id", "acted"))
    for state in states:
        table.add_row(
            str(state.fault_id),
            fault_text(state.fault),
            ", ".join(state.nodes),
            f"{datetime.fromtimestamp(state.since_ms / 1000).astimezone():%H:%M:%S}",
            "until removed" if state.left_ms is None else _seconds(state.left_ms),
            str(state.acted_count),
        )
    return table


def fault_text(fault: Fault) -> str:
    """The word and what was given besides the nodes: ``slow_link ms=200``."""
    given = msgspec.to_builtins(fault)
    fields = [name for name in given if name not in ("fault", "node", "between", "around")]
    return " ".join([word_of(fault), *(f"{name}={_short(given[name])}" for name in fields)])


def _short(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


class FaultKindRow(msgspec.Struct, frozen=True):
    """A fault, its options, and whether this cluster can do it, or why not."""

    word: str
    options: tuple[str, ...]
    here: str


def _fault_kinds(about: ClusterAbout) -> tuple[FaultKindRow, ...]:
    return tuple(
        FaultKindRow(
            word,
            tuple(option.flag for option in options_of(kind)),
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
    """A line a word."""
    table = a_table("fault", "options", "here")
    for row in rows:
        table.add_row(row.word, " ".join(row.options), row.here)
    return table


def _seconds(ms: int | None) -> str:
    return f"{round((ms or 0) / 1000, 1):g} s"
