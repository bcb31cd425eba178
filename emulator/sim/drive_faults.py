"""What can be wrong with a drive for a while: full, slow, or refusing to flush.

Each is a value with a tally, begun and ended at a drive at any time, in any order.  Of
several that hold at once the strictest decides: the least room, the slowest flush; and each
refuses by its own chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from emulator.sim.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random


class NoRoom(msgspec.Struct, frozen=True):
    """Only ``free_bytes`` more can be written, counted from when it begins.

    Whoever removes something has that room again.
    """

    free_bytes: int = 0

    def __post_init__(self) -> None:
        if self.free_bytes < 0:
            raise ValueError(f"free_bytes is a number from 0 on, not {self.free_bytes}")


class SlowFlushes(msgspec.Struct, frozen=True):
    """A flush takes at least ``flush_ms``, and what ``bytes_per_s`` makes of its size.

    A flush that is under way when this begins or ends does the rest at the new speed.
    """

    flush_ms: float = 0.0
    bytes_per_s: float = float("inf")

    def __post_init__(self) -> None:
        if not 0 <= self.flush_ms < float("inf"):
            raise ValueError(f"flush_ms is a number from 0 on, not {self.flush_ms}")
        if not self.bytes_per_s >= 1:
            raise ValueError(f"bytes_per_s is a number from 1 on, not {self.bytes_per_s}")


class FailingFlushes(msgspec.Struct, frozen=True):
    """A flush that ends while this holds is an error, with ``probability``.

    Nothing of it is on the platter then; who flushes again flushes all of it.
    """

    probability: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is a number from 0 to 1, not {self.probability}")


Trouble: TypeAlias = NoRoom | SlowFlushes | FailingFlushes
T = TypeVar("T", NoRoom, SlowFlushes, FailingFlushes)


class DriveFault(msgspec.Struct, eq=False):
    """Compared by identity: two equal ones may hold at once, and end one by one."""

    trouble: Trouble
    tally: Tally = msgspec.field(default_factory=Tally)
    used_bytes: int = 0  # of the drive, when it began


class DriveFaults:
    """Those that hold at one drive."""

    def __init__(self) -> None:
        self._held: list[DriveFault] = []

    def begin(self, fault: DriveFault, used_bytes: int) -> None:
        """*fault* holds from now on; so much was used when it began."""
        fault.used_bytes = used_bytes
        self._held.append(fault)

    def end(self, fault: DriveFault) -> None:
        """*fault* holds no more."""
        self._held.remove(fault)

    def bytes_max(self, bytes_max: int, wanted: int) -> int:
        """How much may be used in all; *wanted* is what somebody is about to use."""
        least = bytes_max
        for fault, trouble in self._of(NoRoom):
            room = fault.used_bytes + trouble.free_bytes
            least = min(least, room)
            fault.tally.add("refused a write", wanted > room)
        return least

    def flush_us(self, size: int, seek_ms: float, bytes_per_s: float) -> int:
        """How long a flush of *size* bytes takes at the speed that holds now."""
        for fault, trouble in self._of(SlowFlushes):
            seek_ms = max(seek_ms, trouble.flush_ms)
            bytes_per_s = min(bytes_per_s, trouble.bytes_per_s)
            fault.tally.add("slowed a flush")
        return round(seek_ms * 1_000 + size * 1_000_000 / bytes_per_s)

    def fails_flush(self, rng: Random) -> bool:
        """Does a flush that ends now fail?"""
        fails = False
        for fault, trouble in self._of(FailingFlushes):
            if trouble.probability >= 1 or rng.random() < trouble.probability:
                fault.tally.add("refused a flush")
                fails = True
        return fails

    def _of(self, kind: type[T]) -> Iterable[tuple[DriveFault, T]]:
        return [(f, f.trouble) for f in self._held if isinstance(f.trouble, kind)]
