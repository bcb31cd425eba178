"""Wall time, read off trio's clock.

trio's clock is the only clock: in the real worlds it runs, in the virtual one a test or
a scenario moves it.  A machine's wall time is trio time since the world began, plus the
epoch the world began at, plus that machine's own skew.
"""

from __future__ import annotations

import time

import trio


class WallClock:
    """One machine's reading of the time, in milliseconds since 1970."""

    def __init__(self, epoch_ms: int, began_s: float, skew_ms: int = 0) -> None:
        self._epoch_ms = epoch_ms
        self._began_s = began_s
        # Asked for every frame: trio.current_time() looks for its run anew each time.
        self._time_s = trio.lowlevel.current_clock().current_time
        self.skew_ms = skew_ms

    @classmethod
    def of_this_machine(cls) -> WallClock:
        """The real time; call it inside ``trio.run``."""
        return cls(time.time_ns() // 1_000_000, trio.current_time())

    def now_ms(self) -> int:
        passed_us = round((self._time_s() - self._began_s) * 1_000_000)
        return self._epoch_ms + passed_us // 1000 + self.skew_ms

    def trio_time(self, at_ms: int) -> float:
        """When, in trio's seconds, this machine's clock will show *at_ms*."""
        return self._began_s + (at_ms - self._epoch_ms - self.skew_ms) / 1000
