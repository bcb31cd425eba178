"""An application under trio: it counts what is in stock."""

from __future__ import annotations

import trio

from rocketmq_emulator import ClientProcess, MessageExt, PushConsumer


class Stock:
    """Deliveries are added up by article."""

    def __init__(self) -> None:
        self.pieces: dict[str, int] = {}

    async def run(self, namesrv: str, process: ClientProcess | None = None) -> None:
        """Read deliveries until it is cancelled."""
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
            pieces = int(delivery.body)  # what is no number comes again later, by and by
            self.pieces[delivery.keys] = self.pieces.get(delivery.keys, 0) + pieces
