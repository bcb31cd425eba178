"""What the small commands share: where the cluster is, how to call it, how to show a result.

A command makes its calls in one short ``trio.run``, then prints a table, or one value with
``--json``.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import trio
import typer
from rich.console import Console

from emulator.cluster.admin import Admin, admin_over_tcp
from emulator.cluster.overview import ClusterReader, Overview

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")

Namesrv = Annotated[
    str,
    typer.Option(
        "--namesrv", "-n", envvar="NAMESRV_ADDR", metavar="HOST:PORT;…", help="The NameServers."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value instead of a table.")]
NAMESRV = "127.0.0.1:9876"
WIDTH_IN_A_PIPE = 200


def call_cluster(namesrv: str, action: Callable[[Admin], Awaitable[T]]) -> T:
    """What *action* returns.  Raises ``AdminError``."""

    async def called() -> T:
        async with admin_over_tcp(namesrv) as admin:
            return await action(admin)

    return trio.run(called)


def read_cluster(namesrv: str) -> Overview:
    """Everything at once.  Raises ``AdminError``."""
    return call_cluster(namesrv, lambda admin: ClusterReader(admin, namesrv).read())


def show_json(value: Any) -> None:
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
    is_terminal = sys.stdout.isatty()
    return Console(width=None if is_terminal else WIDTH_IN_A_PIPE, no_color=not is_terminal)
