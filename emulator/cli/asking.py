"""What the small commands share: where the cluster is, how to ask it, how to answer.

A command asks in one short ``trio.run`` and prints a table, or with ``--json`` one value.
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
from emulator.cluster.overview import Looker, Overview

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


def ask(namesrv: str, question: Callable[[Admin], Awaitable[T]]) -> T:
    """The answer to *question*.  Raises ``AdminError``."""

    async def asked() -> T:
        async with admin_over_tcp(namesrv) as admin:
            return await question(admin)

    return trio.run(asked)


def overview(namesrv: str) -> Overview:
    """A look at everything.  Raises ``AdminError``."""
    return ask(namesrv, lambda admin: Looker(admin, namesrv).look())


def answer_json(value: Any) -> None:
    typer.echo(msgspec.json.encode(value).decode())


def answer(screen: RenderableType) -> None:
    a_console().print(screen)


def a_console() -> Console:
    """Of the terminal's width; in a pipe plain text that is not folded."""
    is_terminal = sys.stdout.isatty()
    return Console(width=None if is_terminal else WIDTH_IN_A_PIPE, no_color=not is_terminal)
