"""All commands by name.

Commands that start servers load nothing else: their start-up time is a promise.  Any
other word on the command line loads all of them.
"""

from __future__ import annotations

import sys

import typer

from emulator.cli.errors import EXIT_CODES
from emulator.cli.roles import ORDER, broker, nameserver
from emulator.cli.up import up

LEAN = ("up", "nameserver", "broker")

app = typer.Typer(
    name="rmqemu",
    help="A RocketMQ that starts in half a second, speaks the real protocol, and can be hurt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
)
app.command()(up)
app.command(epilog=ORDER)(nameserver)
app.command(epilog=ORDER)(broker)


@app.callback()
def rmqemu() -> None:
    """One command starts a cluster; small ones look at it and use it."""


def run() -> None:
    """Parse the command line and run the command."""
    if not set(LEAN) & set(sys.argv[1:2]):
        from emulator.cli.tools import add_tools  # noqa: PLC0415  # see above

        add_tools(app)
    app(prog_name="rmqemu")  # however it was started
