"""``watch``: follows a topic like ``tail -f``, as nobody.

One held pull a queue: a message is shown as soon as it is stored.  A broker that does not
answer is waited for, and queues that are new are followed from their first message on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import trio
import typer

from emulator.cli.consume import a_reader, print_stored
from emulator.cli.errors import say
from emulator.cli.line_format import short_line
from emulator.cli.positions import PLACES, TIMES, Position, position
from emulator.cli.printer import AsJsonLines, Format, Key, Printer, Tags, line_of
from emulator.cli.shared import NAMESRV, Namesrv
from emulator.cluster.admin import AdminError, NotFound, admin_over_tcp
from emulator.cluster.stopping import stop_on_signal
from emulator.net.plain_nursery import plain_nursery

if TYPE_CHECKING:
    from emulator.cluster.topic_reading import QueueSpan, TopicReader
    from protocol.queues import MessageQueue

HOLD_MS = 15_000  # DefaultMQPushConsumerImpl.BROKER_SUSPEND_MAX_TIME_MILLIS
LOOK_FOR_QUEUES_S = 5.0
TRY_AGAIN_S = 1.0


def watch(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    where: Annotated[
        str, typer.Option("--from", metavar=PLACES, help=f"Where to start.  {TIMES}.")
    ] = "latest",
    tags: Tags = "*",
    key: Key = "",
    form: Format = "",
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Follow a topic like tail -f, until Ctrl-C.  No group is made, no message is consumed."""
    now_ms = int(time.time() * 1000)
    start = position(where, "--from", now_ms)
    printer = Printer(line_of(form, short_line, as_json=as_json), key=key)
    trio.run(_watch, printer, topic, tags, start, namesrv, now_ms)
    if printer.error:
        raise printer.error


async def _watch(
    printer: Printer, topic: str, tags: str, start: Position, namesrv: str, now_ms: int
) -> None:
    async with admin_over_tcp(namesrv) as admin, plain_nursery() as nursery:
        nursery.start_soon(stop_on_signal, printer.done)
        reader = a_reader(admin, topic, tags)
        spans = await reader.spans()
        if start.where != "last":
            starts = await reader.starts(spans, start.where, start.at_ms)
            await print_stored(printer, reader.stored(spans, starts))
        nursery.start_soon(_Watch(printer, reader, now_ms).run, spans)
        await printer.done.wait()


class _Watch:
    """The queues that are followed; *began_ms* is when."""

    def __init__(self, printer: Printer, reader: TopicReader, began_ms: int) -> None:
        self._printer = printer
        self._reader = reader
        self._began_ms = began_ms
        self._spans: dict[MessageQueue, QueueSpan] = {}
        self._silent: set[str] = set()  # brokers that do not answer, by name

    async def run(self, spans: list[QueueSpan]) -> None:
        """Follow *spans* from their ends, and queues that come to be from when this began."""
        async with trio.open_nursery() as nursery:
            for span in spans:
                self._spans[span.queue] = span
                nursery.start_soon(self._follow, span.queue, span.end)
            while True:
                await trio.sleep(LOOK_FOR_QUEUES_S)
                for queue, start in (await self._new_queues()).items():
                    nursery.start_soon(self._follow, queue, start)

    async def _new_queues(self) -> dict[MessageQueue, int]:
        """Where to start with each; of the known ones the brokers' addresses are noted."""
        try:
            spans = await self._reader.spans()
            new = [span for span in spans if span.queue not in self._spans]
            starts = await self._reader.starts(new, "time", self._began_ms)
        except AdminError:
            return {}  # who follows the queues notices it, too
        self._spans |= {span.queue: span for span in spans}
        return {span.queue: start for span, start in zip(new, starts, strict=True)}

    async def _follow(self, queue: MessageQueue, offset: int) -> None:
        while not self._printer.done.is_set():
            hold_ms = 0 if queue.broker_name in self._silent else HOLD_MS
            try:
                pulled = await self._reader.pull(self._spans[queue], offset, hold_ms=hold_ms)
            except NotFound as error:
                self._printer.fail(error)
                return
            except AdminError as error:
                self._note_silence(queue.broker_name, str(error))
                await trio.sleep(TRY_AGAIN_S)
                continue
            self._note_answer(queue.broker_name)
            offset = pulled.next_offset
            for message in filter(self._printer.is_asked_for, pulled.messages):
                if not self._printer.done.is_set():
                    self._printer.print(message)

    def _note_silence(self, broker: str, why: str) -> None:
        if broker not in self._silent:
            self._silent.add(broker)
            say(f"{broker} does not answer; trying again every second ({why})")

    def _note_answer(self, broker: str) -> None:
        if broker in self._silent:
            self._silent.discard(broker)
            say(f"{broker} answers again")
