"""A push consumer that runs through all restarts, and the messages it received."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio

from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer

IMPATIENT = {
    "first_pull_delay_ms": 10,
    "pull_error_delay_ms": 50,
    # A restarted broker has no members until their next heartbeats.
    "heartbeat_interval_ms": 500,
    "heartbeat_first_ms": 500,
}


class RecordingConsumer:
    """Bodies received at least once."""

    def __init__(self) -> None:
        self.received: set[bytes] = set()
        self.deliveries = 0
        self._missing: set[bytes] = set()
        self._complete = trio.Event()

    async def listen(self, messages) -> None:
        for message in messages:
            self.deliveries += 1
            self.received.add(message.body)
            self._missing.discard(message.body)
        if not self._missing:
            self._complete.set()

    async def wait_received(self, bodies, within_s) -> set[bytes]:
        """Those of *bodies* that were not received within that time."""
        self._missing = bodies - self.received
        self._complete = trio.Event()
        if self._missing:
            with trio.move_on_after(within_s):
                await self._complete.wait()
        return self._missing


@asynccontextmanager
async def a_recording_consumer(cluster, topics, group="recorder"):
    """A running member of *group*, which starts at the first message."""
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
