"""Errors of the world are one line on standard error and an exit code.

Each family is known by its base class; what is in none of them is a bug of ours and
keeps its traceback.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import typer

from emulator.cluster.node_process import NodeDied
from emulator.cluster.process_errors import plain_text
from emulator.cluster.settings import BadSetting
from emulator.cluster.world import NotReady

FAILED, BAD_USE, UNREACHABLE, NOT_FOUND = 1, 2, 3, 4
EXIT_CODES = (
    "Exit codes: 0 done, 1 refused or failed, 2 bad use, 3 nobody answers, "
    "4 no such topic or group."
)


class BadUse(Exception):
    """The command line makes no sense as it is."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Inside, errors that are no bugs of ours end the program with one line."""
    try:
        yield
    except BrokenPipeError:
        raise reader_has_gone() from None
    except (BadUse, BadSetting, msgspec.ValidationError) as error:
        raise fail(str(error), BAD_USE) from None
    except (NodeDied, NotReady) as error:
        raise fail(str(error)) from None
    except BaseExceptionGroup:
        raise
    except Exception as error:
        text, code = _of_a_call(error) or (plain_text(error), FAILED)
        if text is None:
            raise
        raise fail(text, code) from None


def reader_has_gone() -> typer.Exit:
    """The reader of our output has gone (``| head``), so there is nobody to report it to.

    What is still buffered goes nowhere, or the interpreter would complain at its end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    return typer.Exit(FAILED)


def fail(text: str, code: int = FAILED) -> typer.Exit:
    """Print *text* on standard error; the caller raises what this returns."""
    typer.echo(f"rmqemu: {text}", err=True)
    return typer.Exit(code)


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
