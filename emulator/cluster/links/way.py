"""One way of a stream that a fault holds up: what waits, and when it may leave.

Bytes, the end of the stream and its reset all wait in one row: whoever is behind a partition
learns nothing, not even that the other side has died.  Time is an argument.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Literal, NamedTuple, TypeAlias

from emulator.cluster.links.effects import Effects

End: TypeAlias = Literal["eof", "reset"]


class Waiting(NamedTuple):
    """Bytes that leave together, or the end of the stream."""

    due_s: float
    what: bytes | End


class Way:
    """From one end of a stream to the other, under *effects* that may change."""

    def __init__(self, effects: Effects, rng: random.Random) -> None:
        self.effects = effects  # as they are now; ``apply`` changes them
        self.held_bytes = 0
        self._rng = rng
        self._row: deque[Waiting] = deque()

    @property
    def is_free(self) -> bool:
        """Need nothing wait, and does nothing?"""
        return not self._row and self.effects.passes_all

    def put(self, data: bytes, now_s: float) -> None:
        """Bytes that were read now, behind all that wait."""
        size = self.effects.piece_bytes_max() or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._add(piece, self.effects.due_s(len(piece), now_s, self._rng))
            self.held_bytes += len(piece)

    def end(self, how: End, now_s: float) -> None:
        """Nothing comes any more; the other side learns it when it has all that was before."""
        due_s = now_s if self.effects.passes_all else self.effects.due_s(0, now_s, self._rng)
        self._add(how, due_s)

    def apply(self, effects: Effects, now_s: float) -> None:
        """*effects* hold from now on; what waited for a bandwidth that is gone may leave."""
        was_narrow, self.effects = self.effects.piece_bytes_max(), effects
        if effects.passes_all or (was_narrow and not effects.piece_bytes_max()):
            self._row = deque(
                waiting._replace(due_s=min(waiting.due_s, now_s)) for waiting in self._row
            )

    def next_due_s(self) -> float | None:
        """When ``take`` gives something; None while nothing waits, or nothing passes."""
        return self._row[0].due_s if self._row and not self.effects.is_shut else None

    def take(self, now_s: float) -> bytes | End | None:
        """What leaves now, all bytes that are due together; None if nothing does."""
        pieces: list[bytes] = []
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            what = self._row[0].what
            if isinstance(what, str):
                if pieces:
                    break
                self._row.popleft()
                return what
            self._row.popleft()
            self.held_bytes -= len(what)
            pieces.append(what)
        return b"".join(pieces) if pieces else None

    def _add(self, what: bytes | End, due_s: float) -> None:
        if self._row:  # order is kept, whatever the draws say
            due_s = max(due_s, self._row[-1].due_s)
        self._row.append(Waiting(due_s, what))
