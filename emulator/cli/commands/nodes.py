"""Commands for the control address of a running ``up``: ``nodes``, one per verb, and two more.

A verb (``kill``, ``stop``, ``start``, ``restart``, ``pause``, ``resume``) acts on nodes;
``advance`` delivers delayed messages and retries before their time; ``advertise`` changes the
addresses that brokers register.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from rocketmq_emulator.cli.options.completion import complete_node
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.help_screens import CONNECTION
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    checked_namesrv,
    duration_s,
    show_as,
    show_json,
    show_line,
)
from rocketmq_emulator.cli.screens.cluster_tables import a_table
from rocketmq_emulator.cluster.control.client import ControlClient, find_control
from rocketmq_emulator.cluster.node_view import NodeState, NodeView
from rocketmq_emulator.cluster.world import Verb
from rocketmq_emulator.text.values import check_connect_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType


HELP_OF_VERBS: Mapping[Verb, str] = {
    "kill": "Kill a node at once, as kill -9 does.",
    "stop": "Stop a node: it unregisters and saves its tables.",
    "start": "Start a node that does not run; wait until it is ready.",
    "restart": "Kill a node and start it again; wait until it is ready.",
    "pause": "Pause a node, as SIGSTOP does: it answers nothing.",
    "resume": "Let a paused node continue.",
}
STYLES: Mapping[NodeState, str] = {
    "running": "green",
    "starting": "yellow",
    "paused": "yellow",
    "stopped": "",
    "dead": "red",
}


def checked_control(text: str) -> str:
    """The control address in *text* as HOST:PORT, or empty.  Raises ``BadParameter``.

    *text* may be a URL, or a port alone, which is on this machine as for ``up --control``.
    """
    text = text.removeprefix("=").removeprefix("http://").rstrip("/")
    if "://" in text:
        raise typer.BadParameter(f"a control address is http://HOST:PORT, not {text}")
    if text.isdecimal():
        text = f"127.0.0.1:{text}"
    return text and checked_namesrv(text)


ControlAt = Annotated[
    str,
    typer.Option(
        envvar="RMQEMU_CONTROL",
        metavar="[HOST:]PORT",
        callback=checked_control,
        rich_help_panel=CONNECTION,
        help="The control address of `up`; by default the NameServer is asked.",
    ),
]
Names = Annotated[
    list[str],
    typer.Argument(metavar="NODE…", help="Names of nodes.", autocompletion=complete_node),
]


def nodes(control: ControlAt = "", namesrv: Namesrv = NAMESRV, as_json: AsJson = False) -> None:
    """Show role, state, address and process of each node of `up`."""
    with errors_as_exit_codes():
        show_as(find_control(control, namesrv).nodes(), nodes_table, as_json=as_json)


def _command(verb: Verb) -> Callable[..., None]:
    def command(
        names: Names,
        control: ControlAt = "",
        namesrv: Namesrv = NAMESRV,
        as_json: AsJson = False,
    ) -> None:
        with errors_as_exit_codes():
            caller = find_control(control, namesrv)
        _do_all(caller, verb, names, as_json=as_json)

    command.__doc__ = HELP_OF_VERBS[verb]
    return command


kill, stop, start = _command("kill"), _command("stop"), _command("start")
restart, pause, resume = _command("restart"), _command("pause"), _command("resume")


def _do_all(caller: ControlClient, verb: Verb, names: Sequence[str], *, as_json: bool) -> None:
    """Do *verb* to each node, also after a failure; the exit code is that of the first failure."""
    first: typer.Exit | None = None
    for name in names:
        try:
            with errors_as_exit_codes():
                _show(caller.do(name, verb), as_json=as_json)
        except typer.Exit as refused:
            first = first or refused
    if first is not None:
        raise first


def _show(node: NodeView, *, as_json: bool) -> None:
    if as_json:
        show_json(node)
    else:
        process = f", process {node.pid}" if node.pid else ""
        show_line(f"{node.name} is {node.state}{process}")


def nodes_table(nodes: Sequence[NodeView]) -> RenderableType:
    """A table with a row per node."""
    table = a_table("node", "role", "state", "since", "address", "pid", numbers=("pid",))
    for node in nodes:
        table.add_row(
            node.name,
            node.role,
            Text(state_text(node), STYLES[node.state]),
            f"{datetime.fromtimestamp(node.since_ms / 1000).astimezone():%H:%M:%S}",
            node.address,
            str(node.pid or ""),
        )
    return table


def state_text(node: NodeView) -> str:
    """The state, with the signal or exit code of a process that ended."""
    if node.signal is not None:
        return f"{node.state} (signal {node.signal})"
    return f"{node.state} (exit code {node.exit_code})" if node.exit_code else node.state


# Time ---------------------------------------------------------------------------------


Time = Annotated[str, typer.Argument(metavar="TIME", help="How far: 30s, 10m or 2h.")]


def advance(
    time: Time, control: ControlAt = "", namesrv: Namesrv = NAMESRV, as_json: AsJson = False
) -> None:
    """Deliver now the messages due in the next TIME: delays, retries."""
    with errors_as_exit_codes():
        ms = round(duration_s(time) * 1_000)
        done = find_control(control, namesrv).advance(ms)
    if as_json:
        show_json({"ms": ms, "due_count": done})
    else:
        show_line(f"advanced by {time}: {done} message{'s' * (done != 1)} fell due")


# Addresses ----------------------------------------------------------------------------


Addresses = Annotated[
    list[str],
    typer.Argument(
        metavar="NODE=HOST:PORT…", help="Brokers, and the addresses at which clients reach them."
    ),
]


def advertise(addresses: Addresses, control: ControlAt = "", namesrv: Namesrv = NAMESRV) -> None:
    """Let brokers register other addresses, such as mapped ports."""
    pairs = [text.partition("=") for text in addresses]
    with errors_as_exit_codes():
        for name, equals, address in pairs:
            if not (name and equals):
                raise BadUse(f"{name!r} is no NODE=HOST:PORT, as broker-a=localhost:32801")
            try:
                check_connect_address(address)
            except ValueError as error:
                raise BadUse(f"{name}: {error}") from error
        caller = find_control(control, namesrv)
        for name, _, address in pairs:
            caller.advertise(name, address)
            show_line(f"{name} is registered at {address}")
