"""The loop that rebalances every consumer of an instance: now and then, and when woken.

Up to 5.1.4 every wake-up costs a full pass.  Since 5.2.0 two passes are at least a
second apart, and while something is not as it should be they are not further apart.

Upstream: RebalanceService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import trio

from emulator.releases import REBALANCE_PACED, Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.client.instance.members import RegisteredConsumer
    from emulator.client.instance.wakeup import Wakeup


class RebalanceService:
    """One pass takes all *consumers* in turn."""

    def __init__(
        self,
        consumers: Mapping[str, RegisteredConsumer],
        wakeup: Wakeup,
        release: Release,
        *,
        interval_ms: int,
        interval_ms_min: int,
    ) -> None:
        self._consumers = consumers
        self._wakeup = wakeup
        self._is_paced = release >= REBALANCE_PACED
        self._interval_s = interval_ms / 1000
        self._interval_s_min = interval_ms_min / 1000

    async def run(self) -> NoReturn:
        wait_s = self._interval_s
        last_s = trio.current_time()
        while True:
            await self._wakeup.wait_rung(wait_s)
            since_s = trio.current_time() - last_s
            if self._is_paced and since_s < self._interval_s_min:
                wait_s = self._interval_s_min - since_s
                continue
            balanced = await self._run_passes()
            last_s = trio.current_time()
            wait_s = self._interval_s
            if self._is_paced and not balanced:
                wait_s = self._interval_s_min

    async def _run_passes(self) -> bool:
        balanced = True
        for consumer in list(self._consumers.values()):
            balanced = await consumer.rebalance() and balanced
        return balanced
