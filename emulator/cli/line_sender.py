"""Sends what a source gives, one message after the other, at a rate; and counts.

A signal ends the reading of the source at once, but never a send: what is under way is
acknowledged or refused, so the counts are true.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from emulator.cli.errors import BadUse
from emulator.cli.payloads import KeyedLines
from emulator.cli.shared import show_json
from emulator.client import ClientError, Message, MessageQueue, Producer
from protocol.message import BadProperty

if TYPE_CHECKING:
    from emulator.cli.sending_progress import SendingProgress
    from emulator.client import SendResult


class MessageShape(msgspec.Struct, frozen=True, kw_only=True):
    """What the messages of one command have in common."""

    topic: str
    tag: str = ""
    key: str = ""
    keyed: Any = None  # KeyedLines: each line has a key of its own
    properties: dict[str, str] = {}
    delay: int = 0

    def __post_init__(self) -> None:
        self.message(b"a body")  # what is wrong is noticed before anything is sent

    def message(self, line: bytes) -> Message:
        """Raises ``BadUse`` for a tag, a key or a property that cannot be."""
        key, body = self.key or None, line
        if isinstance(self.keyed, KeyedLines):
            key, body = self.keyed.split(line)
        try:
            message = Message(self.topic, body, self.tag or None, key, delay_level=self.delay)
        except ValueError as error:
            raise BadUse(str(error)) from None
        for name, value in self.properties.items():
            try:
                message.put_user_property(name, value)
            except BadProperty as error:
                raise BadUse(f"--property {name}={value}: {error}") from None
        return message


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent where, and how fast."""

    shape: MessageShape
    file: str
    count: int  # 0: all
    size: int
    is_made_up: bool
    per_second: float  # 0: as fast as it goes
    queue: str  # "ID" or "BROKER:ID"; empty: all queues in turn
    as_json: bool


class Sent(msgspec.Struct):
    """What became of the lines so far."""

    read: int = 0
    empty: int = 0
    acknowledged: int = 0


class LineSender:
    """Does one job with one producer."""

    def __init__(
        self, producer: Producer, job: Job, sent: Sent, progress: SendingProgress
    ) -> None:
        self._producer = producer
        self._job = job
        self._sent = sent
        self._progress = progress
        self._queue: MessageQueue | None = None
        self._began_s = 0.0

    async def send_all(self, batches: AsyncGenerator[list[bytes]], stopped: trio.Event) -> None:
        """Until the source or the count ends, or *stopped* is set."""
        self._queue = await self._find_queue()
        self._began_s = trio.current_time()
        give, take = trio.open_memory_channel[list[bytes]](0)
        reading = trio.CancelScope()

        async def read() -> None:
            with reading:
                async with give, aclosing(batches):
                    async for batch in batches:
                        await give.send(batch)

        async def end_reading() -> None:
            await stopped.wait()
            reading.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(end_reading)
            async with take:
                async for batch in take:
                    if await self._send_batch(batch, stopped):
                        break
            nursery.cancel_scope.cancel()

    async def _send_batch(self, batch: list[bytes], stopped: trio.Event) -> bool:
        """True when this was the last one."""
        for line in batch:
            await self._wait_turn(stopped)
            if stopped.is_set() or self._is_enough:
                return True
            self._sent.read += 1
            if line:
                await self._send(line)
            else:
                self._sent.empty += 1
        return self._is_enough

    async def _wait_turn(self, stopped: trio.Event) -> None:
        if self._job.per_second:
            due_s = self._began_s + self._sent.acknowledged / self._job.per_second
            with trio.move_on_at(due_s):
                await stopped.wait()

    @property
    def _is_enough(self) -> bool:
        return bool(self._job.count) and self._sent.acknowledged >= self._job.count

    async def _send(self, line: bytes) -> None:
        try:
            message = self._job.shape.message(line)
            result = await self._producer.send(message, queue=self._queue)
        except (ClientError, BadUse) as error:
            raise self._with_line(error) from error
        self._sent.acknowledged += 1
        if self._job.as_json:
            show_json(as_value(result))
        self._progress.show(self._sent.acknowledged)

    def _with_line(self, error: Exception) -> Exception:
        what = "message" if self._job.is_made_up else "line"
        reason = str(error).split("\n", 1)[0]
        before = f"{self._sent.acknowledged:,} were sent before it"
        return type(error)(f"{what} {self._sent.read:,}: {reason} ({before})")

    async def _find_queue(self) -> MessageQueue | None:
        """The queue that the job names.  Raises ``BadUse``."""
        wanted = self._job.queue
        if not wanted:
            return None
        broker, _, number = wanted.rpartition(":")
        queues = await self._producer.publish_queues(self._job.shape.topic)
        found = [
            queue
            for queue in queues
            if str(queue.queue_id) == number and broker in ("", queue.broker_name)
        ]
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"{q.broker_name}:{q.queue_id}" for q in found or queues)
        if found:
            raise BadUse(f"--queue {wanted} is on {len(found)} brokers: choose one of {names}")
        raise BadUse(f"--queue {wanted}: {self._job.shape.topic} has {names}")


def as_value(result: SendResult) -> dict[str, Any]:
    """By the names that ``consume`` gives the same things."""
    return {
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "msg_id": result.msg_id,
        "offset_msg_id": result.offset_msg_id,
        "status": result.status,
    }
