"""An alarm: what wakes the one task that waits for a moment which may be brought forward.

Loops of services wait with one instead of a cancel scope for every pause.  Under trio's own
clock there is nothing cheaper than a scope; a clock that moves time itself knows when it
rings, and wakes the task without raising anything in it (``emulator.sim.alarms``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio


class Alarm(Protocol):
    """One task's; times are trio's, in seconds."""

    async def wait_until(self, at_s: float) -> None:
        """Until *at_s*, or what it was brought forward to; ``inf``: only then.

        It always lets others have a turn.
        """
        ...

    async def wait_due(self, next_s: Callable[[], float]) -> None:
        """Until the time that *next_s* gives; it is asked again when that has come.

        For who waits for the first of many things, some of which are called off.
        """
        ...

    def ring_by(self, at_s: float) -> None:
        """Whoever waits now waits until *at_s* at most, as soon as possible if that is over."""
        ...


class TrioAlarm:
    """With a cancel scope for each wait: right under any clock."""

    def __init__(self) -> None:
        self._scope: trio.CancelScope | None = None

    async def wait_until(self, at_s: float) -> None:
        """As ``Alarm.wait_until``."""
        with trio.CancelScope(deadline=at_s) as self._scope:
            await trio.sleep_forever()
        self._scope = None

    async def wait_due(self, next_s: Callable[[], float]) -> None:
        """As ``Alarm.wait_due``."""
        await self.wait_until(next_s())
        while trio.current_time() < next_s():
            await self.wait_until(next_s())

    def ring_by(self, at_s: float) -> None:
        """As ``Alarm.ring_by``."""
        if self._scope is not None and at_s < self._scope.deadline:
            self._scope.deadline = at_s
