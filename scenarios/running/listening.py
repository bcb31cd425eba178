"""A listener as a plan describes it: it takes time, fails, raises and hangs by chance."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from emulator.alarms import Alarm, TrioAlarm
from emulator.client import ConsumeResult
from scenarios.plan import ListenerPlan

if TYPE_CHECKING:
    from protocol.message import MessageExt


HEAD_BYTES = 64  # of a body: there a load writes its topic and the message's number


class PlannedFailure(Exception):
    """The plan wants this listener to raise."""


class PlannedListener:
    """``listen`` is what a consumer is given; *rng* draws what each call does.

    *now_ms* is the time since the load began.  Messages that always fail follow from what they
    hold and from *salt*, so that they fail wherever and whenever they come.  It waits with what
    *new_alarm* makes: in virtual time that costs less than a cancel scope.
    """

    def __init__(
        self,
        plan: ListenerPlan,
        rng: random.Random,
        now_ms: Callable[[], float],
        new_alarm: Callable[[], Alarm] = TrioAlarm,
        *,
        salt: str = "",
    ) -> None:
        self._plan = plan
        self._now_ms = now_ms
        self._rng = rng
        self._has_chances = bool(plan.fails or plan.raises or plan.hangs or plan.always_fails)
        self._salt = zlib.crc32(salt.encode())
        self._new_alarm = new_alarm
        self._free_alarms: list[Alarm] = []
        self.under_way = 0

    async def listen(self, messages: list[MessageExt]) -> ConsumeResult:
        """Take a while, then succeed or not."""
        self.under_way += 1
        try:
            return await self._act(messages)
        finally:
            self.under_way -= 1

    async def _act(self, messages: list[MessageExt]) -> ConsumeResult:
        plan, chance = self._plan, self._rng.random
        is_troubled = self._has_chances and self._is_its_time()
        if is_troubled and chance() < plan.hangs:
            await self._wait(plan.hang_ms)
        await self._wait(plan.takes_ms + chance() * plan.jitter_ms)
        if is_troubled and chance() < plan.raises:
            raise PlannedFailure("the scenario wants this listener to raise")
        if is_troubled and (chance() < plan.fails or any(map(self._always_fails, messages))):
            return ConsumeResult.RECONSUME_LATER
        return ConsumeResult.SUCCESS

    def _always_fails(self, message: MessageExt) -> bool:
        drawn = zlib.crc32(message.body[:HEAD_BYTES], self._salt) / 2**32
        return drawn < self._plan.always_fails

    def _is_its_time(self) -> bool:
        now_ms, until_ms = self._now_ms(), self._plan.until_ms
        return now_ms >= self._plan.from_ms and (until_ms is None or now_ms < until_ms)

    async def _wait(self, ms: float) -> None:
        alarm = self._free_alarms.pop() if self._free_alarms else self._new_alarm()
        await alarm.wait_until(trio.current_time() + ms / 1_000)
        self._free_alarms.append(alarm)  # one whose wait was cancelled is not used again
