"""A listener as a plan describes it: it takes time, fails, raises and hangs by chance."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import trio

from emulator.client import ConsumeResult
from scenarios.plan import ListenerPlan

if TYPE_CHECKING:
    from protocol.message import MessageExt


class PlannedFailure(Exception):
    """The plan wants this listener to raise."""


class PlannedListener:
    """``listen`` is what a consumer is given; *rng* draws what each call does."""

    def __init__(self, plan: ListenerPlan, rng: random.Random) -> None:
        self._plan = plan
        self._rng = rng
        self._has_chances = bool(plan.fails or plan.raises or plan.hangs)
        self.under_way = 0

    async def listen(self, messages: list[MessageExt]) -> ConsumeResult:
        """Take a while, then succeed or not."""
        del messages
        self.under_way += 1
        try:
            return await self._act()
        finally:
            self.under_way -= 1

    async def _act(self) -> ConsumeResult:
        plan, chance = self._plan, self._rng.random
        if self._has_chances and chance() < plan.hangs:
            await trio.sleep(plan.hang_ms / 1_000)
        await trio.sleep((plan.takes_ms + chance() * plan.jitter_ms) / 1_000)
        if self._has_chances and chance() < plan.raises:
            raise PlannedFailure("the scenario wants this listener to raise")
        if self._has_chances and chance() < plan.fails:
            return ConsumeResult.RECONSUME_LATER
        return ConsumeResult.SUCCESS
