"""Several messages in the body of one send, each in a short form of its own.

    size int32   magic 0 int32   crc 0 int32   flag int32
    body int32 + bytes           properties int16 + bytes

They share topic, queue and times; the broker makes a whole record of each.  Unlike the sizes
of records these are checked: a broker must not store a message that it cannot decode.

Upstream: MessageDecoder.encodeMessages, decodeMessages; CommitLog's MessageExtBatchEncoder.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

import msgspec

from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.protocol.messages.properties import PROPERTIES_BYTES_MAX, PROPERTY_SEPARATOR

BATCH_MESSAGES_MAX = 65_536
_HEAD = Struct(">iiiii")  # size, magic, crc, flag, body length
_SHORT = Struct(">h")
_PROPERTY_SEPARATOR = PROPERTY_SEPARATOR.encode()
_BYTES_MIN = _HEAD.size + _SHORT.size


class BadBatch(DamagedData):
    """These bytes are not a batch: the sender is at fault, nothing was stored."""


class BatchMessage(msgspec.Struct, frozen=True):
    """One message of a batch; properties as bytes."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """The body of a send.  Raises ``ValueError`` for properties too long for an int16."""
    parts: list[bytes] = []
    for message in messages:
        body, properties = message.body, message.properties
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise ValueError(
                f"{len(properties)} bytes of properties exceed {PROPERTIES_BYTES_MAX}"
            )
        size = _BYTES_MIN + len(body) + len(properties)
        parts += (
            _HEAD.pack(size, 0, 0, message.flag, len(body)),
            body,
            _SHORT.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def decode_batch(
    data: bytes | memoryview, messages_max: int = BATCH_MESSAGES_MAX
) -> list[BatchMessage]:
    """The messages of a batch, at least one.  Raises ``BadBatch``."""
    found: list[BatchMessage] = []
    at = 0
    while at < len(data):
        if len(found) == messages_max:
            raise BadBatch(f"more than {messages_max} messages")
        message, at = _message_at(data, at)
        found.append(message)
    if not found:
        raise BadBatch("a batch of no messages")
    return found


def with_batch_properties(own: bytes, shared: bytes) -> bytes:
    """A message's *own* properties, followed by those *shared* by the whole batch.

    Of two pairs with one name the later counts, that of the batch: leave out of *shared* the
    names that must not replace a message's own.
    """
    needs_end = own and shared and not own.endswith(_PROPERTY_SEPARATOR)
    return own + _PROPERTY_SEPARATOR + shared if needs_end else own + shared


def _message_at(data: bytes | memoryview, at: int) -> tuple[BatchMessage, int]:
    if at + _BYTES_MIN > len(data):
        raise BadBatch(f"{len(data) - at} bytes at {at} are no message")
    size, _, _, flag, body_length = _HEAD.unpack_from(data, at)
    body_at = at + _HEAD.size
    body_end = body_at + body_length
    if body_length < 0 or body_end + _SHORT.size > len(data):
        raise BadBatch(f"a body of {body_length} bytes at {body_at} does not fit")
    (properties_length,) = _SHORT.unpack_from(data, body_end)
    properties_at = body_end + _SHORT.size
    end = properties_at + properties_length
    if properties_length < 0 or end > len(data):
        raise BadBatch(f"{properties_length} bytes of properties at {properties_at} do not fit")
    if end - at != size:
        raise BadBatch(f"the message at {at} takes {end - at} bytes, its size field is {size}")
    body, properties = bytes(data[body_at:body_end]), bytes(data[properties_at:end])
    return BatchMessage(body, properties, flag), end
