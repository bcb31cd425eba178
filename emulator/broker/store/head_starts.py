"""Messages that came earlier than by the wall clock, because time was advanced: by how much.

What a listener sends back is reckoned from the time its message would have come: after ten
hours, advanced in one step or in many, it has been retried as often.  So a message
has a head start by the place where it lies in the log, until enough others have one; it grows
when time is advanced again while a listener has the message.
"""

from __future__ import annotations

MESSAGES_MAX = 100_000  # the oldest are forgotten: what is sent back then waits its whole delay


class HeadStarts:
    """By position in the log, in milliseconds."""

    def __init__(self) -> None:
        self._ms: dict[int, int] = {}
        self._advanced_ms = 0  # in all

    def advance(self, ms: int) -> None:
        """Time was advanced by *ms*."""
        self._advanced_ms += ms

    def give(self, position: int, ms: int) -> None:
        """The message at *position* came so much early; 0: it did not."""
        if ms > 0:
            self._ms[position] = ms - self._advanced_ms
            if len(self._ms) > MESSAGES_MAX:
                del self._ms[next(iter(self._ms))]

    def of(self, position: int) -> int:
        """How much early the message at *position* came."""
        found_ms = self._ms.get(position)
        return 0 if found_ms is None else found_ms + self._advanced_ms

    def clear(self) -> None:
        """No message came early."""
        self._ms.clear()
