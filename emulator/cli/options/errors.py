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

from rocketmq_emulator.cluster.world import NotReady
from rocketmq_emulator.processes.node_process import NodeDied
from rocketmq_emulator.processes.process_errors import user_message
from rocketmq_emulator.processes.role_settings import BadSetting
from rocketmq_emulator.protocol.error_families import CannotDoHere, Misuse
from rocketmq_emulator.scenarios.plan.problems import BadScenario

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
PARSER_EXITS = (PARSER_ERROR, typer.Exit, typer.Abort)


class BadUse(Misuse):
    """The command line makes no sense as it is."""


class OutputFailed(CannotDoHere):
    """Standard output takes no more; the text says why."""


class Missing(Misuse):
    """What was asked for is not there."""


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
    """Inside, errors that are no bugs of ours end the program with one line."""
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
    """What to show of *error*; None if only a bug can cause it."""
    for kind, code in EXIT_CODE_OF.items():
        if isinstance(error, kind):
            return str(error), code
    if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS and not error.filename:
        return output_failed(error), FAILED
    return _remote_error_line(error) or (user_message(error), FAILED)


def close_output() -> int:
    """Write what is still to be written.  An exit code: 0, or that of a failure, which is shown.

    A reader that has gone (``| head``) has read enough: that is no failure to tell of.
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
    """Why standard output takes no more, as a line."""
    return f"{OUTPUT_FAILED}: {error.strerror or error}"


def output_closed() -> typer.Exit:
    """The reader of our output has gone (``| head``), so there is nobody to report it to."""
    _redirect_to_devnull(1, 2)
    return typer.Exit(FAILED)


def _redirect_to_devnull(*numbers: int) -> None:
    """What is still buffered goes nowhere, or the interpreter would complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in numbers:
        os.dup2(nowhere, number)


def print_error(text: str) -> None:
    """One line on standard error, with the prefix of all such lines."""
    print_note(f"rmqemu: {text}")


def print_note(text: str) -> None:
    """A line on standard error that only continues another one."""
    with suppress(OSError):  # there is no third place
        typer.echo(text, err=True)


def fail(text: str, code: int = FAILED) -> typer.Exit:
    """Print *text* on standard error; the caller raises what this returns."""
    print_error(text)
    return typer.Exit(code)


def interrupted(text: str) -> typer.Exit:
    """Ctrl-C came before everything was done; *text* says how much was."""
    print_note(text)
    return typer.Exit(INTERRUPTED)


def _remote_error_line(error: Exception) -> tuple[str, int] | None:
    # Commands that call nobody have not loaded these, and need not.
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
