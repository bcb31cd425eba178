"""What ``up``, ``broker`` and ``nameserver`` show on standard error, as options."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from emulator.cli.up_options import LOG_FORMAT
from emulator.logs import LogFormat, LogSettings

Format = Annotated[
    LogFormat,
    typer.Option(*LOG_FORMAT.flags, help="console is for people; json is one object per line."),
]


def log_settings(format_: LogFormat, *, everything: bool) -> LogSettings:
    """Warnings and errors, or *everything* but routine.

    A node does not know where its lines end up, so it is told here whether to colour them;
    the live view of ``up`` has colours of its own.
    """
    is_terminal = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return LogSettings(
        least="info" if everything else "warning",
        format=format_,
        colours=everything and is_terminal,
    )
