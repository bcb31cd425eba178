"""Errors of the world are one line on standard error and an exit code.

Each family is known by its base class; what is in none of them is a bug of ours and
keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
import typer

from emulator.cluster.node_process import NodeDied
from emulator.cluster.process_errors import plain_text
from emulator.cluster.settings import BadSetting
from emulator.cluster.world import NotReady
from scenarios.problems import BadScenario

FAILED, BAD_USE, UNREACHABLE, NOT_FOUND, INCOMPLETE, INTERRUPTED = 1, 2, 3, 4, 5, 130
EXIT_CODES = (
    "Exit codes: 0 done, 1 refused or failed, 2 bad use, 3 nobody answers, "
    "4 no such topic, group, message or node, 5 shown without a broker that does not answer, "
    "130 stopped by Ctrl-C before the end."
)
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # stdout has no filename
OUTPUT_FAILED = "cannot write to standard output"
# The family of the parser's own errors, of which typer exports only the most special one.
PARSER_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
THE_PARSERS = (PARSER_ERROR, typer.Exit, typer.Abort)


class BadUse(Exception):
    """The command line makes no sense as it is."""


class OutputFailed(Exception):
    """Standard output takes no more; the text says why."""


class Missing(Exception):
    """What was asked for is not there."""


CODE_OF: dict[type[Exception], int] = {
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
def plain_errors() -> Iterator[None]:
    """Inside, errors that are no bugs of ours end the program with one line."""
    try:
        yield
    except BrokenPipeError:
        raise reader_has_gone() from None
    except BaseExceptionGroup:
        raise
    except THE_PARSERS:
        raise
    except Exception as error:
        text, code = _line_and_code(error)
        if text is None:
            raise
        if text.startswith(OUTPUT_FAILED):
            _write_nowhere(1)
        raise fail(text, code) from None


def _line_and_code(error: Exception) -> tuple[str | None, int]:
    """What to show of *error*; None if only a bug can cause it."""
    for kind, code in CODE_OF.items():
        if isinstance(error, kind):
            return str(error), code
    if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS and not error.filename:
        return output_failed(error), FAILED
    return _of_a_call(error) or (plain_text(error), FAILED)


def close_output() -> int:
    """Write what is still to be written.  An exit code: 0, or that of a failure, which is shown.

    A reader that has gone (``| head``) has read enough: that is no failure to tell of.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_has_gone().exit_code
    except OSError as error:
        _write_nowhere(1)
        say(output_failed(error))
        return FAILED
    return 0


def output_failed(error: OSError) -> str:
    """Why standard output takes no more, as a line."""
    return f"{OUTPUT_FAILED}: {error.strerror or error}"


def reader_has_gone() -> typer.Exit:
    """The reader of our output has gone (``| head``), so there is nobody to report it to."""
    _write_nowhere(1, 2)
    return typer.Exit(FAILED)


def _write_nowhere(*numbers: int) -> None:
    """What is still buffered goes nowhere, or the interpreter would complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in numbers:
        os.dup2(nowhere, number)


def say(text: str) -> None:
    """One line on standard error, with the prefix of all such lines."""
    hint(f"rmqemu: {text}")


def hint(text: str) -> None:
    """A line on standard error that only continues another one."""
    with suppress(OSError):  # there is no third place
        typer.echo(text, err=True)


def fail(text: str, code: int = FAILED) -> typer.Exit:
    """Print *text* on standard error; the caller raises what this returns."""
    say(text)
    return typer.Exit(code)


def interrupted(text: str) -> typer.Exit:
    """Ctrl-C came before everything was done; *text* says how much was."""
    hint(text)
    return typer.Exit(INTERRUPTED)


def _of_a_call(error: Exception) -> tuple[str, int] | None:
    # Commands that call nobody have not loaded these, and need not.
    from emulator.client.errors import ClientError, NoNameServer, NoRoute  # noqa: PLC0415
    from emulator.cluster.admin import AdminError, ClusterUnreachable, NotFound  # noqa: PLC0415
    from emulator.net.errors import RemoteError  # noqa: PLC0415

    if not isinstance(error, ClientError | AdminError | RemoteError):
        return None
    code = FAILED
    if isinstance(error, ClusterUnreachable | NoNameServer | RemoteError):
        code = UNREACHABLE
    elif isinstance(error, NotFound | NoRoute):
        code = NOT_FOUND
    return str(error).split("\n", 1)[0], code
