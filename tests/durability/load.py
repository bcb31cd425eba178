"""Producers that send without pauses, and a ledger of all acknowledged messages.

All forms of sending run at the same time, so a kill interrupts each of them.  A failed
send is no loss: its message was not acknowledged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

import trio

from rocketmq_emulator.client import SendResult
from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.errors.call_errors import SendError
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.protocol.messages.message import Message

TOPICS = ("orders", "payments", "logs")
QUEUES = 4
UNDER_WAY = 8
DELAYED_EVERY = 100
SEND_MS_MAX = 2_000


class Place(NamedTuple):
    topic: str
    queue_id: int
    offset: int


class Ledger:
    """The acknowledged messages: ``placed`` by queue offset, ``delayed`` by body."""

    def __init__(self) -> None:
        self.placed: dict[Place, tuple[str, bytes]] = {}
        self.delayed: dict[bytes, str] = {}
        self.failures = 0
        self._awaited: list[tuple[int, trio.Event]] = []

    def __len__(self) -> int:
        return len(self.placed) + len(self.delayed)

    def bodies(self) -> set[bytes]:
        return {body for _, body in self.placed.values()} | self.delayed.keys()

    def store(self, result: SendResult, messages: Sequence[Message]) -> None:
        """Record *messages*; their offsets are consecutive, the first is that of *result*."""
        for n, (msg_id, message) in enumerate(
            zip(result.msg_id.split(","), messages, strict=True)
        ):
            if message.delay_level:
                self.delayed[message.body] = message.topic
                continue
            place = Place(message.topic, result.queue.queue_id, result.queue_offset + n)
            assert place not in self.placed, f"two messages were acknowledged at {place}"
            self.placed[place] = msg_id, message.body
        for wanted, reached in self._awaited:
            if len(self) >= wanted:
                reached.set()

    async def wait_more(self, count: int) -> None:
        """Wait until *count* more messages are acknowledged."""
        awaited = len(self) + count, trio.Event()
        self._awaited.append(awaited)
        await awaited[1].wait()
        self._awaited.remove(awaited)


class Load:
    """Sends messages in all forms; a test calls ``pause`` while the broker is down."""

    def __init__(self, producer: Producer, chance: Random) -> None:
        self.ledger = Ledger()
        self._producer = producer
        self._chance = chance
        self._made = 0
        self._may_send = trio.Event()
        self.go_on()

    def pause(self) -> None:
        if self._may_send.is_set():
            self._may_send = trio.Event()

    def go_on(self) -> None:
        self._may_send.set()

    async def send_one_by_one(self) -> None:
        while True:
            message = self._a_message()
            await self._acknowledged(self._send, message)

    async def send_at_once(self) -> None:
        while True:
            await self._may_send.wait()
            messages = [self._a_message() for _ in range(UNDER_WAY)]
            begun = [
                (self._producer.start_send(message, timeout_ms=SEND_MS_MAX), message)
                for message in messages
            ]
            for sending, message in begun:
                await self._acknowledged(lambda _, s=sending: s.wait_sent(), message)

    async def send_batches(self) -> None:
        while True:
            topic = self._chance.choice(TOPICS)
            messages = [self._a_message(topic) for _ in range(self._chance.randint(1, 12))]
            await self._acknowledged(self._send_batch, *messages)

    async def send_delayed(self) -> None:
        """Send few: a killed broker delivers again all whose delivery it has not recorded."""
        while True:
            message = self._a_message()
            message.delay_level = 1
            await self._acknowledged(self._send, message)
            await self.ledger.wait_more(DELAYED_EVERY)

    def _a_message(self, topic: str | None = None) -> Message:
        self._made += 1
        size = self._chance.choice((0, 10, 100, 1_000, 6_000))
        body = b"%d " % self._made + self._chance.randbytes(size)
        return Message(topic or self._chance.choice(TOPICS), body)

    async def _acknowledged(
        self, send: Callable[..., Awaitable[SendResult]], *messages: Message
    ) -> None:
        await self._may_send.wait()
        try:
            result = await send(*messages)
        except SendError:
            self.ledger.failures += 1
        else:
            assert result.is_ok
            self.ledger.store(result, messages)

    async def _send(self, message: Message) -> SendResult:
        return await self._producer.send(message, timeout_ms=SEND_MS_MAX)

    async def _send_batch(self, *messages: Message) -> SendResult:
        return await self._producer.send_batch(messages, timeout_ms=SEND_MS_MAX)


@asynccontextmanager
async def a_load(cluster: RealWorld, chance: Random) -> AsyncIterator[Load]:
    """A load that runs until the block ends; sends in flight are then cancelled."""
    async with (
        Producer(namesrv=cluster.namesrv, group="load") as producer,
        cancelling_nursery() as nursery,
    ):
        load = Load(producer, chance)
        for way in (load.send_one_by_one, load.send_at_once, load.send_batches, load.send_delayed):
            nursery.start_soon(way)
        yield load
        nursery.cancel_scope.cancel()
