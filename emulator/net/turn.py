"""One turn of a ``Remoting``: a unit of work whose writes are sent together.

A turn handles one read (many frames), or the timers that are due, or the block of
``with remoting.batch():``.  Nothing waits in it.  At its end the news of the rung bells are
delivered, and then every connection that has queued frames sends them, once: so a producer's
reply and the reply to a held pull are sent together, and a batch of ten messages resumes a held
pull with ten messages.  Actions deferred with ``at_end`` run last: one flush of the log for
all messages that the turn has stored.

Frames written outside of any turn are sent at once, or by ``end_soon``: a client's
sends of one pass of the scheduler are sent together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import WallClock

# (number of the newest held call at that time, news)
PendingNews: TypeAlias = list[tuple[int, Any]]


class Flushable(Protocol):
    """The part of a connection that a turn uses."""

    def flush(self) -> None:
        """Send all queued frames.  Called inside a turn only."""
        ...


class Turn:
    """A context manager that nests: only the outermost block begins and ends the turn.

    ``now_ms`` is the wall time at which it began.  ``dirty`` are the connections that have
    queued frames; ``rung`` collects news by bell for ``deliver``, which ``Bells`` sets.
    ``end_soon`` is called when a connection became dirty outside of a turn.
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
        """Call *action* once when this turn ends; outside of a turn, at once."""
        if self.depth:
            self._deferred_actions[action] = None
        else:
            action()

    def end_now(self) -> None:
        """Send what was written outside of any turn; inside a turn, no effect."""
        with self:
            pass

    def __enter__(self) -> int:
        """Begin or join a turn; returns the wall time at which it began, in ms."""
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
        """Repeat until nothing is left: resumed calls ring bells, and broken streams end calls."""
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
