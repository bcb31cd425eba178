"""Functions of the application that are called back: not in trio's thread, but in another.

They may wait, or use a client, without holding up all clients.  One runs at a time, in the
order in which what they tell of happened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

import trio

CallBack: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


class Callbacks:
    """Those of one process.  Used in trio's thread."""

    def __init__(self) -> None:
        self._waiting: list[CallBack] = []
        self._idle: trio.Event | None = None  # there while calls are made

    def soon(
        self, nursery: trio.Nursery, function: Callable[..., object], *arguments: object
    ) -> None:
        """Have ``function(*arguments)`` called; what it raises is logged."""
        self._waiting.append((function, arguments))
        if self._idle is None:
            self._idle = trio.Event()
            nursery.start_soon(self._run)

    async def wait_idle(self) -> None:
        """Until all have been called."""
        if self._idle is not None:
            await self._idle.wait()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await trio.to_thread.run_sync(_call_all, batch, abandon_on_cancel=True)
        assert self._idle is not None, "made by who started this"
        self._idle.set()
        self._idle = None


def _call_all(batch: list[CallBack]) -> None:
    for function, arguments in batch:
        try:
            function(*arguments)
        except Exception:
            logging.getLogger("rocketmq_emulator").exception("a callback raised")
