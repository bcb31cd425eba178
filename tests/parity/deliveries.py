"""Listeners that record their deliveries, and a way to wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import trio

from rocketmq_emulator.client.consumer.group.listeners import ConsumeContext, ConsumeResult
from rocketmq_emulator.protocol.messages.message import MessageExt

DELIVERY_S_MAX = 40.0


class Delivery(msgspec.Struct, frozen=True):
    """One message given to the listener called ``by``."""

    by: str
    message: MessageExt
    at_ms: float


class Deliveries:
    """All deliveries to all listeners of one test."""

    def __init__(self) -> None:
        self.all: list[Delivery] = []
        self._more = trio.Event()

    def listener(
        self, name: str, refuses: Callable[[MessageExt], bool] = lambda message: False
    ) -> Callable[..., object]:
        """A listener called *name*; a refused message is sent back with delay level 1."""

        async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
            (message,) = messages
            self.all.append(Delivery(name, message, time.time() * 1_000))
            self._more.set()
            self._more = trio.Event()
            context.delay_level = 1
            return ConsumeResult.RECONSUME_LATER if refuses(message) else ConsumeResult.SUCCESS

        return listen

    async def wait_count(self, count: int) -> list[MessageExt]:
        """Wait for *count* messages; return them in the order of their delivery."""
        with trio.fail_after(DELIVERY_S_MAX):
            while len(self.all) < count:
                await self._more.wait()
        return [delivery.message for delivery in self.all]

    def by(self, name: str) -> list[MessageExt]:
        return [delivery.message for delivery in self.all if delivery.by == name]
