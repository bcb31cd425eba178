"""The sender of ``produce``: sends the bodies of a source one by one, at a rate, and counts them.

A source is an async generator of batches: lines of a file, or generated bodies.  It is read while
earlier batches are sent, so a slow pipe does not delay lines that have arrived.  A signal ends the
reading of the source at once, but never a send: each send in flight is acknowledged or refused, so
the counts are exact.
"""

from __future__ import annotations

import io
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import IO, TYPE_CHECKING, Any

import msgspec
import trio

from rocketmq_emulator.cli.messages.lines import bodies
from rocketmq_emulator.cli.options.errors import BadUse
from rocketmq_emulator.cli.options.shared import show_json
from rocketmq_emulator.cli.screens.progress_bar import DelayedProgressBar
from rocketmq_emulator.client import ClientError, Message, MessageQueue, Producer
from rocketmq_emulator.protocol.messages.message import BadProperty

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from rocketmq_emulator.client import SendResult


class MessageTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Topic, tag, key, properties and delay level of the messages of one command."""

    topic: str
    tag: str = ""
    key: str = ""
    keyed: Any = None  # KeyedLines: each line begins with its own key
    properties: dict[str, str] = {}
    delay: int = 0

    def __post_init__(self) -> None:
        self.message(b"a body")  # raises ``BadUse`` before anything is sent

    def message(self, line: bytes) -> Message:
        """The message for *line*.  Raises ``BadUse`` for an invalid tag, key or property."""
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


class SendJob(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to send, their source, queue, count and rate."""

    shape: MessageTemplate
    file: str
    count: int  # 0: all
    size: int
    is_generated: bool
    per_second: float  # 0: no limit
    queue: str  # "ID" or "BROKER:ID"; empty: all queues in turn
    as_json: bool


class SendCounts(msgspec.Struct):
    """How many lines were read, were empty and were acknowledged so far."""

    read: int = 0
    empty: int = 0
    acknowledged: int = 0


class LineSender:
    """Sends the messages of one ``SendJob`` with one producer."""

    def __init__(
        self, producer: Producer, job: SendJob, sent: SendCounts, progress: SendingProgress
    ) -> None:
        self._producer = producer
        self._job = job
        self._sent = sent
        self._progress = progress
        self._queue: MessageQueue | None = None
        self._began_s = 0.0

    async def send_all(self, batches: AsyncGenerator[list[bytes]], stopped: trio.Event) -> None:
        """Send until the source ends, the count is reached or *stopped* is set."""
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
        """True if no more batches are to be sent."""
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
            show_json(send_result_value(result))
        self._progress.show(self._sent.acknowledged)

    def _with_line(self, error: Exception) -> Exception:
        what = "message" if self._job.is_generated else "line"
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


def send_result_value(result: SendResult) -> dict[str, object]:
    """*result* for JSON, with the field names of ``consume --json``."""
    return {
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "msg_id": result.msg_id,
        "offset_msg_id": result.offset_msg_id,
        "status": result.status,
    }


# Sources of bodies --------------------------------------------------------------------


READ_BYTES = 64 * 1024
GENERATED_A_BATCH = 64


async def lines_of(file: IO[bytes]) -> AsyncGenerator[list[bytes]]:
    """Batches of the lines of *file* as they arrive, without line ends.

    The file is read in a thread.  Cancellation abandons the thread, which may be waiting
    for a terminal.
    """
    rest = b""
    while data := await trio.to_thread.run_sync(_some_of, file, abandon_on_cancel=True):
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        yield list(bodies(lines))
    if rest:
        yield list(bodies([rest]))


def _some_of(file: IO[bytes]) -> bytes:
    """The bytes of at most one read system call; empty at the end of *file*.

    It does not use the file's buffer: an abandoned thread would hold its lock for ever.
    """
    try:
        number = file.fileno()
    except io.UnsupportedOperation:
        return file.read(READ_BYTES)  # bytes in memory
    return os.read(number, READ_BYTES)


async def generated_bodies(count: int, size: int) -> AsyncGenerator[list[bytes]]:
    """Batches of *count* bodies of *size* bytes, numbered from 1.

    A *count* of 0 means without end; a *size* of 0 means the bare text.
    """
    number = 1
    while not count or number <= count:
        last = number + GENERATED_A_BATCH - 1
        if count:
            last = min(last, count)
        yield [generated_body(at, size) for at in range(number, last + 1)]
        number = last + 1


def generated_body(number: int, size: int) -> bytes:
    """``message 17 ....``, of *size* bytes."""
    text = f"message {number}".encode()
    if not size:
        return text
    return text[:size] if len(text) >= size else (text + b" ").ljust(size, b".")


class KeyedLines:
    """Splits ``A-17:two cups`` into key and body.  A line without the delimiter has no key."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()

    def split(self, line: bytes) -> tuple[str | None, bytes]:
        """The key and the body of *line*.  Raises ``BadUse`` if the key is not UTF-8."""
        key, found, body = line.partition(self._delimiter)
        if not found:
            return None, line
        try:
            return key.decode() or None, body
        except UnicodeDecodeError:
            raise BadUse(f"the key {key!r} is not UTF-8 text") from None


def properties_of(assignments: list[str]) -> Iterator[tuple[str, str]]:
    """Name and value of each ``NAME=VALUE``.  Raises ``BadUse``."""
    for text in assignments:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise BadUse(f"--property is NAME=VALUE, not {text!r}")
        yield name, value


def rate_of(text: str) -> float:
    """Messages per second in ``100`` or ``100/s``; 0 means no limit.  Raises ``BadUse``."""
    try:
        rate = float(text.removesuffix("/s") or "0")
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise BadUse(f"--rate is messages per second, such as 100 or 0.5, not {text!r}")
    return rate


# Progress -----------------------------------------------------------------------------


class SendingProgress(DelayedProgressBar):
    """``with SendingProgress(total) as progress``; a *total* of 0 means unknown."""

    def __init__(self, total: int, *, is_shown: bool) -> None:
        super().__init__(is_shown=is_shown)
        self._total = total or None

    def columns(self) -> list[ProgressColumn]:
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  # only for long work

        bar = [BarColumn()] if self._total else []
        return [TextColumn("{task.description}"), *bar]

    def show(self, sent: int) -> None:
        """Draw that *sent* messages were sent, if a draw is due."""
        if not self.is_time():
            return
        of = f" of {self._total:,}" if self._total else ""
        text = f"sent {sent:,}{of}, {sent / self.passed_s():,.0f}/s"
        self.draw(text, sent, self._total)
