"""How a command line that makes no sense is answered: one line, and where to read on.

    rmqemu: no such option: --topik (Possible options: --topic)
    Try "rmqemu produce -h".

Errors of every command look like this, those of the parser too, so that a script that
reads standard error knows one form.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from emulator.cli.errors import (
    BAD_USE,
    INTERRUPTED,
    PARSER_ERROR,
    close_output,
    hint,
    plain_errors,
    say,
)


class CommandLine(TyperGroup):
    """All commands.  Whatever ends one becomes an exit code here."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse *args* and run the command.  Standing alone, ends the program."""
        extra |= {
            "prog_name": prog_name,
            "complete_var": complete_var,
            "windows_expand_args": windows_expand_args,
        }
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        code = self._code_of(args, extra)
        sys.exit(code or close_output())

    def _code_of(self, args: Sequence[str] | None, extra: dict[str, Any]) -> int:
        try:
            with plain_errors():
                code = super().main(args, standalone_mode=False, **extra)
        except PARSER_ERROR as error:
            return _usage_error(error)
        except typer.Exit as end:
            return int(end.exit_code)
        except typer.Abort:
            return INTERRUPTED
        return code if isinstance(code, int) else 0


def _usage_error(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD_USE
    text = " ".join(error.format_message().split()).removesuffix(".")
    say(text[:1].lower() + text[1:])
    if (context := getattr(error, "ctx", None)) is not None:
        hint(f'Try "{context.command_path} -h".')
    return int(error.exit_code)
