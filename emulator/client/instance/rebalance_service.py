"""The loop that rebalances every consumer of an instance: now and then, and when woken.

Up to 5.1.4 every wake-up costs a full pass.  Since 5.2.0 two passes are at least a
second apart, and while something is not as it should be they are not further apart.

Upstream: RebalanceService, ServiceThread.wakeup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import trio

from emulator.releases import REBALANCE_PACED, Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.client.instance.interfaces import RegisteredConsumer
    from emulator.facts.clients import RebalanceCause


class RebalanceService:
    """One pass takes all *consumers* in turn."""

    def __init__(
        self,
        consumers: Mapping[str, RegisteredConsumer],
        release: Release,
        *,
        interval_ms: int,
        interval_ms_min: int,
    ) -> None:
        self._consumers = consumers
        self._is_paced = release >= REBALANCE_PACED
        self._interval_s = interval_ms / 1000
        self._interval_s_min = interval_ms_min / 1000
        self._woken = trio.Event()
        self._cause: RebalanceCause | None = None

    def wake(self, cause: RebalanceCause) -> None:
        """Ask for a pass.  Asked twice before it runs, it runs once, for the first *cause*.

        Asked while a pass runs, another one follows.
        """
        if self._cause is None:
            self._cause = cause
        self._woken.set()

    async def run(self) -> NoReturn:
        """Wait, pass, and so on, until cancelled."""
        wait_s = self._interval_s
        last_s = trio.current_time()
        while True:
            await self._wait_woken(wait_s)
            since_s = trio.current_time() - last_s
            if self._is_paced and since_s < self._interval_s_min:
                wait_s = self._interval_s_min - since_s
                continue
            balanced = await self._run_pass()
            last_s = trio.current_time()
            wait_s = self._interval_s
            if self._is_paced and not balanced:
                wait_s = self._interval_s_min

    async def _wait_woken(self, timeout_s: float) -> None:
        with trio.move_on_after(timeout_s):
            await self._woken.wait()
        if self._woken.is_set():
            self._woken = trio.Event()

    async def _run_pass(self) -> bool:
        cause, self._cause = self._cause or "timer", None
        balanced = True
        for consumer in list(self._consumers.values()):
            balanced = await consumer.rebalance(cause) and balanced
        return balanced
