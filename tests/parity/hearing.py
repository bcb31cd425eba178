"""Listeners that remember what they were given, and a way to wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import trio

from emulator.client.consumer.listeners import ConsumeContext, ConsumeResult
from protocol.message import MessageExt

HEARD_S_MAX = 40.0


class Heard(msgspec.Struct, frozen=True):
    """One delivery."""

    by: str
    message: MessageExt
    at_ms: float


class Ears:
    """All deliveries of one story, whoever got them."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self._more = trio.Event()

    def listener(
        self, name: str, refuses: Callable[[MessageExt], bool] = lambda message: False
    ) -> Callable[..., object]:
        """A listener called *name*; what it refuses comes back at the first delay level."""

        async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
            (message,) = messages
            self.heard.append(Heard(name, message, time.time() * 1_000))
            self._more.set()
            self._more = trio.Event()
            context.delay_level = 1
            return ConsumeResult.RECONSUME_LATER if refuses(message) else ConsumeResult.SUCCESS

        return listen

    async def wait_heard(self, count: int) -> list[MessageExt]:
        """The messages, in the order of their delivery, once there are *count*."""
        with trio.fail_after(HEARD_S_MAX):
            while len(self.heard) < count:
                await self._more.wait()
        return [delivery.message for delivery in self.heard]

    def by(self, name: str) -> list[MessageExt]:
        return [delivery.message for delivery in self.heard if delivery.by == name]
