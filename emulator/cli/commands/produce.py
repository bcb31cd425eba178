"""``produce``: sends lines of a file or of standard input, or generated bodies, as messages.

A body is the bytes of a line without the line end.  Empty lines are skipped and counted:
RocketMQ refuses an empty body.  Each message is acknowledged before the next one is sent,
so lines of one queue stay in order, and an error names the line at which it stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Annotated

import trio
import typer

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.cli.messages.line_sender import (
    KeyedLines,
    LineSender,
    MessageTemplate,
    SendCounts,
    SendingProgress,
    SendJob,
    generated_bodies,
    lines_of,
    properties_of,
    rate_of,
)
from rocketmq_emulator.cli.messages.printer import AsJsonLines, unescaped
from rocketmq_emulator.cli.options.completion import complete_topic
from rocketmq_emulator.cli.options.errors import BadUse, interrupted, print_note
from rocketmq_emulator.cli.options.shared import NAMESRV, Namesrv
from rocketmq_emulator.client import Producer
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.stopping import stop_on_signal

GROUP = "rmqemu-produce"

KeyDelimiter = Annotated[
    str, typer.Option(metavar="TEXT", help='A line is KEY, TEXT, body: ":" for A-17:two cups.')
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="A property; repeatable."),
]
Delay = Annotated[
    int,
    typer.Option(
        min=0,
        max=18,
        metavar="LEVEL",
        show_default=False,
        help="A delay level: 1 = 1 s, 2 = 5 s, 3 = 10 s … 18 = 2 h.",
    ),
]
Queue = Annotated[str, typer.Option(metavar="[BROKER:]ID", help="Send to this queue only.")]
CountToSend = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        show_default=False,
        help="Send so many messages: generated, or the first lines of FILE.",
    ),
]
Rate = Annotated[
    str,
    typer.Option(
        metavar="N", show_default="no limit", help="At most so many messages per second."
    ),
]


def produce(
    topic: Annotated[
        str,
        typer.Option(metavar="TOPIC", autocompletion=complete_topic, help="The topic."),
    ],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Lines to send; - is standard input.")
    ] = "",
    tag: Annotated[str, typer.Option(metavar="TAG", help="A tag for each message.")] = "",
    key: Annotated[str, typer.Option(metavar="KEY", help="A key for each message.")] = "",
    key_delimiter: KeyDelimiter = "",
    properties: Properties = None,
    delay: Delay = 0,
    queue: Queue = "",
    count: CountToSend = 0,
    size: Annotated[
        int,
        typer.Option(
            min=0, metavar="BYTES", show_default=False, help="Generate bodies of so many bytes."
        ),
    ] = 0,
    rate: Rate = "0",
    as_json: AsJsonLines = False,
    namesrv: Namesrv = NAMESRV,
) -> None:
    """Send lines as messages, or generated messages.

    Without FILE, --count or --size generates them: message 1, message 2 …
    """
    if key and key_delimiter:
        raise BadUse("give --key or --key-delimiter, not both")
    if size and file:
        raise BadUse("give FILE or --size, not both")
    job = SendJob(
        shape=MessageTemplate(
            topic=topic,
            tag=tag,
            key=key,
            keyed=KeyedLines(unescaped(key_delimiter)) if key_delimiter else None,
            properties=dict(properties_of(properties or [])),
            delay=delay,
        ),
        file=file or "-",
        count=count,
        size=size,
        is_generated=bool(size or (count and not file)),
        per_second=rate_of(rate),
        queue=queue,
        as_json=as_json,
    )
    trio.run(_produce, job, namesrv)


async def _produce(job: SendJob, namesrv: str) -> None:
    """Raises the error of a failed send with its line's number; ``Exit`` after a signal."""
    stopped = trio.Event()
    sent = SendCounts()
    with _opened(job.file) as file:
        async with cancelling_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stopped)
            async with admin_over_tcp(namesrv) as admin:
                await admin.cluster_info()  # raises before the first line is read
            async with Producer(namesrv=namesrv, group=GROUP) as producer:
                batches = (
                    generated_bodies(job.count, job.size) if job.is_generated else lines_of(file)
                )
                with SendingProgress(job.count, is_shown=_may_draw(job)) as progress:
                    sender = LineSender(producer, job, sent, progress)
                    await sender.send_all(batches, stopped)
    if stopped.is_set():
        of = f" of {job.count:,}" if job.count else ""
        raise interrupted(f"stopped: {sent.acknowledged:,}{of} acknowledged")
    print_note(_summary(job, sent))


def _opened(file: str) -> IO[bytes]:
    if file == "-":
        if sys.stdin is None:
            raise BadUse("there is no standard input to read")
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise BadUse(f"{file}: {error.strerror}") from error


def _may_draw(job: SendJob) -> bool:
    """True if standard error is a terminal that shows neither JSON lines nor typed lines."""
    if not sys.stderr.isatty() or (job.as_json and sys.stdout.isatty()):
        return False
    if job.is_generated or job.file != "-":
        return True
    if sys.stdin.isatty():
        print_note("Each line is a message; Ctrl-D ends.")
        return False
    return True


def _summary(job: SendJob, sent: SendCounts) -> str:
    if not sent.read and not job.is_generated:
        source = "standard input" if job.file == "-" else job.file
        return f"nothing was read from {source}: sent 0"
    empty = f", skipped {sent.empty:,} empty lines" if sent.empty else ""
    return f"sent {sent.acknowledged:,}{empty}"
