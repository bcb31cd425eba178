r"""Message traces: what clients write about their messages into a topic, one record each.

A record is a line of fields separated by ``\x01`` and ended by ``\x02``; its first field is its
type.  Nothing is escaped, an absent text is the word ``null``, and readers go by the number of
fields: clients of other languages, and older ones, have a field more or less at the end.  One
body has the records of many messages, found by KEYS: their ids and their keys.

Upstream: TraceDataEncoder, TraceContext, TraceBean, TraceType; internal/trace.go of the Go client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from rocketmq_emulator.protocol.messages.properties import KEY_SEPARATOR, split_keys
from rocketmq_emulator.protocol.versions import SUB_AFTER_HAS_TIME

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.versions import Release

CONTENT_SEPARATOR = "\x01"
RECORD_SEPARATOR = "\x02"
NULL = "null"
NUMBER_DIGITS_MAX = 19  # of a Java long

MESSAGE_TYPES = ("normal", "half", "committed", "delayed", "ordered")  # by MessageType's ordinal
RETURN_TYPES = ("success", "timeout", "exception", "null", "failed")  # by ConsumeReturnType's


class PubTrace(msgspec.Struct, frozen=True, kw_only=True, tag="Pub", tag_field="type"):
    """A send was answered; fields as on the wire.  Of a batch: one record for all its messages."""

    OPTIONAL: ClassVar = 1  # so many of the last fields may be missing

    at_ms: int  # wall time of the attempt's begin
    region: str | None
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str  # of the broker
    body_bytes: int  # as sent: compressed
    cost_ms: int
    msg_type: int  # an index of MESSAGE_TYPES
    offset_msg_id: str | None
    ok: bool  # SEND_OK
    client_host: str = ""  # Go


class SubBeforeTrace(msgspec.Struct, frozen=True, kw_only=True, tag="SubBefore", tag_field="type"):
    """A listener is about to be called with a message."""

    OPTIONAL: ClassVar = 1

    at_ms: int
    region: str | None
    group: str
    request_id: str  # that of the SubAfter
    msg_id: str
    retry_times: int
    keys: str | None
    client_host: str = ""  # Go


class SubAfterTrace(msgspec.Struct, frozen=True, kw_only=True, tag="SubAfter", tag_field="type"):
    """The listener has returned."""

    OPTIONAL: ClassVar = 3

    request_id: str
    msg_id: str
    cost_ms: int  # of the call, divided by its messages
    ok: bool
    keys: str | None
    code: int = 0  # an index of RETURN_TYPES
    at_ms: int = 0
    group: str = ""


class EndTransactionTrace(
    msgspec.Struct, frozen=True, kw_only=True, tag="EndTransaction", tag_field="type"
):
    """A producer ended the transaction of a half message."""

    OPTIONAL: ClassVar = 0

    at_ms: int
    region: str | None
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    msg_type: int
    transaction_id: str | None
    state: str  # COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW
    from_check: bool  # the answer to a check


class RecallTrace(msgspec.Struct, frozen=True, kw_only=True, tag="Recall", tag_field="type"):
    """A producer recalled a timer message (5.3.2)."""

    OPTIONAL: ClassVar = 0

    at_ms: int
    region: str | None
    group: str
    topic: str
    msg_id: str
    ok: bool


Trace: TypeAlias = PubTrace | SubBeforeTrace | SubAfterTrace | EndTransactionTrace | RecallTrace


# Bytes to values ----------------------------------------------------------------------


class Decoded(NamedTuple):
    """The records of a body, and how many more could not be read."""

    traces: list[Trace]
    unreadable: int


def decode_traces(body: bytes) -> Decoded:
    """All records of *body*, in its order."""
    traces, unreadable = [], 0
    for line in body.decode("utf-8", "replace").split(RECORD_SEPARATOR):
        if not line:
            continue
        try:
            traces.append(_decode(line))
        except ValueError:
            unreadable += 1
    return Decoded(traces, unreadable)


def _decode(line: str) -> Trace:
    name, *texts = line.split(CONTENT_SEPARATOR)
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"there is no trace type {name:.40}")
    if kind is PubTrace and len(texts) == OLD_PUB_FIELDS:
        texts.insert(-1, NULL)
    fields = _FIELDS[kind]
    if len(texts) < len(fields) - kind.OPTIONAL:
        raise ValueError(f"a {name} has {len(texts)} fields")
    given = zip(fields, texts, strict=False)
    values: dict[str, Any] = {field: read(text) for (field, read), text in given}
    trace: Trace = kind(**values)
    return trace


OLD_PUB_FIELDS = 12  # without offset_msg_id


def _read_number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX):
        raise ValueError(f"{text!r:.40} is no number")
    return int(text)


_READERS: dict[object, Callable[[str], object]] = {
    str: str,
    str | None: lambda text: None if text == NULL else text,
    int: _read_number,
    bool: lambda text: text.lower() == "true",  # Boolean.parseBoolean
}
_KINDS: dict[str, Any] = {
    str(kind.__struct_config__.tag): kind
    for kind in (PubTrace, SubBeforeTrace, SubAfterTrace, EndTransactionTrace, RecallTrace)
}
_FIELDS = {  # in the order of the wire
    kind: tuple((field.name, _READERS[field.type]) for field in msgspec.structs.fields(kind))
    for kind in _KINDS.values()
}


# Values to bytes ----------------------------------------------------------------------


def encode_trace(trace: Trace, release: Release) -> str:
    """One record as a Java client of *release* writes it.

    Optional fields that are empty are left out, as Java clients do.
    """
    fields = msgspec.structs.astuple(trace)
    if isinstance(trace, SubAfterTrace) and release < SUB_AFTER_HAS_TIME:
        fields = fields[:-2]
    while trace.OPTIONAL and fields and fields[-1] == "":
        fields = fields[:-1]
    texts = (trace.__struct_config__.tag, *map(_text, fields))
    return CONTENT_SEPARATOR.join(texts) + RECORD_SEPARATOR  # type: ignore[arg-type]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return NULL if value is None else str(value)


def keys_of(traces: Iterable[Trace]) -> str:
    """The KEYS of a message with *traces*: each message's id, then its keys, without doubles."""
    found: dict[str, None] = {}
    for trace in traces:
        found[trace.msg_id] = None
        if not isinstance(trace, RecallTrace):
            found.update(dict.fromkeys(split_keys(trace.keys)))
    return KEY_SEPARATOR.join(found)
