"""A command is a request or a response: a code, a number, ext fields, a body.

Both header serializations become the same value, whose ext fields stay raw JSON until
the request's own type decodes them in one pass.  When a peer is lax (numbers, booleans
or nulls for strings, odd texts for numbers) a slow tolerant pass reads them again
before the request is refused.

The ROCKETMQ header is the same header as JSON, in 21 fixed bytes and pairs.  It cannot
carry an empty string (length zero means null) and its code is an int16, so the 200050
family does not fit.  A key may come twice: the last one wins.

Upstream: RemotingCommand, RocketMQSerializable.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import msgspec

from rocketmq_emulator.protocol.fields import (
    BadFields,
    Header,
    Int,
    coerce_fields,
    fields_of,
    texts_of,
)
from rocketmq_emulator.protocol.framing import JSON, ROCKETMQ, BadFrame, Frame, encode_frame
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.java.java_convert import DoesNotFit, convert, smart_match_name
from rocketmq_emulator.protocol.versions import (
    LANGUAGE_CODES,
    LANGUAGES,
    NODE_JS_KNOWN,
    R_4_9_7,
    STRICT_UTF8,
    Language,
    NewLanguage,
    Release,
    language_name,
)

__all__ = [
    "NO_EXT",
    "ONE_WAY",
    "RESPONSE",
    "Ext",
    "Header",
    "RemotingCommand",
    "decode_command",
    "decode_without_ext",
    "encode_command",
    "encode_request",
    "encode_response",
    "ext_of",
]

RESPONSE = 1  # flag bit 0
ONE_WAY = 2  # flag bit 1

NO_EXT = msgspec.Raw(b"")
Ext: TypeAlias = Header | msgspec.Raw  # ext fields, or their text


class RemotingCommand(msgspec.Struct, gc=False):
    """One command.  ``ext`` is JSON text, empty when there are no ext fields at all.

    Upstream: RemotingCommand.
    """

    code: Int = 0
    flag: Int = 0
    opaque: Int | None = None  # None: the peer sent none, upstream generates one
    language: NewLanguage | None = "JAVA"
    version: Int = 0
    remark: str | None = None
    ext: msgspec.Raw = msgspec.field(default=NO_EXT, name="extFields")
    body: bytes = msgspec.field(default=b"", name="(body)")  # never a key of a header
    serialize_type: int = msgspec.field(default=JSON, name="(serialize type)")

    @property
    def is_response(self) -> bool:
        """Flag bit 0."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Flag bit 1: the sender expects no response."""
        return bool(self.flag & ONE_WAY)

    def fields(self) -> dict[str, str]:
        """The ext fields as strings, whatever their type in JSON; null ones are left out.

        Raises ``BadFields`` when they are not a map: nothing has parsed them before.
        """
        try:
            given = java_json.read(bytes(self.ext)) if self.ext else None
            if given is None:
                return {}
            if not isinstance(given, Mapping):
                raise BadFields(f"ext fields are a map, not {given!r:.50}")
            return {str(k): java_json.text_of(v) for k, v in given.items() if v is not None}
        except (java_json.NotJson, RecursionError) as error:
            raise BadFields(f"the ext fields cannot be read: {error}") from error

    def decode(self, kind: type[H]) -> H:
        """The ext fields as *kind*.

        Raises ``BadFields``: the peer is at fault, nothing was done.
        """
        if not self.ext:
            return coerce_fields({}, kind)
        decode, truths = _reader(kind)
        try:
            found: H = decode(self.ext)
        except java_json.DECODE_ERRORS:
            return coerce_fields(self.fields(), kind)
        if truths is not None and True in truths(found) and _ONE.search(self.ext):
            return coerce_fields(self.fields(), kind)
        return found


H = TypeVar("H", bound=Header)


_ONE = re.compile(rb':\s*"?1"?\s*[,}]')  # C++ writes 1 for true, which Java reads as false


@functools.cache
def _reader(kind: type[H]) -> tuple[Callable[[msgspec.Raw], H], attrgetter[Any] | None]:
    """The decoder of *kind*, and a getter of its booleans, if it has any."""
    flags = [field.name for field in msgspec.structs.fields(kind) if field.type in _FLAGS]
    # attrgetter of a single name does not return a tuple.
    truths = attrgetter(*flags, flags[0]) if flags else None
    return msgspec.json.Decoder(kind, strict=False).decode, truths


_FLAGS = (bool, bool | None)


def ext_of(header: Ext | None, extra: Mapping[str, str] | None = None) -> msgspec.Raw:
    """The ext fields of a command to send; ``NO_EXT`` without *header* and *extra*.

    Raw ext fields, which are encoded already, are returned unchanged.
    """
    if header is None and extra is None:
        return NO_EXT
    if isinstance(header, msgspec.Raw):
        assert not extra, "encoded ext fields take no extra ones"
        return header
    return msgspec.Raw(_ext_text(header, extra))


def _ext_text(header: Header | None, extra: Mapping[str, str] | None) -> bytes:
    if header is not None and not extra:
        text = java_json.msgspec_texts(texts_of(header))
        if text is not None:
            return text
    fields = fields_of(header) if header is not None else {}
    if extra:
        fields.update(extra)
    return java_json.write_texts(fields)


# Bytes to commands --------------------------------------------------------------------


class _LaxHeader(msgspec.Struct, rename="camel"):
    """A header as fastjson reads it: any member may have another type."""

    code: Int = 0
    flag: Int = 0
    opaque: Int | None = None
    language: NewLanguage | None = None
    version: Int = 0
    remark: str | None = None
    ext_fields: dict[str, str] | None = None


class _OldLaxHeader(_LaxHeader):
    """The same for releases before 5.3.2, which do not know NODE_JS."""

    language: Language | None = None


_decode_json = msgspec.json.Decoder(RemotingCommand).decode


def decode_command(frame: Frame, release: Release = R_4_9_7) -> RemotingCommand:
    """The command as *release* would read it.

    Raises ``BadFrame``: without a header there is no request to answer.
    """
    if frame.serialize_type == JSON:
        try:
            command = _decode_json(frame.header)
        except java_json.DECODE_ERRORS:
            command = _decode_lax(frame.header, release)
        else:
            if command.opaque is None or not command.ext or not frame.header.isascii():
                command = _decode_again(command, frame.header, release)
        command.body = frame.body
        return command
    if frame.serialize_type == ROCKETMQ:
        return _decode_binary(frame, release)
    raise BadFrame(f"serialization type {frame.serialize_type} is unknown")


def decode_without_ext(frame: Frame) -> RemotingCommand:
    """The command of a header too long to read whole, without its ext fields.

    Its number (``opaque``) is enough to refuse a request.  Raises ``BadFrame`` for a header that
    is no strict JSON: to find the number in it would cost too much.
    """
    if frame.serialize_type == ROCKETMQ:
        found = decode_fixed_fields(frame.header)
        return RemotingCommand(
            code=found.code, flag=found.flag, opaque=found.opaque, serialize_type=ROCKETMQ
        )
    try:
        command = _decode_json(frame.header)
    except java_json.DECODE_ERRORS as error:
        raise BadFrame(f"a lax header of {len(frame.header)} bytes is too long") from error
    command.ext = NO_EXT
    return command


def _decode_again(command: RemotingCommand, header: bytes, release: Release) -> RemotingCommand:
    """Decode again if the first pass missed something: names in another case, invalid UTF-8."""
    missed = command.opaque is None or (not command.ext and b"ields" in header)
    if missed or (release >= STRICT_UTF8 and not _is_utf8(header)):
        return _decode_lax(header, release)
    return command


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decode_lax(header: bytes, release: Release) -> RemotingCommand:
    kind = _LaxHeader if release >= NODE_JS_KNOWN else _OldLaxHeader
    try:
        given = java_json.read(header, strict_utf8=release >= STRICT_UTF8)
        found = convert(given, kind)
    except (java_json.NotJson, DoesNotFit, RecursionError) as error:
        raise BadFrame(f"the header is no JSON that fastjson would take: {error}") from error
    assert isinstance(given, dict), "it was converted"
    members = {smart_match_name(str(name)): member for name, member in given.items()}
    if any(isinstance(key, int) for key in members.get("extfields") or ()):
        raise BadFrame("ext fields have names, not numbers")
    ext = found.ext_fields
    return RemotingCommand(
        code=found.code,
        flag=found.flag,
        opaque=found.opaque,
        language=found.language if "language" in members else "JAVA",
        version=found.version,
        remark=found.remark,
        ext=NO_EXT if ext is None else msgspec.Raw(java_json.write_texts(ext)),
    )


def _decode_binary(frame: Frame, release: Release) -> RemotingCommand:
    header, body = frame.header, frame.body
    limit = len(header)
    try:
        found = decode_binary_header(header, limit, release)
    except BadFrame:
        found = None
    if found is None or found.size != limit:
        # Upstream takes as many body bytes as the frame declares, but from the position
        # where it stopped reading the header.
        data = header + body
        found = decode_binary_header(data, limit, release)
        body = data[found.size : found.size + len(body)]
        if len(body) < len(frame.body):
            raise BadFrame("a ROCKETMQ header reaches into the body")
    return RemotingCommand(
        code=found.code,
        flag=found.flag,
        opaque=found.opaque,
        language=found.language,
        version=found.version,
        remark=found.remark,
        ext=NO_EXT if found.ext is None else msgspec.Raw(java_json.write_texts(found.ext)),
        body=body,
        serialize_type=ROCKETMQ,
    )


# Commands to bytes --------------------------------------------------------------------


def encode_command(command: RemotingCommand) -> bytes:
    """The whole frame, its header in the command's own serialization, keys in Java's order."""
    if command.serialize_type == ROCKETMQ:
        header = _encode_binary(command)
    else:
        header = _encode_json(command)
    return encode_frame(command.serialize_type, header, command.body)


# As fastjson writes it: keys sorted, nulls left out.
_JSON_HEADER = (
    b'{"code":%d,%b"flag":%d,%b"opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}'
)


_LANGUAGE = {name: b'"language":"%b",' % name.encode() for name in LANGUAGES}


def _encode_json(command: RemotingCommand) -> bytes:
    ext, language, remark = command.ext, command.language, command.remark
    return _JSON_HEADER % (
        command.code,
        b'"extFields":%b,' % bytes(ext) if ext else b"",
        command.flag,
        b'"language":"%b",' % language.encode() if language is not None else b"",
        command.opaque or 0,
        b'"remark":%b,' % java_json.write_texts(remark) if remark is not None else b"",
        command.version,
    )


def encode_request(
    *,
    code: int,
    flag: int,
    opaque: int,
    version: int,
    ext: msgspec.Raw,
    body: bytes,
    language: Language = "JAVA",
    remark: str | None = None,
) -> bytes:
    """The frame of a JSON request, with the same bytes as from ``encode_command``.

    No ``RemotingCommand`` is constructed.  Raises ``ValueError`` for a frame that is too long.
    """
    fields = b'"extFields":%b,' % ext if ext else b""
    said = b'"remark":%b,' % java_json.write_texts(remark) if remark is not None else b""
    text = _JSON_HEADER % (code, fields, flag, _LANGUAGE[language], opaque, said, version)
    return encode_frame(JSON, text, body)


def encode_response(
    request: RemotingCommand,
    *,
    code: int,
    version: int,
    remark: str | None = None,
    header: Header | None = None,
    extra: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """The frame of a JSON response to *request*, with the same bytes as from ``encode_command``.

    No ``RemotingCommand`` is constructed, because a server does this for every call.  Raises
    ``ValueError`` for a frame that is too long.
    """
    ext = b""
    if header is not None or extra is not None:
        ext = b'"extFields":%b,' % _ext_text(header, extra)
    text = _JSON_HEADER % (
        code,
        ext,
        RESPONSE,
        b'"language":"JAVA",',
        request.opaque or 0,
        b'"remark":%b,' % java_json.write_texts(remark) if remark is not None else b"",
        version,
    )
    return encode_frame(JSON, text, body)


def _encode_binary(command: RemotingCommand) -> bytes:
    return encode_binary_header(
        BinaryHeader(
            code=command.code,
            language=command.language,
            version=command.version,
            opaque=command.opaque or 0,
            flag=command.flag,
            remark=command.remark,
            ext=command.fields(),
        )
    )


# The ROCKETMQ header ------------------------------------------------------------------


_FIXED = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class BinaryHeader(msgspec.Struct, frozen=True):
    """The decoded header, not yet interpreted."""

    code: int = 0
    language: NewLanguage | None = "JAVA"
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext: dict[str, str] | None = None
    size: int = 0  # bytes that were read


def decode_binary_header(data: bytes, limit: int, release: Release) -> BinaryHeader:
    """The header at the start of *data*; no length in it may exceed *limit*, the declared size.

    It may end before or after the declared size, because upstream never compares the two.
    Raises ``BadFrame``.  Upstream: RocketMQSerializable.rocketMQProtocolDecode.
    """
    try:
        code, language, version, opaque, flag, length = _FIXED.unpack_from(data)
        remark = _text(data, _FIXED.size, length, limit)
        at = _FIXED.size + length
        (ext_length,) = _INT32.unpack_from(data, at)
        at += 4
        if ext_length > limit:
            raise BadFrame(f"ext fields of {ext_length} bytes in a header of {limit}")
        ext, at = _pairs(data, at, ext_length) if ext_length > 0 else (None, at)
    except struct.error:
        raise BadFrame("a ROCKETMQ header ends in the middle of a number") from None
    return BinaryHeader(
        code, language_name(language, release), version, opaque, flag, remark, ext, at
    )


def decode_fixed_fields(data: bytes) -> BinaryHeader:
    """The numbers at the start of a header; the rest is not read.  Raises ``BadFrame``."""
    try:
        code, _, version, opaque, flag, _ = _FIXED.unpack_from(data)
    except struct.error:
        raise BadFrame("a ROCKETMQ header ends in the middle of a number") from None
    return BinaryHeader(code, None, version, opaque, flag)


def _pairs(data: bytes, at: int, length: int) -> tuple[dict[str, str], int]:
    """The pairs in *length* bytes, without nulls, and the position after them."""
    end = at + length
    pairs: dict[str, str] = {}
    while at < end:
        (size,) = _INT16.unpack_from(data, at)
        key = _text(data, at + 2, size, length)
        at += 2 + size
        (size,) = _INT32.unpack_from(data, at)
        value = _text(data, at + 4, size, length)
        at += 4 + size
        if key is not None and value is not None:
            pairs[key] = value
        elif key is not None:
            pairs.pop(key, None)
    return pairs, at


def _text(data: bytes, at: int, length: int, limit: int) -> str | None:
    if not 0 <= length <= limit or at + length > len(data):
        raise BadFrame(f"a text of {length} bytes does not fit its ROCKETMQ header")
    return data[at : at + length].decode("utf-8", "replace") if length else None


def encode_binary_header(header: BinaryHeader) -> bytes:
    """The header's bytes; code and version are cut to 16 bits as upstream cuts them.

    Upstream: RocketMQSerializable.rocketMQProtocolEncode.
    """
    remark = (header.remark or "").encode("utf-8", "replace")
    fixed = _FIXED.pack(
        _int16(header.code),
        LANGUAGE_CODES.get(header.language or "JAVA", 0),
        _int16(header.version),
        header.opaque,
        header.flag,
        len(remark),
    )
    pairs = bytearray()
    for key, value in (header.ext or {}).items():
        key_bytes, value_bytes = key.encode(), value.encode("utf-8", "replace")
        pairs += _INT16.pack(_int16(len(key_bytes))) + key_bytes
        pairs += _INT32.pack(len(value_bytes)) + value_bytes
    return b"".join((fixed, remark, _INT32.pack(len(pairs)), pairs))


def _int16(value: int) -> int:
    return (value + 0x8000) % 0x10000 - 0x8000
