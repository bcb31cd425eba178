"""One turn of an end of the protocol: what is done at once, and leaves together.

A turn is the handling of one read (many frames), or of the timers that are due, or what a
service puts into ``with remoting.batch():``.  Nothing waits in it.  At its end the bells
that were rung are delivered, and then every connection that has something to send sends
it, once: so a producer's reply and the wake-up of a consumer leave together, and a batch
of ten messages wakes a held pull with ten messages.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeAlias

Rung: TypeAlias = list[tuple[int, Any]]  # how many calls had been held by then, and the news


class Flushable(Protocol):
    """A connection, as far as a turn knows one."""

    def flush(self) -> None:
        """Send what was written."""
        ...


class Turn:
    """A context manager that nests: only the outermost block ends the turn.

    ``rung`` collects news by bell for *deliver*, which whoever holds calls puts here.
    """

    __slots__ = ("_dirty", "deliver", "depth", "rung")

    def __init__(self) -> None:
        self.depth = 0  # of nested blocks; 0: no turn
        self.rung: dict[Hashable, Rung] = {}
        self.deliver: Callable[[dict[Hashable, Rung]], object] = dict.clear
        self._dirty: dict[Flushable, None] = {}

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        try:
            if self.depth == 1:
                self._end()
        finally:
            self.depth -= 1

    def mark_dirty(self, connection: Flushable) -> None:
        """*connection* has something to send: at the end of the turn, or now if there is none."""
        if self.depth:
            self._dirty[connection] = None
        else:
            connection.flush()

    def _end(self) -> None:
        """Who is woken may ring again, and a stream that breaks may wake somebody."""
        while self.rung or self._dirty:
            while self.rung:
                rung, self.rung = self.rung, {}
                self.deliver(rung)
            dirty, self._dirty = self._dirty, {}
            for connection in dirty:
                connection.flush()
