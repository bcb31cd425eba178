"""Which offsets a broker, or a broadcasting member's file, may have told since when.

Offsets are read a while after they were written, and a process that begins again has those that
were written last: so the lowest one of a span of time counts, not the newest.
"""

from __future__ import annotations

from collections import deque

OFFSETS_MAX = 256  # that are remembered of one reader in one queue
WRITTEN_EVERY_US = 1_000_000  # is remembered of a member that keeps its offsets itself


class ToldOffsets:
    """Of one reader in one queue, the last ``OFFSETS_MAX``.  Times are ``mono_us``."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: deque[tuple[int, int]] = deque(maxlen=OFFSETS_MAX)  # when, offset

    def __bool__(self) -> bool:
        """There is one."""
        return bool(self._known)

    @property
    def first_us(self) -> int | None:
        """When the oldest one was written."""
        return self._known[0][0] if self._known else None

    @property
    def is_full(self) -> bool:
        """Older ones may be forgotten."""
        return len(self._known) == OFFSETS_MAX

    def add(self, offset: int, now_us: int) -> None:
        """*offset* is the newest one."""
        self._known.append((now_us, offset))

    def is_due(self, now_us: int) -> bool:
        """The newest one is so old that the next is worth remembering."""
        return not self._known or now_us - self._known[-1][0] > WRITTEN_EVERY_US

    def lowest_since(self, since_us: int) -> int:
        """The lowest one that may have been told since then; 0 where that is unknown."""
        lowest: int | None = None
        for at_us, offset in reversed(self._known):
            lowest = offset if lowest is None else min(lowest, offset)
            if at_us <= since_us:
                return lowest
        return lowest if lowest is not None and self.is_full else 0

    def clear(self) -> None:
        """The queue begins at offset 0 again."""
        self._known.clear()
