"""Prints a topic's messages: ``consume`` as a member of a group, ``--peek`` and ``watch``
without a group.

A message counts as consumed when its line was written and flushed, not before: if the output
fails, the group gets it again.  ``watch`` follows a topic like ``tail -f`` with one held pull per
queue, so a message is shown as soon as it is stored.  A broker that does not answer is tried
again; new queues are followed from their first message on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
import typer

from rocketmq_emulator.admin.calls import Admin, AdminError, NotFound, admin_over_tcp
from rocketmq_emulator.admin.messages import TopicReader
from rocketmq_emulator.cli.messages.positions import PLACES, TIMES, WORDS_SHOWN, Position, position
from rocketmq_emulator.cli.messages.printer import (
    AsJsonLines,
    Format,
    Key,
    Printer,
    Sql,
    Tags,
    body_line,
    line_of,
    short_line,
)
from rocketmq_emulator.cli.options.completion import complete_group, complete_topic, one_of
from rocketmq_emulator.cli.options.errors import BadUse, fail, interrupted, print_error
from rocketmq_emulator.cli.options.shared import NAMESRV, Namesrv, duration_s
from rocketmq_emulator.client import PushConsumer, PushConsumerConfig
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.stopping import stop_on_signal
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.messages.subscription import SQL92, SUB_ALL, TAG, BadExpression

if TYPE_CHECKING:
    from rocketmq_emulator.admin.messages import QueueSpan
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


GROUP = "rmqemu-consume"

Count = Annotated[
    int, typer.Option(min=0, metavar="N", help="End after so many messages; 0 = no limit.")
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        parser=duration_s,
        show_default="no limit",
        help="End after this time, such as 20s.",
    ),
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar=PLACES,
        autocompletion=one_of(WORDS_SHOWN),
        show_default="earliest",
        help=f"The start, if the group has no offsets yet.  {TIMES}.",
    ),
]
Peek = Annotated[
    bool,
    typer.Option(
        "--peek",
        help="Print the stored messages and end.  No group, no offsets: nothing is changed.",
    ),
]


def consume(
    topic: Annotated[
        str,
        typer.Option(metavar="TOPIC", autocompletion=complete_topic, help="The topic."),
    ],
    group: Annotated[
        str,
        typer.Option(
            metavar="GROUP",
            autocompletion=complete_group,
            show_default=GROUP,
            help="Consume as a member of this group.",
        ),
    ] = "",
    tags: Tags = "*",
    sql: Sql = "",
    key: Key = "",
    count: Count = 0,
    timeout: Timeout = None,
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
    expression = expression_of(tags, sql)
    wanted = Wanted(topic, expression, group or GROUP, start, is_start_given=bool(where))
    limit_s = timeout or float("inf")
    reads = _peek if peek else _consume
    was_interrupted = trio.run(reads, printer, wanted, namesrv, limit_s)
    if printer.error:
        raise printer.error
    if count and printer.printed < count:
        got = f"{printer.printed:,} of {count:,} messages"
        if was_interrupted:
            raise interrupted(f"stopped after {got}")
        raise fail(f"only {got} are there" if peek else f"only {got} came within {limit_s:g} s")


class Wanted(msgspec.Struct, frozen=True):
    """The topic, the expression and its type, the group, and the start position."""

    topic: str
    expression: tuple[str, str]
    group: str
    start: Position
    is_start_given: bool


def expression_of(tags: str, sql: str) -> tuple[str, str]:
    """The expression of --tags or --sql, and its type.  Raises ``BadUse`` for both."""
    if sql and tags != SUB_ALL:
        raise BadUse(
            "--tags and --sql: a subscription has one of them; in SQL, TAGS is a property"
        )
    return (sql, SQL92) if sql else (tags, TAG)


# As a member of a group ---------------------------------------------------------------------


async def _consume(printer: Printer, wanted: Wanted, namesrv: str, limit_s: float) -> bool:
    """Print until there are enough messages or the time is over; True after a signal."""
    async with admin_over_tcp(namesrv) as admin:
        await admin.route(wanted.topic)  # raises without a route; a consumer would wait
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
            if printer.matches_key(message):
                printer.print(message)
            if printer.error:
                await trio.sleep_forever()

    async with cancelling_nursery() as nursery:
        stopped = trio.Event()
        nursery.start_soon(stop_on_signal, stopped)
        nursery.start_soon(_pass_on, stopped, printer.done)
        with trio.move_on_after(limit_s):
            async with PushConsumer(listen, {wanted.topic: wanted.expression}, config):
                await printer.done.wait()
        return stopped.is_set()


async def _pass_on(event: trio.Event, to: trio.Event) -> None:
    await event.wait()
    to.set()


async def _place_group(admin: Admin, wanted: Wanted) -> None:
    """Commit the offsets of the start position for a group without offsets or members.

    The first offset needs no commit.  The end does: if a broker still has the message at
    offset 0, it lets a new group begin there, whatever the consumer's settings
    (ConsumerManageProcessor.queryConsumerOffset).
    """
    if not wanted.is_start_given:
        return
    masters = await admin.masters()
    for address in masters.values():
        if wanted.group in await admin.groups_of_topic(address, wanted.topic):
            print_error(
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


# Without a group ----------------------------------------------------------------------------


async def _peek(printer: Printer, wanted: Wanted, namesrv: str, limit_s: float) -> bool:
    """Print the messages that are stored now, oldest first; True after a signal."""
    stopped = trio.Event()
    async with cancelling_nursery() as nursery:
        nursery.start_soon(stop_on_signal, stopped)
        with trio.move_on_after(limit_s) as reading:
            nursery.start_soon(_cancel_when, stopped, reading)
            async with admin_over_tcp(namesrv) as admin:
                reader = a_reader(admin, wanted)
                spans = await reader.spans()
                starts = await reader.starts(spans, wanted.start.where, wanted.start.at_ms)
                await print_stored(printer, reader.stored(spans, starts))
    return stopped.is_set()


async def print_stored(printer: Printer, messages: AsyncGenerator[MessageExt]) -> None:
    """Print *messages* until they end or *printer* is done."""
    async with aclosing(messages):
        async for message in messages:
            if printer.matches_key(message):
                printer.print(message)
            if printer.done.is_set():
                return


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def a_reader(admin: Admin, wanted: Wanted) -> TopicReader:
    """A reader of the topic.  Raises ``BadUse`` for invalid tags."""
    try:
        return TopicReader(admin, wanted.topic, *wanted.expression)
    except BadExpression as error:
        raise BadUse(f"--tags {wanted.expression[0]}: {error}") from None


# Following a topic --------------------------------------------------------------------


HOLD_MS = 15_000  # DefaultMQPushConsumerImpl.BROKER_SUSPEND_MAX_TIME_MILLIS
LOOK_FOR_QUEUES_S = 5.0
TRY_AGAIN_S = 1.0


def watch(
    topic: Annotated[
        str,
        typer.Argument(metavar="TOPIC", autocompletion=complete_topic, help="The topic."),
    ],
    where: Annotated[
        str,
        typer.Option(
            "--from",
            metavar=PLACES,
            autocompletion=one_of(WORDS_SHOWN),
            help=f"The start.  {TIMES}.",
        ),
    ] = "latest",
    tags: Tags = "*",
    sql: Sql = "",
    key: Key = "",
    form: Format = "",
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Follow a topic like tail -f, until Ctrl-C.  No group is made, no message is consumed."""
    now_ms = int(time.time() * 1000)
    start = position(where, "--from", now_ms)
    printer = Printer(line_of(form, short_line, as_json=as_json), key=key)
    wanted = Wanted(topic, expression_of(tags, sql), "", start, is_start_given=True)
    trio.run(_watch, printer, wanted, namesrv, now_ms)
    if printer.error:
        raise printer.error


async def _watch(printer: Printer, wanted: Wanted, namesrv: str, now_ms: int) -> None:
    async with admin_over_tcp(namesrv) as admin, cancelling_nursery() as nursery:
        nursery.start_soon(stop_on_signal, printer.done)
        reader, start = a_reader(admin, wanted), wanted.start
        spans = await reader.spans()
        if start.where != "last":
            starts = await reader.starts(spans, start.where, start.at_ms)
            await print_stored(printer, reader.stored(spans, starts))
        nursery.start_soon(_Watch(printer, reader, now_ms).run, spans)
        await printer.done.wait()


class _Watch:
    """Follows the queues of a topic; *began_ms* is the start of the command."""

    def __init__(self, printer: Printer, reader: TopicReader, began_ms: int) -> None:
        self._printer = printer
        self._reader = reader
        self._began_ms = began_ms
        self._spans: dict[MessageQueue, QueueSpan] = {}
        self._silent: set[str] = set()  # brokers that do not answer, by name

    async def run(self, spans: list[QueueSpan]) -> None:
        """Follow *spans* from their ends, and new queues from the time *began_ms*."""
        async with trio.open_nursery() as nursery:
            for span in spans:
                self._spans[span.queue] = span
                nursery.start_soon(self._follow, span.queue, span.end)
            while True:
                await trio.sleep(LOOK_FOR_QUEUES_S)
                for queue, start in (await self._new_queues()).items():
                    nursery.start_soon(self._follow, queue, start)

    async def _new_queues(self) -> dict[MessageQueue, int]:
        """The start offset of each new queue; updates the brokers' addresses of all queues."""
        try:
            spans = await self._reader.spans()
            new = [span for span in spans if span.queue not in self._spans]
            starts = await self._reader.starts(new, "time", self._began_ms)
        except AdminError:
            return {}  # ``_follow`` gets the same error and reports it
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
                self._note_no_answer(queue.broker_name, str(error))
                await trio.sleep(TRY_AGAIN_S)
                continue
            self._note_answer(queue.broker_name)
            offset = pulled.next_offset
            for message in filter(self._printer.matches_key, pulled.messages):
                if not self._printer.done.is_set():
                    self._printer.print(message)

    def _note_no_answer(self, broker: str, why: str) -> None:
        if broker not in self._silent:
            self._silent.add(broker)
            print_error(f"{broker} does not answer; trying again every second ({why})")

    def _note_answer(self, broker: str) -> None:
        if broker in self._silent:
            self._silent.discard(broker)
            print_error(f"{broker} answers again")
