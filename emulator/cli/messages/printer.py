"""Messages on standard output, a line each: how a message becomes a line, and the options that say
how.

``--format`` has named fields in braces (``FIELDS``):

    {stored}  {keys}  {body}          {topic}/{queue}@{offset} {property:colour}

A body goes out as the bytes it is; what a message does not have is empty.  A line that was not
written is not printed: ``Printer.error`` keeps why, and ``consume`` looks at it before a message
counts as consumed.
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

FIELDS: dict[str, tuple[Field, str]] = {  # and what it is
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
FORMAT_HELP = "A line from named fields, such as {offset} {keys} {body}; docs/commands.md has all."
PROPERTY = "property"  # {property:NAME}
ESCAPES = {r"\t": "\t", r"\n": "\n", r"\0": "\0", r"\\": "\\"}


class LineFormat:
    """A compiled format.  Raises ``BadUse`` for a field there is not."""

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
        """*message*, without the line's end."""
        return b"".join(part(message) for part in self._parts)


def unescaped(text: str) -> str:
    r"""With real tabs and line ends for ``\t`` and ``\n``."""
    parts = text.split(r"\\")
    for written, meant in ESCAPES.items():
        if written != r"\\":
            parts = [part.replace(written, meant) for part in parts]
    return "\\".join(parts)


def short_line(message: MessageExt) -> bytes:
    """Time, place, tag, keys and body: what somebody who only watches wants to see."""
    place = f"{message.broker_name}/{message.queue_id}/{message.queue_offset}"
    about = (local_time(message.store_timestamp)[11:], place, message.tags, message.keys)
    return "  ".join(filter(None, about)).encode() + b"  " + message.body


def local_time(at_ms: int) -> str:
    """``2024-05-31T12:00:00.000``, in this machine's zone; a form that ``--from`` reads."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(at_ms)  # a clock that was never set
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds")


def message_value(message: MessageExt) -> dict[str, object]:
    """Everything, for JSON.  A body that is no text comes as base64."""
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
    """One JSON object, without the line's end."""
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
        raise BadUse(f"--format has no field {name!r}{meant}: it knows {known}")
    value = found[0]
    return lambda message: _as_bytes(value(message))


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else str(value).encode()


# Lines on standard output -------------------------------------------------------------


Line: TypeAlias = "Callable[[MessageExt], bytes]"

Tags = Annotated[str, typer.Option(help='Only messages with these tags: "paid || shipped".')]
Key = Annotated[str, typer.Option(help="Print only messages with this key; pass over the others.")]
Format = Annotated[str, typer.Option("--format", metavar="TEXT", help=FORMAT_HELP)]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON line per message.")]


def line_of(form: str, default: Line, *, as_json: bool) -> Line:
    """How a message becomes a line.  Raises ``BadUse``."""
    if form and as_json:
        raise BadUse("give --format or --json, not both")
    if as_json:
        return json_line
    return LineFormat(form).line if form else default


class Printer:
    """Writes messages to standard output, until there were enough or writing fails."""

    def __init__(self, line: Line, *, key: str = "", count_max: int = 0) -> None:
        self.printed = 0
        self.done = trio.Event()
        self.error: Exception | None = None
        self._line = line
        self._key = key
        self._count_max = count_max

    def matches_key(self, message: MessageExt) -> bool:
        """Has it the key, if one is asked for?"""
        return not self._key or self._key in split_keys(message.keys or "")

    def print(self, message: MessageExt) -> None:
        """Write its line and flush it; afterwards ``error`` says whether that failed."""
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
        """Nothing more is printed, because of *error*; the first one counts."""
        self.error = self.error or error
        self.done.set()
