"""A command is a request or a response: a code, a number, ext fields, a body.

Both header serializations become the same value, whose ext fields stay raw JSON until
the request's own type decodes them in one pass.  When a peer is lax (numbers, booleans
or nulls for strings, odd texts for numbers) a slow tolerant pass reads them again
before the request is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from protocol import java_json
from protocol.binary_header import decode_binary_header, encode_binary_header
from protocol.fields import BadFields, Header, coerce_fields, fields_of
from protocol.framing import JSON, ROCKETMQ, BadFrame, Frame, encode_frame

RESPONSE = 1  # flag bit 0
ONE_WAY = 2  # flag bit 1

NO_EXT = msgspec.Raw(b"")
_LAX = (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError)


class RemotingCommand(msgspec.Struct):
    """One command.  ``ext`` is JSON text, empty when there are no ext fields at all.

    Upstream: RemotingCommand.
    """

    code: int = 0
    flag: int = 0
    opaque: int | None = None
    language: str | int | None = "JAVA"
    version: int = 0
    remark: str | None = None
    ext: msgspec.Raw = msgspec.field(default=NO_EXT, name="extFields")
    body: bytes = msgspec.field(default=b"", name="(body)")  # no peer names these two
    serialize_type: int = msgspec.field(default=JSON, name="(serialize type)")

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & ONE_WAY)

    def fields(self) -> dict[str, str]:
        """The ext fields as strings, however they came; null ones are absent."""
        if not self.ext:
            return {}
        given = java_json.read(bytes(self.ext))
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise BadFields(f"ext fields are a map, not {type(given).__name__}")
        return {str(k): java_json.text_of(v) for k, v in given.items() if v is not None}

    def decode(self, kind: type[H]) -> H:
        """The ext fields as *kind*.  Raises ``BadFields``: the peer is at fault, nothing was done."""
        if self.ext:
            try:
                return _decoder(kind).decode(self.ext)
            except _LAX:
                return coerce_fields(self.fields(), kind)
        return coerce_fields({}, kind)


H = TypeVar("H", bound=Header)


@functools.cache
def _decoder(kind: type[H]) -> msgspec.json.Decoder[H]:
    return msgspec.json.Decoder(kind, strict=False)


def ext_of(header: Header | None, extra: Mapping[str, str] | None = None) -> msgspec.Raw:
    """Ext fields of a command that is to be sent; no header and nothing extra: none at all."""
    if header is None and extra is None:
        return NO_EXT
    fields = fields_of(header) if header is not None else {}
    if extra:
        fields.update(extra)
    return msgspec.Raw(java_json.write(fields))


# Bytes to commands --------------------------------------------------------------------


_decode_json = msgspec.json.Decoder(RemotingCommand).decode


def decode_command(frame: Frame) -> RemotingCommand:
    """Raises ``BadFrame``: a header that cannot be read leaves nobody to answer."""
    if frame.serialize_type == JSON:
        try:
            command = _decode_json(frame.header)
        except _LAX:
            command = _decode_lax(frame.header)
    elif frame.serialize_type == ROCKETMQ:
        command = _decode_binary(frame.header)
    else:
        raise BadFrame(f"serialization type {frame.serialize_type} is unknown")
    command.body = frame.body
    return command


def _decode_lax(header: bytes) -> RemotingCommand:
    try:
        given = java_json.read(header)
        ext = given.pop("extFields", None)
        command = msgspec.convert(given, RemotingCommand, strict=False)
    except (*_LAX, AttributeError, TypeError, ValueError) as error:
        raise BadFrame(f"the header is no JSON that fastjson would take: {error}") from error
    if ext is not None:
        command.ext = msgspec.Raw(msgspec.json.encode(ext))
    return command


def _decode_binary(header: bytes) -> RemotingCommand:
    found = decode_binary_header(header)
    ext = NO_EXT if found.ext is None else msgspec.Raw(msgspec.json.encode(found.ext))
    return RemotingCommand(
        code=found.code,
        flag=found.flag,
        opaque=found.opaque,
        language=found.language,
        version=found.version,
        remark=found.remark,
        ext=ext,
        serialize_type=ROCKETMQ,
    )


# Commands to bytes --------------------------------------------------------------------


def encode_command(command: RemotingCommand) -> bytes:
    """The whole frame, its header in the command's own serialization, keys in Java's order."""
    if command.serialize_type == ROCKETMQ:
        header = encode_binary_header(
            command.code,
            command.language,
            command.version,
            command.opaque or 0,
            command.flag,
            command.remark,
            command.fields() or None,
        )
    else:
        header = encode_json_header(command)
    return encode_frame(Frame(command.serialize_type, header, command.body))


def encode_json_header(command: RemotingCommand) -> bytes:
    ext, remark = command.ext, command.remark
    return b'{"code":%d,%b"flag":%d,"language":%b,"opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}' % (
        command.code,
        b'"extFields":%b,' % bytes(ext) if ext else b"",
        command.flag,
        b'"%b"' % command.language.encode() if isinstance(command.language, str) else b'"JAVA"',
        command.opaque or 0,
        b'"remark":%b,' % java_json.write(remark) if remark is not None else b"",
        command.version,
    )
