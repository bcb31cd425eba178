"""Errors of users and of the environment: one line on standard error and an exit code.

Each family is recognised by its base class.  An exception of no family is our bug and
keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from textwrap import wrap

import msgspec
import typer

from rocketmq_emulator.cluster.world import NotReady
from rocketmq_emulator.processes.node_process import NodeDied
from rocketmq_emulator.processes.process_errors import user_message
from rocketmq_emulator.processes.role_settings import BadSetting
from rocketmq_emulator.protocol.error_families import CannotDoHere, Misuse
from rocketmq_emulator.scenarios.plan.problems import BadScenario

FAILED, BAD_USE, UNREACHABLE, NOT_FOUND, INCOMPLETE, INTERRUPTED = 1, 2, 3, 4, 5, 130
EXIT_CODES = (
    "Exit codes: 0 done, 1 refused or failed, 2 bad use, 3 no server answers, "
    "4 no such topic, group, message or node, 5 incomplete: a broker does not answer, "
    "130 stopped by Ctrl-C before the end."
)
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of a full or broken output
OUTPUT_FAILED = "cannot write to standard output"
# The base class of the parser's errors; typer exports only its subclass ``BadParameter``.
PARSER_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
PARSER_EXITS = (PARSER_ERROR, typer.Exit, typer.Abort)


class BadUse(Misuse):
    """The command line is invalid; the text says why."""


class OutputFailed(CannotDoHere):
    """Writing to standard output failed; the text says why."""


class Missing(Misuse):
    """The command line names a thing that does not exist."""


EXIT_CODE_OF: dict[type[Exception], int] = {
    BadUse: BAD_USE,
    BadScenario: BAD_USE,
    BadSetting: BAD_USE,
    msgspec.ValidationError: BAD_USE,
    Missing: NOT_FOUND,
    NodeDied: FAILED,
    NotReady: FAILED,
    OutputFailed: FAILED,
}


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turn an exception that is not our bug into one line and ``typer.Exit``."""
    try:
        yield
    except BrokenPipeError:
        raise output_closed() from None
    except BaseExceptionGroup:
        raise
    except PARSER_EXITS:
        raise
    except Exception as error:
        text, code = _line_and_code(error)
        if text is None:
            raise
        if text.startswith(OUTPUT_FAILED):
            _redirect_to_devnull(1)
        raise fail(text, code) from None


def _line_and_code(error: Exception) -> tuple[str | None, int]:
    """The line to print for *error* (None for our own bugs), and the exit code."""
    for kind, code in EXIT_CODE_OF.items():
        if isinstance(error, kind):
            return str(error), code
    if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS and not error.filename:
        return output_failed(error), FAILED
    return _remote_error_line(error) or (user_message(error), FAILED)


def close_output() -> int:
    """Flush standard output.  Returns the exit code: 0, or 1 after an error, which is printed.

    If the reader has closed the pipe (``| head``), no error is printed.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return output_closed().exit_code
    except OSError as error:
        _redirect_to_devnull(1)
        print_error(output_failed(error))
        return FAILED
    return 0


def output_failed(error: OSError) -> str:
    """The error line for a failed write to standard output."""
    return f"{OUTPUT_FAILED}: {error.strerror or error}"


def output_closed() -> typer.Exit:
    """The exit after a reader has closed our output (``| head``); discards further output."""
    _redirect_to_devnull(1, 2)
    return typer.Exit(FAILED)


def _redirect_to_devnull(*numbers: int) -> None:
    """Discard buffered output; else the interpreter would report an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in numbers:
        os.dup2(nowhere, number)


def print_error(text: str) -> None:
    """Print *text* as an error line: on standard error, with the prefix ``rmqemu:``."""
    print_note(f"rmqemu: {text}")


def print_note(text: str) -> None:
    """Print *text* on standard error, without a prefix; a terminal gets it folded at words."""
    with suppress(OSError):  # no other place to report to
        if sys.stderr is not None and sys.stderr.isatty():
            text = folded(text, shutil.get_terminal_size().columns)
        typer.echo(text, err=True)


def folded(text: str, width: int) -> str:
    """*text* with its lines folded at *width*, below their own beginning."""
    return "\n".join(part for line in text.splitlines() for part in folded_line(line, width))


def folded_line(line: str, width: int) -> list[str]:
    """*line* in parts of at most *width*; words longer than that are not broken."""
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return wrap(
        line.lstrip(),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def fail(text: str, code: int = FAILED) -> typer.Exit:
    """Print *text* as an error line; returns the exit, which the caller raises."""
    print_error(text)
    return typer.Exit(code)


def interrupted(text: str) -> typer.Exit:
    """Print *text*, the work done before Ctrl-C; returns the exit, which the caller raises."""
    print_note(text)
    return typer.Exit(INTERRUPTED)


def _remote_error_line(error: Exception) -> tuple[str, int] | None:
    # Imported only now: commands that call no server do not need them.
    from rocketmq_emulator.admin.calls import AdminError, ClusterUnreachable, NotFound  # noqa: PLC0415
    from rocketmq_emulator.errors.call_errors import (  # noqa: PLC0415
        ClientError,
        NoNameServer,
        NoRoute,
        RemoteError,
    )

    if not isinstance(error, ClientError | AdminError | RemoteError):
        return None
    code = FAILED
    if isinstance(error, ClusterUnreachable | NoNameServer | RemoteError):
        code = UNREACHABLE
    elif isinstance(error, NotFound | NoRoute):
        code = NOT_FOUND
    return str(error).split("\n", 1)[0], code
