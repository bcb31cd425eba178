"""A command is a request or a response: a code, a number, ext fields, a body.

Both header serializations become the same value, whose ext fields stay raw JSON until
the request's own type decodes them in one pass.  When a peer is lax (numbers, booleans
or nulls for strings, odd texts for numbers) a slow tolerant pass reads them again
before the request is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import msgspec

from protocol import java_json
from protocol.binary_header import (
    BinaryHeader,
    decode_binary_header,
    decode_start,
    encode_binary_header,
)
from protocol.fields import BadFields, Header, Int, coerce_fields, fields_of, texts_of
from protocol.framing import JSON, ROCKETMQ, BadFrame, Frame, encode_parts
from protocol.java_convert import DoesNotFit, convert, plain_name
from protocol.languages import LANGUAGES, Language, NewLanguage
from protocol.versions import NODE_JS_KNOWN, R_4_9_7, STRICT_UTF8, Release

__all__ = [
    "NO_EXT",
    "ONE_WAY",
    "RESPONSE",
    "Ext",
    "Header",
    "RemotingCommand",
    "decode_command",
    "decode_long",
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
        """The ext fields as strings, however they came; null ones are absent.

        Raises ``BadFields`` when they are not a map: they are parsed here for the first time.
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
        except java_json.UNREADABLE:
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
    """Ext fields of a command that is to be sent; no header and nothing extra: none at all.

    Those that were written already are taken as they are.
    """
    if header is None and extra is None:
        return NO_EXT
    if isinstance(header, msgspec.Raw):
        assert not extra, "what is written already takes no more"
        return header
    return msgspec.Raw(_ext_text(header, extra))


def _ext_text(header: Header | None, extra: Mapping[str, str] | None) -> bytes:
    if header is not None and not extra:
        text = java_json.quick_texts(texts_of(header))
        if text is not None:
            return text
    fields = fields_of(header) if header is not None else {}
    if extra:
        fields.update(extra)
    return java_json.write_texts(fields)


# Bytes to commands --------------------------------------------------------------------


class _LaxHeader(msgspec.Struct, rename="camel"):
    """A header as fastjson reads it: any member may be odd."""

    code: Int = 0
    flag: Int = 0
    opaque: Int | None = None
    language: NewLanguage | None = None
    version: Int = 0
    remark: str | None = None
    ext_fields: dict[str, str] | None = None


class _OldLaxHeader(_LaxHeader):
    """The same, read before 5.3.2, when there was no NODE_JS."""

    language: Language | None = None


_decode_json = msgspec.json.Decoder(RemotingCommand).decode


def decode_command(frame: Frame, release: Release = R_4_9_7) -> RemotingCommand:
    """The command as *release* would read it.

    Raises ``BadFrame``: without a header there is no request to answer.
    """
    if frame.serialize_type == JSON:
        try:
            command = _decode_json(frame.header)
        except java_json.UNREADABLE:
            command = _decode_lax(frame.header, release)
        else:
            if command.opaque is None or not command.ext or not frame.header.isascii():
                command = _decode_again(command, frame.header, release)
        command.body = frame.body
        return command
    if frame.serialize_type == ROCKETMQ:
        return _decode_binary(frame, release)
    raise BadFrame(f"serialization type {frame.serialize_type} is unknown")


def decode_long(frame: Frame) -> RemotingCommand:
    """The command of a header too long to read whole, without its ext fields.

    A request can then be refused by its number.  Raises ``BadFrame`` for a header that is
    no strict JSON: to find the number in it would cost too much.
    """
    if frame.serialize_type == ROCKETMQ:
        found = decode_start(frame.header)
        return RemotingCommand(
            code=found.code, flag=found.flag, opaque=found.opaque, serialize_type=ROCKETMQ
        )
    try:
        command = _decode_json(frame.header)
    except java_json.UNREADABLE as error:
        raise BadFrame(f"a lax header of {len(frame.header)} bytes is too long") from error
    command.ext = NO_EXT
    return command


def _decode_again(command: RemotingCommand, header: bytes, release: Release) -> RemotingCommand:
    """Decode again what the first pass may miss: names in another case, bytes not UTF-8."""
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
    members = {plain_name(str(name)): member for name, member in given.items()}
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
        # Upstream takes as many body bytes as the frame declares, but from where its
        # header happened to end.
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
    return encode_parts(command.serialize_type, header, command.body)


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
) -> bytes:
    """The frame of a JSON request, the same as ``encode_command`` would make it.

    No command is made for it.  Raises ``ValueError`` for a frame that is too long.
    """
    fields = b'"extFields":%b,' % ext if ext else b""
    text = _JSON_HEADER % (code, fields, flag, _LANGUAGE[language], opaque, b"", version)
    return encode_parts(JSON, text, body)


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
    """The frame of a JSON response to *request*, the same as ``encode_command`` would make it.

    A server does this for every call, so no command is made for it.  Raises ``ValueError``
    for a frame that is too long.
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
    return encode_parts(JSON, text, body)


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
