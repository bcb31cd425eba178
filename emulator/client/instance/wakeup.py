"""A bell with one pending bit: rung twice it wakes once, rung early it is not lost."""

from __future__ import annotations

import trio


class Wakeup:
    """Waits that can be cut short.  Upstream: ServiceThread.wakeup, waitForRunning."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait_rung(self, timeout_s: float) -> bool:
        """Whether it rang; at once if it did since the last wait."""
        with trio.move_on_after(timeout_s):
            await self._event.wait()
        rung = self._event.is_set()
        if rung:
            self._event = trio.Event()
        return rung
