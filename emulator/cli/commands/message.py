"""``message get | by-key | trace``: finds stored messages, and traces; nothing is consumed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.text import Text

from rocketmq_emulator.admin.calls import NotFound
from rocketmq_emulator.admin.message_traces import find_life
from rocketmq_emulator.admin.messages import BadMessageId, find_by_id, find_by_key
from rocketmq_emulator.cli.messages.message_life import (
    Timeline,
    head_text,
    life_table,
    note_text,
)
from rocketmq_emulator.cli.messages.printer import (
    AsJsonLines,
    Format,
    line_of,
    local_time,
    short_line,
)
from rocketmq_emulator.cli.options.completion import complete_topic
from rocketmq_emulator.cli.options.errors import BadUse, Missing
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    call_cluster,
    make_console,
    show,
    show_json,
    show_line,
)
from rocketmq_emulator.protocol.messages.names import TRACE_TOPIC

if TYPE_CHECKING:
    from rocketmq_emulator.cli.messages.printer import Line
    from rocketmq_emulator.protocol.messages.message import MessageExt

app = typer.Typer(no_args_is_help=True, help="Find stored messages, and their traces.")
COPIES_MAX = 64  # MessageStoreConfig.maxMsgsNumBatch


@app.command()
def get(
    msg_id: Annotated[str, typer.Argument(metavar="ID", help="The id that a send printed.")],
    topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC",
            autocompletion=complete_topic,
            help="Search this topic only, which is faster.",
        ),
    ] = "",
    form: Format = "",
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Show a message by its id.

    Its retries and dead letters have the same id, and are shown, too.
    """
    line = line_of(form, full_text, as_json=as_json)
    try:
        found = call_cluster(namesrv, lambda admin: find_by_id(admin, msg_id, topic))
    except BadMessageId as error:
        raise BadUse(str(error)) from None
    if not found:
        where = f"in {topic}" if topic else "in this cluster"
        raise Missing(f"no message {where} has the id {msg_id}")
    show_lines(found, line)


@app.command("by-key")
def by_key_(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, help="The topic.")
    ],
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A key of the messages, as their producer set it.")
    ],
    count: Annotated[
        int,
        typer.Option(
            min=1, max=COPIES_MAX, metavar="N", help="Show at most N messages, the newest."
        ),
    ] = COPIES_MAX,
    form: Format = "",
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Show the messages of a topic with this key, oldest first."""
    line = line_of(form, short_line, as_json=as_json)
    found = call_cluster(namesrv, lambda admin: find_by_key(admin, topic, key, count))
    if not found:
        raise Missing(f"no message in {topic} has the key {key}")
    show_lines(found, line)


@app.command()
def trace(
    msg_id: Annotated[str, typer.Argument(metavar="ID", help="The id that a send printed.")],
    topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC", autocompletion=complete_topic, help="The topic of the traces."
        ),
    ] = TRACE_TOPIC,
    as_json: AsJson = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Show the life of a message, from the traces that its clients wrote."""
    try:
        life = call_cluster(namesrv, lambda admin: find_life(admin, msg_id, topic))
    except NotFound as error:
        raise Missing(f"{error}: {WHO_WRITES_TRACES}") from None
    if life is None:
        raise Missing(f"no trace of {msg_id} is in {topic}: {WHO_WRITES_TRACES}")
    if as_json:
        show_json(life)
        return
    show_line(head_text(life))
    show(life_table(life))
    if make_console().is_terminal:
        show(Text())
        show(Timeline(life))
    if note := note_text(life):
        show_line(f"({note})")


WHO_WRITES_TRACES = "clients with trace=True (enableMsgTrace) write traces, within seconds"


def show_lines(messages: list[MessageExt], line: Line) -> None:
    """Write all *messages*, then flush.  Raises ``OSError`` if a write fails."""
    for message in messages:
        sys.stdout.buffer.write(line(message) + b"\n")
    sys.stdout.buffer.flush()


def full_text(message: MessageExt) -> bytes:
    """All fields of one message as lines; its body comes last."""
    rows = {
        "topic": message.topic,
        "queue": f"{message.queue_id} on {message.broker_name}",
        "offset": message.queue_offset,
        "msg_id": message.msg_id,
        "offset_msg_id": message.offset_msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "born": f"{local_time(message.born_timestamp)} at {message.born_host}",
        "stored": f"{local_time(message.store_timestamp)} at {message.store_host}",
        "reconsume_times": message.reconsume_times,
        "properties": msgspec.json.encode(message.properties).decode(),
        "body": f"{len(message.body):,} bytes",
    }
    lines = [f"{name:<16} {value}" for name, value in rows.items() if value is not None]
    return "\n".join([*lines, ""]).encode() + message.body
