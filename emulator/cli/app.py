"""All commands by name.  A command's own file imports what it needs when it runs.

Errors of the world reach the user as one line on standard error and an exit code, never
as a traceback.
"""

from __future__ import annotations

import typer

from emulator.cli import up

app = typer.Typer(
    name="rmqemu",
    help="A RocketMQ that starts in half a second, speaks the real protocol, and can be hurt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(up.up)


@app.callback()
def rmqemu() -> None:
    """One command starts a cluster; small ones look at it and use it."""


def run() -> None:
    app()
