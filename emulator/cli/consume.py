"""``consume``: prints messages as a member of a group; with ``--peek`` as nobody.

A message counts as consumed when its line was written and flushed, not before: whatever
goes wrong with the output, the group gets it again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
import typer

from emulator.cli.errors import BadUse, fail, interrupted, say
from emulator.cli.line_format import body_line
from emulator.cli.positions import PLACES, TIMES, Position, position
from emulator.cli.printer import AsJsonLines, Format, Key, Printer, Tags, line_of
from emulator.cli.shared import NAMESRV, Namesrv
from emulator.client import PushConsumer, PushConsumerConfig
from emulator.cluster.admin import Admin, admin_over_tcp
from emulator.cluster.stopping import stop_on_signal
from emulator.cluster.topic_reading import TopicReader
from emulator.net.plain_nursery import plain_nursery
from protocol.bodies.groups import SubscriptionGroupConfig
from protocol.subscription import BadExpression

if TYPE_CHECKING:
    from protocol.message import MessageExt

GROUP = "rmqemu-consume"

Count = Annotated[int, typer.Option(min=0, help="End after so many messages; 0 = no limit.")]
Timeout = Annotated[
    float,
    typer.Option("--timeout", "--wait", min=0, help="End after so many seconds; 0 = no limit."),
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar=PLACES,
        show_default="earliest",
        help=f"Where to start, if the group has no offsets yet.  {TIMES}.",
    ),
]
Peek = Annotated[
    bool,
    typer.Option(
        "--peek",
        help="Print what is stored and end.  No group, no offsets: the broker is not changed.",
    ),
]


def consume(
    topic: Annotated[str, typer.Option(help="The topic.")],
    group: Annotated[
        str, typer.Option(show_default=GROUP, help="Consume as a member of this group.")
    ] = "",
    tags: Tags = "*",
    key: Key = "",
    count: Count = 0,
    timeout: Timeout = 0,
    where: From = "",
    peek: Peek = False,
    form: Format = "",
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Print messages, as a member of a consumer group.

    A message is consumed when it was printed.  Ends with --count, --timeout or Ctrl-C.
    """
    if peek and group:
        raise BadUse("--peek reads without a group: leave --group away")
    start = position(where or "earliest", "--from", int(time.time() * 1000))
    if peek and start.where == "last":
        raise BadUse(f"--peek ends where --from latest starts: use `rmqemu watch {topic}`")
    printer = Printer(line_of(form, body_line, as_json=as_json), key=key, count_max=count)
    wanted = Wanted(topic, tags, group or GROUP, start, is_start_given=bool(where))
    limit_s = timeout or float("inf")
    reads = _peek if peek else _consume
    was_interrupted = trio.run(reads, printer, wanted, namesrv, limit_s)
    if printer.error:
        raise printer.error
    if count and printer.printed < count:
        got = f"{printer.printed:,} of {count:,} messages"
        if was_interrupted:
            raise interrupted(f"stopped after {got}")
        raise fail(f"only {got} are there" if peek else f"only {got} came within {timeout:g} s")


class Wanted(msgspec.Struct, frozen=True):
    """What to read, as whom, and from where."""

    topic: str
    tags: str
    group: str
    start: Position
    is_start_given: bool


# As a member of a group ---------------------------------------------------------------------


async def _consume(printer: Printer, wanted: Wanted, namesrv: str, limit_s: float) -> bool:
    """Until enough were printed, or time is over; True after a signal."""
    async with admin_over_tcp(namesrv) as admin:
        await admin.route(wanted.topic)  # a consumer would wait for a topic that may never be
        await _place_group(admin, wanted)
    config = PushConsumerConfig(
        group=wanted.group,
        namesrv=namesrv,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        consume_threads_max=1,  # so that lines come in the order of their queues
    )

    async def listen(messages: list[MessageExt]) -> None:
        for message in messages:
            if printer.done.is_set():
                await trio.sleep_forever()  # so that it is never acknowledged
            if printer.is_asked_for(message):
                printer.print(message)
            if printer.error:
                await trio.sleep_forever()

    async with plain_nursery() as nursery:
        stopped = trio.Event()
        nursery.start_soon(stop_on_signal, stopped)
        nursery.start_soon(_pass_on, stopped, printer.done)
        with trio.move_on_after(limit_s):
            async with PushConsumer(listen, {wanted.topic: wanted.tags}, config):
                await printer.done.wait()
        return stopped.is_set()


async def _pass_on(event: trio.Event, to: trio.Event) -> None:
    await event.wait()
    to.set()


async def _place_group(admin: Admin, wanted: Wanted) -> None:
    """A group without offsets gets those of its start, before it has a member.

    The first offset needs none.  Without this the end would: a broker that has everything
    from offset 0 on lets a new group begin there, whatever the consumer wants
    (ConsumerManageProcessor.queryConsumerOffset).
    """
    if not wanted.is_start_given:
        return
    masters = await admin.masters()
    for address in masters.values():
        if wanted.group in await admin.groups_of_topic(address, wanted.topic):
            say(
                f"{wanted.group} has offsets in {wanted.topic} and goes on from them; to move it: "
                f"`rmqemu group reset {wanted.group} --topic {wanted.topic}`"
            )
            return
    if wanted.start.where == "first":
        return
    for address in masters.values():
        if not any(g.group_name == wanted.group for g in await admin.groups(address)):
            await admin.create_group(address, SubscriptionGroupConfig(group_name=wanted.group))
    start = wanted.start
    await admin.move_group(wanted.group, wanted.topic, start.where, start.at_ms)


# As nobody ----------------------------------------------------------------------------------


async def _peek(printer: Printer, wanted: Wanted, namesrv: str, limit_s: float) -> bool:
    """What is stored now, oldest first; True after a signal."""
    stopped = trio.Event()
    async with plain_nursery() as nursery:
        nursery.start_soon(stop_on_signal, stopped)
        with trio.move_on_after(limit_s) as reading:
            nursery.start_soon(_cancel_when, stopped, reading)
            async with admin_over_tcp(namesrv) as admin:
                reader = a_reader(admin, wanted.topic, wanted.tags)
                spans = await reader.spans()
                starts = await reader.starts(spans, wanted.start.where, wanted.start.at_ms)
                await print_stored(printer, reader.stored(spans, starts))
    return stopped.is_set()


async def print_stored(printer: Printer, messages: AsyncGenerator[MessageExt]) -> None:
    """All of them, or until the printer has enough."""
    async with aclosing(messages):
        async for message in messages:
            if printer.is_asked_for(message):
                printer.print(message)
            if printer.done.is_set():
                return


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def a_reader(admin: Admin, topic: str, tags: str) -> TopicReader:
    """Raises ``BadUse`` for tags that are none."""
    try:
        return TopicReader(admin, topic, tags)
    except BadExpression as error:
        raise BadUse(f"--tags {tags}: {error}") from None
