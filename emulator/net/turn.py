"""One turn of an end of the protocol: what is done at once, and leaves together.

A turn is the handling of one read (many frames), or of the timers that are due, or what a
service puts into ``with remoting.batch():``.  Nothing waits in it.  At its end the bells
that were rung are delivered, and then every connection that has something to send sends
it, once: so a producer's reply and the wake-up of a consumer leave together, and a batch
of ten messages wakes a held pull with ten messages.  What was put off with ``at_end``
comes last: one flush of the log for all that the turn has stored.

What is written outside of any turn leaves at once, or ``end_soon`` sees to it: a client's
sends of one pass of the scheduler leave together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import WallClock

PendingNews: TypeAlias = list[
    tuple[int, Any]
]  # how many calls had been held by then, and the news


class Flushable(Protocol):
    """A connection, as far as a turn knows one."""

    def flush(self) -> None:
        """Send what was written.  It is called inside a turn only."""
        ...


class Turn:
    """A context manager that nests: only the outermost block begins and ends the turn.

    ``now_ms`` is the wall time at which it began.  ``dirty`` are the connections that have
    something to send; ``rung`` collects news by bell for ``deliver``, which whoever holds
    calls puts here.  ``end_soon`` is called when something became dirty outside of a turn.
    """

    __slots__ = (
        "_clock",
        "_deferred_actions",
        "deliver",
        "depth",
        "dirty",
        "end_soon",
        "now_ms",
        "rung",
    )

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self.depth = 0  # of nested blocks; 0: no turn
        self.now_ms = clock.now_ms()
        self.rung: dict[Hashable, PendingNews] = {}
        self.deliver: Callable[[dict[Hashable, PendingNews]], object] = dict.clear
        self.dirty: dict[Flushable, None] = {}
        self.end_soon: Callable[[], object] = self.end_now
        self._deferred_actions: dict[Callable[[], object], None] = {}

    def at_end(self, action: Callable[[], object]) -> None:
        """Call *action* when this turn ends, however often it is asked for; outside, at once."""
        if self.depth:
            self._deferred_actions[action] = None
        else:
            action()

    def end_now(self) -> None:
        """Carry out what was left outside of any turn; inside of one its end does."""
        with self:
            pass

    def __enter__(self) -> int:
        """Begin or join a turn; the wall time at which it began."""
        if not self.depth:
            self.now_ms = self._clock.now_ms()
        self.depth += 1
        return self.now_ms

    def __exit__(self, *_: object) -> None:
        try:
            if self.depth == 1 and (self.rung or self.dirty or self._deferred_actions):
                self._end()
        finally:
            self.depth -= 1

    def _end(self) -> None:
        """Who is woken may ring again, and a stream that breaks may wake somebody."""
        while self.rung or self.dirty or self._deferred_actions:
            while self.rung:
                rung, self.rung = self.rung, {}
                self.deliver(rung)
            dirty, self.dirty = self.dirty, {}
            for connection in dirty:
                connection.flush()
            if self._deferred_actions:
                put_off, self._deferred_actions = self._deferred_actions, {}
                for action in put_off:
                    action()
