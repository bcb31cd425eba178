"""``dlq list | replay``: shows the dead letters of groups, and sends them again.

A replay sends a message to the topic it was in, so every group of that topic gets it; with
``--topic %RETRY%GROUP`` only that group gets it.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
import typer
from rich.text import Text

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.admin.dead_letters import (
    DeadLetterQueue,
    DeadLetters,
    NoOrigin,
    groups_with_dead_letters,
    origin_of,
    replayed,
)
from rocketmq_emulator.cli.commands.consume import print_stored
from rocketmq_emulator.cli.messages.line_sender import send_result_value
from rocketmq_emulator.cli.messages.printer import (
    AsJsonLines,
    Format,
    Line,
    Printer,
    line_of,
    local_time,
)
from rocketmq_emulator.cli.options.completion import complete_group, complete_topic
from rocketmq_emulator.cli.options.errors import BadUse, Missing, interrupted, print_note
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    Namesrv,
    Yes,
    call_cluster,
    confirm,
    show,
    show_json,
)
from rocketmq_emulator.cli.screens.cluster_tables import a_table
from rocketmq_emulator.client import Producer
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.stopping import stop_on_signal
from rocketmq_emulator.text.values import in_natural_order

if TYPE_CHECKING:
    from rocketmq_emulator.admin.calls import Admin
    from rocketmq_emulator.admin.messages import QueueSpan
    from rocketmq_emulator.protocol.messages.message import MessageExt

PRODUCER_GROUP = "rmqemu-dlq-replay"

app = typer.Typer(
    no_args_is_help=True, help="Show the messages that a group gave up; replay them."
)


@app.command("list")
def list_(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            autocompletion=complete_group,
            help="Show the dead letters of this group, one line each.",
        ),
    ] = "",
    form: Format = "",
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Count the dead letters of every group, or show those of one."""
    line = line_of(form, letter_line, as_json=as_json)
    if group:
        _print_letters(namesrv, group, line)
    elif form:
        raise BadUse("--format shows dead letters: name a group")
    else:
        found = call_cluster(namesrv, _all_counts)
        if as_json:
            for counts in found:
                show_json(counts)
        else:
            _draw(found)


@app.command()
def replay(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            autocompletion=complete_group,
            help="The group whose dead letters are sent again.",
        ),
    ],
    topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC",
            autocompletion=complete_topic,
            help="Send to this topic, not to the one they were in.",
        ),
    ] = "",
    count: Annotated[
        int, typer.Option(min=0, metavar="N", help="At most so many; 0 = no limit.")
    ] = 0,
    again: Annotated[
        bool, typer.Option("--again", help="Also those that were replayed before.")
    ] = False,
    yes: Yes = False,
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Send dead letters again, to the topic they were in.

    All groups of that topic get them; with --topic %RETRY%GROUP only that group does.  A second
    replay continues where the first one ended.
    """
    counts = call_cluster(namesrv, lambda admin: DeadLetterQueue(admin, group).count())
    if not counts.stored:
        raise Missing(f"{group} has no dead letters")
    waiting = counts.stored if again else counts.waiting
    if not waiting:
        print_note(
            f"{group} has no dead letters to replay ({counts.stored:,} were replayed: --again)"
        )
        return
    number = min(waiting, count or waiting)
    where = topic or "the topic they were in"
    confirm(f"Send {number:,} dead letters of {group} again, to {where}?", yes=yes)
    task = Replay(group, topic, number, again=again, as_json=as_json)
    trio.run(task.run, namesrv)


class Replay(msgspec.Struct):
    """One replay; ``sent`` counts the acknowledged messages."""

    group: str
    to: str
    number: int
    again: bool
    as_json: bool
    sent: int = 0

    async def run(self, namesrv: str) -> None:
        """Send the dead letters.  Raises the error of a failed send, ``Exit`` after a signal."""
        stopped = trio.Event()
        async with cancelling_nursery() as nursery, admin_over_tcp(namesrv) as admin:
            nursery.start_soon(stop_on_signal, stopped)
            async with Producer(namesrv=namesrv, group=PRODUCER_GROUP) as producer:
                await self._send_all(DeadLetterQueue(admin, self.group), producer, stopped)
        done = f"replayed {self.sent:,}"
        if stopped.is_set() and self.sent < self.number:
            raise interrupted(f"stopped: {done} of {self.number:,}")
        print_note(done)

    async def _send_all(
        self, letters: DeadLetterQueue, producer: Producer, stopped: trio.Event
    ) -> None:
        spans = await letters.spans()
        starts = [span.first for span in spans] if self.again else await letters.replayed_to(spans)
        by_queue = {(span.queue.broker_name, span.queue.queue_id): span for span in spans}
        async with aclosing(letters.reader.stored(spans, starts)) as found:
            async for letter in found:
                if stopped.is_set() or self.sent == self.number:
                    return
                span = by_queue[letter.broker_name, letter.queue_id]
                await self._send(letters, producer, letter, span)

    async def _send(
        self, letters: DeadLetterQueue, producer: Producer, letter: MessageExt, span: QueueSpan
    ) -> None:
        try:
            message = replayed(letter, self.to)
        except NoOrigin as error:
            raise BadUse(
                f"{error}: name one with --topic ({self.sent:,} were sent before)"
            ) from None
        result = await producer.send(message)
        self.sent += 1
        await letters.note_replayed(span, letter)
        if self.as_json:
            show_json({**send_result_value(result), "replayed_from": letter.offset_msg_id})


def letter_line(letter: MessageExt) -> bytes:
    """Time stored, original topic, id, keys, number of retries, body."""
    tried = f"reconsumed: {letter.reconsume_times:,}" if letter.reconsume_times else ""
    about = (
        local_time(letter.store_timestamp),
        origin_of(letter) or "?",
        letter.msg_id,
        letter.keys,
        tried,
    )
    return "  ".join(filter(None, about)).encode() + b"  " + letter.body


def _print_letters(namesrv: str, group: str, line: Line) -> None:
    printer = Printer(line)

    async def look(admin: Admin) -> None:
        letters = DeadLetterQueue(admin, group)
        spans = await letters.spans()
        if not spans:
            raise Missing(f"{group} has no dead letters")
        starts = [span.first for span in spans]
        await print_stored(printer, letters.reader.stored(spans, starts))

    call_cluster(namesrv, look)
    if printer.error:
        raise printer.error


async def _all_counts(admin: Admin) -> list[DeadLetters]:
    groups = in_natural_order(await groups_with_dead_letters(admin))
    return [await DeadLetterQueue(admin, group).count() for group in groups]


def _draw(found: list[DeadLetters]) -> None:
    if not found:
        show(Text("  no dead letters"))
        return
    table = a_table(
        "group", "dead letters", "not replayed", numbers=("dead letters", "not replayed")
    )
    for each in found:
        table.add_row(each.group, f"{each.stored:,}", f"{each.waiting:,}")
    show(table)
