"""A push consumer that keeps running while brokers restart, and the messages it received."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.protocol.messages.message import MessageExt

IMPATIENT: dict[str, Any] = {
    "first_pull_delay_ms": 10,
    "pull_error_delay_ms": 50,
    # A restarted broker has no members until their next heartbeats.
    "heartbeat_interval_ms": 500,
    "heartbeat_first_ms": 500,
}


class RecordingConsumer:
    """Records the bodies of received messages."""

    def __init__(self) -> None:
        self.received: set[bytes] = set()
        self.deliveries = 0
        self._missing: set[bytes] = set()
        self._complete = trio.Event()

    async def listen(self, messages: list[MessageExt]) -> None:
        for message in messages:
            self.deliveries += 1
            self.received.add(message.body)
            self._missing.discard(message.body)
        if not self._missing:
            self._complete.set()

    async def wait_received(self, bodies: set[bytes], within_s: float) -> set[bytes]:
        """Wait for *bodies*; return those not received in time."""
        self._missing = bodies - self.received
        self._complete = trio.Event()
        if self._missing:
            with trio.move_on_after(within_s):
                await self._complete.wait()
        return self._missing


@asynccontextmanager
async def a_recording_consumer(
    cluster: ProcessCluster, topics: Iterable[str], group: str = "recorder"
) -> AsyncIterator[RecordingConsumer]:
    """A running member of *group*, which consumes from the first message on."""
    consumer = RecordingConsumer()
    async with PushConsumer(
        consumer.listen,
        dict.fromkeys(topics, "*"),
        namesrv=cluster.namesrv,
        group=group,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        **IMPATIENT,
    ):
        yield consumer
