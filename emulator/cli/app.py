"""The command line itself: what stands before a command, and how one is found and run."""

from __future__ import annotations

import os
import platform
import signal
import sys
from io import TextIOWrapper
from typing import Annotated

import typer
from typer.main import get_command

from emulator.cli.commands import add_commands
from emulator.cli.errors import EXIT_CODES
from emulator.cli.up_options import RELEASE
from emulator.cli.usage import CommandLine


def application(wanted: str = "") -> typer.Typer:
    """The command line with the command *wanted*; with all of them if none has that name."""
    app = typer.Typer(
        name="rmqemu",
        cls=CommandLine,
        help="A RocketMQ for tests: starts in half a second, speaks the real protocol.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EXIT_CODES,
    )
    app.callback()(rmqemu)
    if wanted != "--version":
        add_commands(app, wanted)
    return app


def show_version(wanted: bool) -> None:
    """What a report of a bug needs, and nothing else."""
    if wanted:
        from importlib import metadata  # noqa: PLC0415  # `up` starts without it

        version = metadata.version("rocketmq-emulator")
        typer.echo(
            f"rmqemu {version} (Python {platform.python_version()}; "
            f"behaves as RocketMQ {RELEASE.default}, other releases: --release)"
        )
        raise typer.Exit


def rmqemu(
    version: Annotated[  # its callback does all
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """One command starts a cluster; small ones look at it and use it."""


def run() -> None:
    """Parse the command line and run the command."""
    if sys.stdout is None:  # ``>&-``: there is none, and nobody misses what goes there
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # until the end
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # what a locale does not have is a ?, no error
    command = get_command(application("".join(sys.argv[1:2])))  # takes as long as loading it
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # until here: see ``main``
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="rmqemu")  # however it was started
