"""An application under trio: it counts the pieces in stock."""

from __future__ import annotations

import trio

from rocketmq_emulator import ClientProcess, MessageExt, PushConsumer


class Stock:
    """Adds up deliveries by article."""

    def __init__(self) -> None:
        self.pieces: dict[str, int] = {}

    async def run(self, namesrv: str, process: ClientProcess | None = None) -> None:
        """Read deliveries until the task is cancelled."""
        async with PushConsumer(
            self._deliver,
            {"deliveries": "*"},
            process=process,
            namesrv=namesrv,
            group="stock",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
        ):
            await trio.sleep_forever()

    async def _deliver(self, deliveries: list[MessageExt]) -> None:
        for delivery in deliveries:
            pieces = int(delivery.body)  # a body that is not a number is retried
            self.pieces[delivery.keys] = self.pieces.get(delivery.keys, 0) + pieces
