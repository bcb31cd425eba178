"""Messages on standard output, a line each, and the options that say how.

A line that was not written is not printed: ``error`` keeps why, and who consumes looks at it
before a message counts as consumed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import trio
import typer

from emulator.cli.errors import BadUse, OutputFailed, output_failed
from emulator.cli.line_format import FORMAT_HELP, LineFormat, json_line
from protocol.properties import split_keys

if TYPE_CHECKING:
    from protocol.message import MessageExt

Line: TypeAlias = "Callable[[MessageExt], bytes]"

Tags = Annotated[str, typer.Option(help='Only messages with these tags: "paid || shipped".')]
Key = Annotated[str, typer.Option(help="Print only messages with this key; pass over the others.")]
Format = Annotated[str, typer.Option("--format", metavar="TEXT", help=FORMAT_HELP)]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON line per message.")]


def line_of(form: str, default: Line, *, as_json: bool) -> Line:
    """How a message becomes a line.  Raises ``BadUse``."""
    if form and as_json:
        raise BadUse("give --format or --json, not both")
    if as_json:
        return json_line
    return LineFormat(form).line if form else default


class Printer:
    """Writes messages to standard output, until there were enough or writing fails."""

    def __init__(self, line: Line, *, key: str = "", count_max: int = 0) -> None:
        self.printed = 0
        self.done = trio.Event()
        self.error: Exception | None = None
        self._line = line
        self._key = key
        self._count_max = count_max

    def is_asked_for(self, message: MessageExt) -> bool:
        """Has it the key, if one is asked for?"""
        return not self._key or self._key in split_keys(message.keys or "")

    def print(self, message: MessageExt) -> None:
        """Write its line and flush it; afterwards ``error`` says whether that failed."""
        try:
            sys.stdout.buffer.write(self._line(message) + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            self.fail(error)
        except OSError as error:
            self.fail(OutputFailed(output_failed(error)))
        else:
            self.printed += 1
            if self.printed == self._count_max:
                self.done.set()

    def fail(self, error: Exception) -> None:
        """Nothing more is printed, because of *error*; the first one counts."""
        self.error = self.error or error
        self.done.set()
