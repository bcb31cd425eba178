"""``consume``: prints messages as a member of a group, one line each."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import trio
import typer

from emulator.cli.errors import BadUse, fail, plain_errors
from emulator.cli.shared import NAMESRV, Namesrv
from emulator.client import PushConsumer, PushConsumerConfig
from emulator.cluster.admin import admin_over_tcp
from emulator.cluster.stopping import stop_on_signal
from emulator.net.plain_nursery import plain_nursery

if TYPE_CHECKING:
    from protocol.bodies.groups import ConsumeFromWhere
    from protocol.message import MessageExt

WHERE: dict[str, ConsumeFromWhere] = {
    "first": "CONSUME_FROM_FIRST_OFFSET",
    "last": "CONSUME_FROM_LAST_OFFSET",
}


def consume(
    topic: Annotated[str, typer.Option(help="What to consume.")],
    group: Annotated[str, typer.Option(help="As a member of this group.")] = "rmqemu-consume",
    tags: Annotated[str, typer.Option(help="Only these: TagA || TagB.")] = "*",
    count: Annotated[int, typer.Option(min=0, help="End after so many; 0: never.")] = 0,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for them; 0: ever.")] = 0,
    where: Annotated[
        str, typer.Option("--from", metavar="first|last", help="Where a new group starts.")
    ] = "first",
    namesrv: Namesrv = NAMESRV,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a message.")] = False,
) -> None:
    """Print messages."""
    with plain_errors():
        if where not in WHERE:
            raise BadUse(f"--from is first or last, not {where!r}")
        # One at a time: lines come in the order of their queues.
        config = PushConsumerConfig(
            group=group, namesrv=namesrv, consume_from=WHERE[where], consume_threads_max=1
        )
        printer = Printer(count, as_json=as_json)
        trio.run(_consume, printer, {topic: tags}, config, wait)
        if printer.cut:
            raise printer.cut
        if count and printer.printed < count:
            raise fail(f"only {printer.printed:,} of {count:,} came within {wait:g} s")


class Printer:
    """Prints messages; those after the last one wanted are never acknowledged."""

    def __init__(self, count: int, *, as_json: bool) -> None:
        self.printed = 0
        self.done = trio.Event()
        self.cut: BrokenPipeError | None = None  # raised here it would only mean "again later"
        self._count = count
        self._as_json = as_json

    async def __call__(self, messages: list[MessageExt]) -> None:
        """The listener: returns when all are printed, never for those after the last."""
        for message in messages:
            if self.done.is_set():
                await trio.sleep_forever()
            self._print(self._line(message))
            if self.cut:
                await trio.sleep_forever()

    def _print(self, line: bytes) -> None:
        try:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            self.cut = error
            self.done.set()
            return
        self.printed += 1
        if self.printed == self._count:
            self.done.set()

    def _line(self, message: MessageExt) -> bytes:
        return msgspec.json.encode(as_value(message)) if self._as_json else message.body


def as_value(message: MessageExt) -> dict[str, Any]:
    """A body that is no text comes as base64."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "msg_id": message.uniq_key or message.msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "reconsume_times": message.reconsume_times,
        "born_ms": message.born_timestamp,
        "stored_ms": message.store_timestamp,
        **body,
    }


async def _consume(
    printer: Printer, topics: dict[str, str], config: PushConsumerConfig, wait_s: float
) -> None:
    async with admin_over_tcp(config.namesrv) as admin:
        for topic in topics:
            await admin.route(topic)  # a consumer would wait for a topic that may never be
    async with plain_nursery() as nursery:
        nursery.start_soon(stop_on_signal, printer.done)
        with trio.move_on_after(wait_s or float("inf")):
            async with PushConsumer(printer, topics, config):
                await printer.done.wait()
