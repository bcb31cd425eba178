"""``produce``: every line of a file, or of standard input, becomes a message.

A line is its bytes without the line's end; empty ones are skipped and counted, for
RocketMQ takes no empty body.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import trio
import typer

from emulator.cli.errors import BadUse, plain_errors
from emulator.cli.lines import bodies
from emulator.cli.shared import NAMESRV, Namesrv, show_json
from emulator.client import ClientError, Message, Producer
from emulator.cluster.admin import admin_over_tcp

if TYPE_CHECKING:
    from emulator.client import SendResult

GROUP = "rmqemu-produce"


def produce(
    topic: Annotated[str, typer.Option(help="Where to send.")],
    file: Annotated[str, typer.Argument(help="Lines to send; - is standard input.")] = "-",
    tag: Annotated[str, typer.Option(help="A tag for each message.")] = "",
    key: Annotated[str, typer.Option(help="A key for each message.")] = "",
    delay: Annotated[int, typer.Option(min=0, max=18, help="A delay level, 1 to 18.")] = 0,
    namesrv: Namesrv = NAMESRV,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a message.")] = False,
) -> None:
    """Send lines."""
    with plain_errors():

        def message(line: bytes) -> Message:
            return Message(topic, line, tag or None, key or None, delay_level=delay)

        with _opened(file) as lines:
            trio.run(_send_all, lines, message, namesrv, as_json)


async def _send_all(
    lines: IO[bytes], message: Callable[[bytes], Message], namesrv: str, as_json: bool
) -> None:
    async with admin_over_tcp(namesrv) as admin:
        await admin.cluster_info()  # nobody there: known before the first line is read
    sent = skipped = 0
    async with Producer(namesrv=namesrv, group=GROUP) as producer:
        for number, line in enumerate(bodies(lines), 1):
            if not line:
                skipped += 1
                continue
            try:
                result = await producer.send(message(line))
            except ClientError as error:
                raise _stopped_at(number, sent, error) from error
            sent += 1
            if as_json:
                show_json(as_value(result))
    empty = f", skipped {skipped:,} empty lines" if skipped else ""
    typer.echo(f"sent {sent:,}{empty}", err=True)


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


def _stopped_at(number: int, sent: int, error: ClientError) -> Exception:
    reason = str(error).split("\n", 1)[0]
    return type(error)(f"line {number}: {reason} ({sent:,} were sent before it)")


def _opened(file: str) -> IO[bytes]:
    if file == "-":
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise BadUse(f"{file}: {error.strerror}") from error
