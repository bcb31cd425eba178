"""A program's main function under trio, which Ctrl-C ends in order and without a traceback.

    from rocketmq_emulator import run

    run(main, "127.0.0.1:9876")

``trio.run`` may raise KeyboardInterrupt in the middle of any task, the client's own among
them, and then Python prints where.  Here it comes only where ``main`` waits: its blocks end
as after any exception, so offsets are written and members leave their group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

INTERRUPTED = 130  # as shells say it: 128 and the signal's number

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def run(main: Callable[[*Arguments], Awaitable[T]], *arguments: *Arguments) -> T:
    """What ``main(*arguments)`` returns.  After Ctrl-C the program ends with exit code 130."""
    try:
        return trio.run(main, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)
    except BaseException as error:
        if not _is_interrupt(error):
            raise
    raise SystemExit(INTERRUPTED)


def _is_interrupt(error: BaseException) -> bool:
    """Ctrl-C alone: a nursery of the application's own puts it into a group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_interrupt, error.exceptions))
    return isinstance(error, KeyboardInterrupt)
