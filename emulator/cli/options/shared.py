"""Options and helpers of the small commands: the NameServer's address, calls, output.

A command makes its calls in one short ``trio.run``, then prints a table, or one value with
``--json``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import trio
import typer
from rich.console import Console

from rocketmq_emulator.admin.calls import Admin, admin_over_tcp
from rocketmq_emulator.admin.cluster_reader import ClusterReader
from rocketmq_emulator.admin.overview import BrokerView, Overview
from rocketmq_emulator.cli.options.errors import INCOMPLETE, BadUse, fail, folded
from rocketmq_emulator.cli.options.help_screens import CONNECTION
from rocketmq_emulator.cli.options.up_options import PORT_DEFAULT
from rocketmq_emulator.text.values import check_connect_address, parse_duration_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")

NAMESRV = f"127.0.0.1:{PORT_DEFAULT}"
SECONDS = re.compile(r"\d+(\.\d+)?")
WIDTH_IN_A_PIPE = 10_000  # wide enough that nothing is cut
OVERVIEW_CALL_MS_MAX = 1_500  # for one answer, so that a silent broker does not delay the others


def checked_namesrv(text: str) -> str:
    """The NameServers' addresses in *text*.  Raises ``BadParameter``, before any connection."""
    text = text.removeprefix("=")  # of ``-n=HOST:PORT``: the parser leaves it in the value
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise typer.BadParameter(f"it is empty; give HOST:PORT, such as {NAMESRV}")
    for part in parts:
        try:
            check_connect_address(part)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return ";".join(parts)


def duration_s(text: str) -> float:
    """The seconds of ``20s``, ``2m``, or of a number alone.  Raises ``BadParameter``.

    All options that take a time take it in this form.
    """
    text = text.strip().removeprefix("=")
    if SECONDS.fullmatch(text):
        return float(text)
    try:
        return parse_duration_ms(text) / 1_000
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Namesrv = Annotated[
    str,
    typer.Option(
        "--namesrv",
        "-n",
        rich_help_panel=CONNECTION,
        envvar="NAMESRV_ADDR",
        metavar="HOST:PORT",
        callback=checked_namesrv,
        help='The NameServer; several as "HOST:PORT;HOST:PORT".',
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value, not a table.")]


def call_cluster(namesrv: str, action: Callable[[Admin], Awaitable[T]]) -> T:
    """Run *action* with an admin client and return its result.  Raises ``AdminError``."""

    async def called() -> T:
        async with admin_over_tcp(namesrv) as admin:
            return await action(admin)

    return trio.run(called)


def read_cluster(namesrv: str, call_ms_max: int = OVERVIEW_CALL_MS_MAX) -> Overview:
    """Read the whole cluster, within seconds even if a node is silent.  Raises ``AdminError``."""

    async def read() -> Overview:
        async with admin_over_tcp(namesrv, call_ms_max) as admin:
            return await ClusterReader(admin, namesrv).read()

    return trio.run(read)


def check_complete(overview: Overview) -> None:
    """Print the brokers that did not answer.  Raises ``Exit`` if there are any.

    Call it after *overview* was shown.
    """
    silent = overview.silent
    for broker in silent[:-1]:
        fail(_no_answer_text(broker))
    if silent:
        raise fail(_no_answer_text(silent[-1]), INCOMPLETE)


def _no_answer_text(broker: BrokerView) -> str:
    return f"{broker.name} at {broker.address} {broker.problem}: its data is not shown"


def show_json(value: object) -> None:
    """Print *value* as one line of JSON."""
    typer.echo(msgspec.json.encode(value).decode())


def show_as(value: T, draw: Callable[[T], RenderableType], *, as_json: bool) -> None:
    """Print *value* as one line of JSON, or as *draw* renders it."""
    if as_json:
        show_json(value)
    else:
        show(draw(value))


def show(screen: RenderableType) -> None:
    """Print *screen* on standard output; in a pipe, lines end with their text."""
    console = make_console()
    if console.is_terminal:
        console.print(screen)
        return
    with console.capture() as captured:
        console.print(screen)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def show_line(text: str) -> None:
    """Print *text* on standard output; a terminal gets it folded at words."""
    console = make_console()
    typer.echo(folded(text, console.width) if console.is_terminal else text)


def make_console() -> Console:
    """A console of the terminal's width; in a pipe, one that writes plain, unfolded text."""
    if sys.stdout.isatty():
        return Console()  # follows NO_COLOR and TERM=dumb
    return Console(width=WIDTH_IN_A_PIPE, no_color=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask *question* on standard error, unless *yes*; any answer but yes exits with code 1.

    Raises ``BadUse`` if standard input is not a terminal.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadUse(f"{question} There is no terminal to ask: add --yes")
    if not typer.confirm(question, err=True):
        raise fail("nothing was done")
