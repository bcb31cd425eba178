"""One stored message as bytes: the layout of the commit log, and of every pull answer.

    size    int32  the whole record, this field included
    magic   int32  V1, V2 (topics longer than 127 bytes), or blank: the rest of a file
    crc     int32  of the body as stored, without the sign bit
    queue   int32    flag      int32    queue offset    int64
    position int64   sys flag  int32    born time       int64    born host  8 or 20
    store time int64 store host 8 or 20 reconsume times int32    prepared offset int64
    body    int32 + bytes      topic 1 or 2 + bytes     properties 2 + bytes

A record is encoded once, when it is appended; pull answers are slices of the log.  This is the
hottest code of the package: one ``pack`` for all fixed fields, one ``join``.

Upstream: CommitLog.DefaultAppendMessageCallback, MessageDecoder.decode.
"""

from __future__ import annotations

import re
import struct
from struct import Struct
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.protocol.flags import BORN_HOST_V6, STORE_HOST_V6
from rocketmq_emulator.protocol.messages.properties import PROPERTIES_BYTES_MAX, decode_properties

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
BLANK_MAGIC = 0xCBD43194
BLANK_BYTES_MIN = 8  # CommitLog.END_FILE_MIN_BLANK_LENGTH
V1_TOPIC_BYTES_MAX = 127
V2_TOPIC_BYTES_MAX = 32767

Buffer = bytes | bytearray | memoryview


class BadRecord(DamagedData):
    """These bytes are not a record: cut short, damaged, or something else."""


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """One decoded record.  Body and properties are as stored; hosts are packed bytes."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    position: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties: bytes
    end: int
    """Where in the buffer the next record begins, by the fields' lengths and not by ``size``."""

    def property_map(self) -> dict[str, str]:
        """The decoded properties; of a name given twice the last counts."""
        return decode_properties(self.properties)


class _Layout(NamedTuple):
    head: Struct
    host_flags: int


def _layout(born_bytes: int, store_bytes: int, host_flags: int) -> _Layout:
    return _Layout(Struct(f">iIIiiqqiq{born_bytes}sq{store_bytes}siqi"), host_flags)


_LAYOUTS = {  # by the lengths of born and store host
    (8, 8): _layout(8, 8, 0),
    (20, 8): _layout(20, 8, BORN_HOST_V6),
    (8, 20): _layout(8, 20, STORE_HOST_V6),
    (20, 20): _layout(20, 20, BORN_HOST_V6 | STORE_HOST_V6),
}
_HOST_FLAGS = BORN_HOST_V6 | STORE_HOST_V6
_HEADS = {layout.host_flags: layout.head for layout in _LAYOUTS.values()}
_HEAD_V4 = _HEADS[0]
_SYS_FLAG_AT = 36
_INT = Struct(">i")
_SHORT = Struct(">h")
SIZE_AND_MAGIC = Struct(">iI")
_MAGICS = {MAGIC_V1, MAGIC_V2}


def _index_head(born_bytes: int, store_bytes: int) -> Struct:
    """Magic, CRC, queue id, queue offset, position, sys flag, store time, body length."""
    return Struct(f">4xIIi4xqqi8x{born_bytes}xq{store_bytes}x4x8xI")


_INDEX_HEADS = {layout.host_flags: _index_head(*sizes) for sizes, layout in _LAYOUTS.items()}
_INDEX_HEAD_V4 = _INDEX_HEADS[0]
_STORE_MS_V4, _STORE_MS_V6 = Struct(">56xq"), Struct(">68xq")
_MAGIC_BYTES = re.compile(b"\xda\xa3\x20[\xa7\xab]")
_POSITION = Struct(">28xq")
POSITION_END = _POSITION.size  # bytes at the start of a record up to its position
STORE_TIME_END = _STORE_MS_V6.size  # bytes that always contain its store time

# Topic, queue id, queue offset, position, size, sys flag, store time, properties.
IndexFields: TypeAlias = tuple[bytes, int, int, int, int, int, int, bytes]


def encode_record(
    topic: bytes,
    body: bytes,
    properties: bytes,
    *,
    queue_id: int,
    queue_offset: int,
    position: int,
    flag: int = 0,
    sys_flag: int = 0,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
) -> bytes:
    """The record's bytes; the host bits of *sys_flag* are set from the hosts.

    Raises ``ValueError`` when topic or properties are too long for their length fields,
    or a host is neither 8 nor 20 bytes.
    """
    topic_length, properties_length = len(topic), len(properties)
    if properties_length > PROPERTIES_BYTES_MAX or topic_length > V2_TOPIC_BYTES_MAX:
        raise ValueError(f"{topic_length} bytes of topic, {properties_length} of properties")
    if (layout := _LAYOUTS.get((len(born_host), len(store_host)))) is None:
        raise ValueError(f"hosts of {len(born_host)} and {len(store_host)} bytes, not 8 or 20")
    head, host_flags = layout
    if topic_length <= V1_TOPIC_BYTES_MAX:
        magic, topic_word = MAGIC_V1, topic_length.to_bytes(1, "big")
    else:
        magic, topic_word = MAGIC_V2, topic_length.to_bytes(2, "big")
    body_length = len(body)
    size = head.size + body_length + len(topic_word) + topic_length + 2 + properties_length
    crc, flags = crc32(body) & 0x7FFFFFFF, sys_flag & ~_HOST_FLAGS | host_flags
    words = (size, magic, crc, queue_id, flag, queue_offset, position, flags)
    times = (born_ms, born_host, store_ms, store_host, reconsume_times, prepared_offset)
    fixed = head.pack(*words, *times, body_length)
    properties_word = properties_length.to_bytes(2, "big")
    return b"".join((fixed, body, topic_word, topic, properties_word, properties))


def encode_blank(size: int) -> bytes:
    """The blank record: it marks the last *size* bytes of a file as unused."""
    return SIZE_AND_MAGIC.pack(size, BLANK_MAGIC)


def decode_record(buffer: Buffer, at: int = 0, *, magic_matters: bool = True) -> StoredMessage:
    """The record that begins at *at*.  Raises ``BadRecord``.

    The record is decoded field by field; its size and its CRC are not checked.
    4.9 clients do not check the magic and read every topic length as one byte: use
    ``magic_matters=False`` for them.
    """
    try:
        return _decode_fields(buffer, at, magic_matters=magic_matters)
    except struct.error as error:
        raise BadRecord(f"the record at {at} is cut short: {error}") from None


def decode_checked(buffer: Buffer, at: int = 0) -> StoredMessage:
    """The record that begins at *at*, with its size and its CRC checked.  Raises ``BadRecord``."""
    message = decode_record(buffer, at)
    if message.end - at != message.size:
        raise BadRecord("its lengths do not add up")
    if crc32(message.body) & 0x7FFFFFFF != message.body_crc:
        raise BadRecord("the body does not have its CRC")
    return message


def decode_records(buffer: Buffer, *, magic_matters: bool = True) -> list[StoredMessage]:
    """The records in the body of a pull answer, up to the first damaged one.

    Upstream: MessageDecoder.decodes.
    """
    found = []
    at, end = 0, len(buffer)
    while at < end:
        try:
            message = decode_record(buffer, at, magic_matters=magic_matters)
        except BadRecord:
            break
        found.append(message)
        at = message.end
    return found


def check_record(buffer: Buffer, at: int, limit: int) -> int | str:
    """Check the untrusted bytes from *at* to *limit*.

    Returns the size of the whole valid record at *at*; 0 for the blank that ends a file;
    else the reason why there is no valid record.  Upstream: CommitLog.checkMessageAndReturnSize.
    """
    if at + BLANK_BYTES_MIN > limit:
        return f"{limit - at} bytes are too few for a record"
    size: int
    size, magic = SIZE_AND_MAGIC.unpack_from(buffer, at)
    if magic == BLANK_MAGIC:
        return 0
    if not 0 < size <= limit - at:
        return f"a record of {size} bytes does not end before {limit}"
    try:
        index_fields(buffer, at, at + size)
    except BadRecord as reason:
        return str(reason)
    return size


def index_fields(
    buffer: Buffer, at: int, end: int, *, body_is_checked: bool = True
) -> IndexFields:
    """The fields that an index keeps of the record from *at* to *end*.  Raises ``BadRecord``.

    Checked: the magic is known, the lengths add up to *end*, the body has its CRC (on wish).
    Hosts, times and the body itself are skipped, because a log has millions of records.
    """
    head = _INDEX_HEAD_V4
    try:
        fields = head.unpack_from(buffer, at)
        if fields[5] & _HOST_FLAGS:
            head = _INDEX_HEADS[fields[5] & _HOST_FLAGS]
            fields = head.unpack_from(buffer, at)
        magic, crc, queue_id, queue_offset, position, sys_flag, store_ms, body_size = fields
        body_at = at + head.size
        body_end = body_at + body_size
        tail = bytes(buffer[body_end:end])
        if magic == MAGIC_V1:
            topic_end = 1 + tail[0] if tail else 1
            topic = tail[1:topic_end]
        elif magic == MAGIC_V2:
            topic_end = 2 + int.from_bytes(tail[:2], "big")
            topic = tail[2:topic_end]
        else:
            raise BadRecord(f"magic {magic:#010x} is not that of a record")
        (properties_size,) = _SHORT.unpack_from(tail, topic_end)
    except struct.error as error:
        raise BadRecord(f"it is cut short: {error}") from None
    properties = tail[topic_end + 2 :]
    if len(properties) != properties_size or (magic == MAGIC_V1 and topic_end > 128):
        raise BadRecord("its lengths do not add up")
    if body_is_checked and crc32(buffer[body_at:body_end]) & 0x7FFFFFFF != crc:
        raise BadRecord("the body does not have its CRC")
    return topic, queue_id, queue_offset, position, end - at, sys_flag, store_ms, properties


def find_record_positions(data: bytes, position: int) -> list[int]:
    """Positions of the records, whole or damaged, that begin in a log's *data* at *position*.

    A record contains its own position, so other bytes are hardly ever mistaken for a record.
    """
    starts = (match.start() - 4 for match in _MAGIC_BYTES.finditer(data))
    return [
        position + at
        for at in starts
        if 0 <= at <= len(data) - POSITION_END
        and _POSITION.unpack_from(data, at)[0] == position + at
    ]


def properties_block(record: Buffer) -> bytes:
    """The properties of a whole *record* of the log, encoded: its last field."""
    (sys_flag,) = _INT.unpack_from(record, _SYS_FLAG_AT)
    body_at = _HEADS[sys_flag & _HOST_FLAGS].size
    (body_bytes,) = _INT.unpack_from(record, body_at - 4)
    topic_at = body_at + body_bytes
    if SIZE_AND_MAGIC.unpack_from(record)[1] == MAGIC_V2:
        topic_end = topic_at + 2 + int(_SHORT.unpack_from(record, topic_at)[0])
    else:
        topic_end = topic_at + 1 + record[topic_at]
    return bytes(record[topic_end + 2 :])


def stored_at_ms(head: Buffer) -> int:
    """The store time of the record that begins with *head*, ``STORE_TIME_END`` bytes of it."""
    (sys_flag,) = _INT.unpack_from(head, _SYS_FLAG_AT)
    layout = _STORE_MS_V6 if sys_flag & BORN_HOST_V6 else _STORE_MS_V4
    store_ms: int = layout.unpack_from(head)[0]
    return store_ms


def _decode_fields(buffer: Buffer, at: int, *, magic_matters: bool) -> StoredMessage:
    head = _HEAD_V4
    fields = head.unpack_from(buffer, at)
    if host_flags := fields[7] & _HOST_FLAGS:
        head = _HEADS[host_flags]
        fields = head.unpack_from(buffer, at)
    magic, body_length = fields[1], fields[-1]
    if magic_matters and magic not in _MAGICS:
        raise BadRecord(f"magic {magic:#010x} is not that of a record")
    body_at = at + head.size
    topic_at = body_at + body_length
    if body_length < 0 or topic_at >= len(buffer):
        raise BadRecord(f"a body of {body_length} bytes does not fit")
    if magic_matters and magic == MAGIC_V2:
        (topic_length,) = _SHORT.unpack_from(buffer, topic_at)
        topic_at += 2
    else:
        topic_length = buffer[topic_at]
        topic_at += 1
        if topic_length > V1_TOPIC_BYTES_MAX:
            raise BadRecord("a topic of negative length")
    properties_at = topic_at + topic_length + 2
    (properties_length,) = _SHORT.unpack_from(buffer, properties_at - 2)
    end = properties_at + properties_length
    if topic_length < 0 or properties_length < 0 or end > len(buffer):
        raise BadRecord(f"{properties_length} bytes of properties do not fit")
    values: tuple[Any, ...] = (
        *fields[:-1],
        bytes(buffer[body_at : body_at + body_length]),
        str(buffer[topic_at : topic_at + topic_length], "utf-8", "replace"),
        bytes(buffer[properties_at:end]),
        end,
    )
    return StoredMessage(*values)
