"""Messages on standard output, one line each: the line formats, their options and the printer.

``--format`` has named fields in braces (``FIELDS``):

    {stored}  {keys}  {body}          {topic}/{queue}@{offset} {property:colour}

A body is written byte for byte; a field that a message does not have is empty.  If a write fails,
``Printer.error`` keeps the error; ``consume`` checks it before a message counts as consumed.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from datetime import datetime
from string import Formatter
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
import trio
import typer

from rocketmq_emulator.cli.options.errors import BadUse, OutputFailed, output_failed
from rocketmq_emulator.protocol.messages.properties import split_keys
from rocketmq_emulator.text.suggestions import nearest

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.messages.message import MessageExt


# A message as a line ------------------------------------------------------------------


Part: TypeAlias = "Callable[[MessageExt], bytes]"
Field: TypeAlias = "Callable[[MessageExt], object]"

FIELDS: dict[str, tuple[Field, str]] = {  # value and description
    "topic": (lambda m: m.topic, "its topic"),
    "broker": (lambda m: m.broker_name, "the name of the broker that stores it"),
    "queue": (lambda m: m.queue_id, "the number of its queue on that broker"),
    "offset": (lambda m: m.queue_offset, "its place in that queue"),
    "msg_id": (lambda m: m.msg_id, "the id that its producer gave it"),
    "offset_msg_id": (lambda m: m.offset_msg_id, "the id by which its broker finds it"),
    "tags": (lambda m: m.tags, "its tag"),
    "keys": (lambda m: m.keys, "its keys, separated by blanks"),
    "body": (lambda m: m.body, "its body, byte for byte"),
    "size": (lambda m: len(m.body), "how many bytes its body has"),
    "born": (lambda m: local_time(m.born_timestamp), "when it was sent, as local time"),
    "born_ms": (lambda m: m.born_timestamp, "the same as epoch milliseconds"),
    "stored": (lambda m: local_time(m.store_timestamp), "when it was stored, as local time"),
    "stored_ms": (lambda m: m.store_timestamp, "the same as epoch milliseconds"),
    "reconsume_times": (lambda m: m.reconsume_times, "how often it was delivered again"),
    "properties": (lambda m: msgspec.json.encode(m.properties), "all properties, as JSON"),
}
FORMAT_HELP = (
    "A line from named fields, such as {offset} {keys} {body}; see `rmqemu docs commands`."
)
PROPERTY = "property"  # {property:NAME}
ESCAPES = {r"\t": "\t", r"\n": "\n", r"\0": "\0", r"\\": "\\"}


class LineFormat:
    """A compiled format.  Raises ``BadUse`` for an unknown field."""

    def __init__(self, text: str) -> None:
        self._parts: list[Part] = []
        try:
            for plain, name, spec, conversion in Formatter().parse(unescaped(text)):
                if plain:
                    self._parts.append(_plain(plain))
                if name is not None:
                    self._parts.append(_field(name, spec or "", conversion))
        except ValueError as error:
            raise BadUse(f"--format {text}: {error}; a brace itself is written twice") from None

    def line(self, message: MessageExt) -> bytes:
        """*message* as a line, without the line end."""
        return b"".join(part(message) for part in self._parts)


def unescaped(text: str) -> str:
    r"""*text* with the characters that ``\t``, ``\n``, ``\0`` and ``\\`` stand for."""
    parts = text.split(r"\\")
    for written, meant in ESCAPES.items():
        if written != r"\\":
            parts = [part.replace(written, meant) for part in parts]
    return "\\".join(parts)


def short_line(message: MessageExt) -> bytes:
    """Time, broker, queue, offset, tag, keys and body: the default line of ``watch``."""
    place = f"{message.broker_name}/{message.queue_id}/{message.queue_offset}"
    about = (local_time(message.store_timestamp)[11:], place, message.tags, message.keys)
    return "  ".join(filter(None, about)).encode() + b"  " + message.body


def local_time(at_ms: int) -> str:
    """``2024-05-31T12:00:00.000``, in this machine's time zone; ``--from`` accepts it."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(at_ms)  # out of range: the sender's clock is wrong
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds")


def message_value(message: MessageExt) -> dict[str, object]:
    """All fields of *message*, for JSON.  A body that is not UTF-8 is base64."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "msg_id": message.msg_id,
        "offset_msg_id": message.offset_msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "reconsume_times": message.reconsume_times,
        "born_ms": message.born_timestamp,
        "stored_ms": message.store_timestamp,
        "properties": message.properties,
        **body,
    }


def json_line(message: MessageExt) -> bytes:
    """*message* as one JSON object, without the line end."""
    return msgspec.json.encode(message_value(message))


def body_line(message: MessageExt) -> bytes:
    """The body alone."""
    return message.body


def _plain(text: str) -> Part:
    data = text.encode()
    return lambda _message: data


def _field(name: str, spec: str, conversion: str | None) -> Part:
    if conversion:
        raise BadUse(f"--format: {{{name}!{conversion}}} is written {{{name}}}")
    if name == PROPERTY and spec:
        return lambda message: _as_bytes(message.properties.get(spec))
    found = FIELDS.get(name)
    if found is None or spec:
        near = nearest(name, FIELDS)
        meant = f" (did you mean {{{near}}}?)" if near and not spec else ""
        known = ", ".join([*FIELDS, f"{PROPERTY}:NAME"])
        raise BadUse(f"--format has no field {name!r}{meant}: its fields are {known}")
    value = found[0]
    return lambda message: _as_bytes(value(message))


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else str(value).encode()


# Lines on standard output -------------------------------------------------------------


Line: TypeAlias = "Callable[[MessageExt], bytes]"

Tags = Annotated[
    str, typer.Option(metavar="TAGS", help='Only messages with these tags: "paid || shipped".')
]
Sql = Annotated[
    str,
    typer.Option(
        metavar="EXPRESSION",
        help="Only messages whose properties match, as in \"price > 5 AND region = 'eu'\".  "
        "Brokers need the setting enablePropertyFilter.",
    ),
]
Key = Annotated[
    str, typer.Option(metavar="KEY", help="Print only messages with this key; skip the others.")
]
Format = Annotated[str, typer.Option("--format", metavar="TEXT", help=FORMAT_HELP)]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON line per message.")]


def line_of(form: str, default: Line, *, as_json: bool) -> Line:
    """The function that turns a message into a line.  Raises ``BadUse``."""
    if form and as_json:
        raise BadUse("give --format or --json, not both")
    if as_json:
        return json_line
    return LineFormat(form).line if form else default


class Printer:
    """Writes messages to standard output until *count_max* were written or a write fails."""

    def __init__(self, line: Line, *, key: str = "", count_max: int = 0) -> None:
        self.printed = 0
        self.done = trio.Event()
        self.error: Exception | None = None
        self._line = line
        self._key = key
        self._count_max = count_max

    def matches_key(self, message: MessageExt) -> bool:
        """True if *message* has the key, or if no key was given."""
        return not self._key or self._key in split_keys(message.keys or "")

    def print(self, message: MessageExt) -> None:
        """Write *message* as a line and flush it; a failure sets ``error``."""
        try:
            sys.stdout.buffer.write(self._line(message) + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            self.fail(error)
        except OSError as error:
            self.fail(OutputFailed(output_failed(error)))
        else:
            self.printed += 1
            if self.printed == self._count_max:
                self.done.set()

    def fail(self, error: Exception) -> None:
        """End the printing because of *error*; ``error`` keeps the first one."""
        self.error = self.error or error
        self.done.set()
