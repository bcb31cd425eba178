"""A push consumer that lives through everything, and what it has heard."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio

from emulator.client.consumer.push_consumer import PushConsumer

IMPATIENT = {
    "first_pull_delay_ms": 10,
    "pull_error_delay_ms": 50,
    # A broker that was killed has forgotten its members until they say that they are there.
    "heartbeat_interval_ms": 500,
    "heartbeat_first_ms": 500,
}


class Audience:
    """Bodies heard at least once."""

    def __init__(self) -> None:
        self.heard: set[bytes] = set()
        self.deliveries = 0
        self._missing: set[bytes] = set()
        self._complete = trio.Event()

    async def listen(self, messages) -> None:
        for message in messages:
            self.deliveries += 1
            self.heard.add(message.body)
            self._missing.discard(message.body)
        if not self._missing:
            self._complete.set()

    async def wait_heard(self, bodies, within_s) -> set[bytes]:
        """What of *bodies* is still missing after that time; nothing, if all is well."""
        self._missing = bodies - self.heard
        self._complete = trio.Event()
        if self._missing:
            with trio.move_on_after(within_s):
                await self._complete.wait()
        return self._missing


@asynccontextmanager
async def an_audience(cluster, topics, group="audience"):
    """A member of a group that starts with the first message there is."""
    audience = Audience()
    async with PushConsumer(
        audience.listen,
        dict.fromkeys(topics, "*"),
        namesrv=cluster.namesrv,
        group=group,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        **IMPATIENT,
    ):
        yield audience
