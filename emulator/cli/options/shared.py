"""What the small commands share: where the cluster is, how to call it, how to show a result.

A command makes its calls in one short ``trio.run``, then prints a table, or one value with
``--json``.
"""

from __future__ import annotations

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
from rocketmq_emulator.cli.options.errors import INCOMPLETE, BadUse, fail
from rocketmq_emulator.text.values import check_connect_address

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")

NAMESRV = "127.0.0.1:9876"
WIDTH_IN_A_PIPE = 10_000  # so that nothing is cut
OVERVIEW_CALL_MS_MAX = 1_500  # for one answer, where the others are to be shown soon


def checked_namesrv(text: str) -> str:
    """*text* if NameServers can be at such addresses; else bad use, before anything is dialled."""
    text = text.removeprefix("=")  # of ``-n=HOST:PORT``, which the parser takes for its value
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise typer.BadParameter(f"it is empty; give HOST:PORT, such as {NAMESRV}")
    for part in parts:
        try:
            check_connect_address(part)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return ";".join(parts)


Namesrv = Annotated[
    str,
    typer.Option(
        "--namesrv",
        "-n",
        envvar="NAMESRV_ADDR",
        metavar="HOST:PORT",
        callback=checked_namesrv,
        help='The NameServer; several as "HOST:PORT;HOST:PORT".',
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value, not a table.")]


def call_cluster(namesrv: str, action: Callable[[Admin], Awaitable[T]]) -> T:
    """What *action* returns.  Raises ``AdminError``."""

    async def called() -> T:
        async with admin_over_tcp(namesrv) as admin:
            return await action(admin)

    return trio.run(called)


def read_cluster(namesrv: str) -> Overview:
    """Everything at once, in a few seconds whoever is silent.  Raises ``AdminError``."""

    async def read() -> Overview:
        async with admin_over_tcp(namesrv, OVERVIEW_CALL_MS_MAX) as admin:
            return await ClusterReader(admin, namesrv).read()

    return trio.run(read)


def check_complete(overview: Overview) -> None:
    """After what is known was shown.  Raises ``Exit`` when a broker did not answer."""
    silent = overview.silent
    for broker in silent[:-1]:
        fail(_no_answer_text(broker))
    if silent:
        raise fail(_no_answer_text(silent[-1]), INCOMPLETE)


def _no_answer_text(broker: BrokerView) -> str:
    return f"{broker.name} at {broker.address} {broker.problem}: what it has is not shown"


def show_json(value: object) -> None:
    """One line of JSON on standard output."""
    typer.echo(msgspec.json.encode(value).decode())


def show_as(value: T, draw: Callable[[T], RenderableType], *, as_json: bool) -> None:
    """One line of JSON, or what *draw* makes of it."""
    if as_json:
        show_json(value)
    else:
        show(draw(value))


def show(screen: RenderableType) -> None:
    """Draw on standard output."""
    make_console().print(screen)


def make_console() -> Console:
    """Of the terminal's width; in a pipe plain text that is not folded."""
    if sys.stdout.isatty():
        return Console()  # which knows NO_COLOR and TERM=dumb
    return Console(width=WIDTH_IN_A_PIPE, no_color=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on standard error, unless *yes*; anything but yes ends the command with exit code 1.

    Raises ``BadUse`` where there is nobody to answer.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadUse(f"{question} There is no terminal to ask: add --yes")
    if not typer.confirm(question, err=True):
        raise fail("nothing was done")
