"""An application with asyncio: it writes a mail for each paid order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rocketmq_emulator.aio import MessageExt, PushConsumer


class Mailing:
    """*send_mail* gets the customer and a text; if it raises, the order is delivered again."""

    def __init__(self, namesrv: str, send_mail: Callable[[str, str], Awaitable[None]]) -> None:
        self._namesrv = namesrv
        self._send_mail = send_mail

    async def run(self) -> None:
        """Read orders until the task is cancelled."""
        async with PushConsumer(
            self._write,
            {"orders": "paid"},
            namesrv=self._namesrv,
            group="mailing",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
        ):
            await asyncio.Event().wait()

    async def _write(self, orders: list[MessageExt]) -> None:
        for order in orders:
            await self._send_mail(order.keys, f"paid: {order.body.decode()}")
