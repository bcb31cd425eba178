"""Encode bodies as a release does, and decode those from peers of any release.

A long configuration file can be written in pieces: the bytes are those of
``encode_config_file``.  Bodies that are sent again and again (heartbeats, registrations, routes)
are encoded once: writing fastjson's dialect is the largest cost of an idle cluster, which sends
the same bodies again.  So an ``EncodedCache`` keeps the last value with its text for each key;
equal values have equal texts.  The values must be immutable.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec

from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.java.java_convert import DoesNotFit, convert
from rocketmq_emulator.protocol.java.java_json_writer import (
    COMPACT,
    PRETTY,
    STANDARD,
    Members,
    Shape,
    Style,
    all_members,
)
from rocketmq_emulator.protocol.versions import Release

LAX_BYTES_MAX = 48 * 1024  # ours: upstream reads lax text of any length


class Body(msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False):
    """A body, or a part of one.  Members that are None are not written.

    Bodies never form reference cycles, so the garbage collector need not track them.
    """

    since: ClassVar[Mapping[str, Release]] = {}  # members that older releases do not write


B = TypeVar("B", bound=msgspec.Struct)
K = TypeVar("K")


def encode_body(value: object, release: Release, *, standard: bool = False) -> bytes:
    """The text that a peer of *release* would send; *standard* for clients that need real JSON.

    Upstream: RemotingSerializable.encode, TopicRouteData's standard form in the NameServer.
    """
    return _encode(value, release, STANDARD if standard else COMPACT)


def encode_config_file(value: object, release: Release) -> bytes:
    """The text of a configuration file.  Upstream: RemotingSerializable.toJson(value, true)."""
    return _encode(value, release, PRETTY)


def decode_body(data: bytes, kind: type[B]) -> B:
    """The body as *kind*.

    Raises ``BadFields`` when fastjson could not read it either, or when it is lax and longer
    than ``LAX_BYTES_MAX``: reading it member by member takes forty times as long.
    """
    quick = _decoder(kind)
    if quick is None:
        return _decode_tolerantly(data, kind)
    try:
        found: B = quick.decode(data)
    except java_json.DECODE_ERRORS as error:
        if len(data) > LAX_BYTES_MAX:
            raise BadFields(
                f"the body is no {kind.__name__} in strict JSON, and with {len(data)} bytes too "
                f"long for the lax reader: the limit is {LAX_BYTES_MAX}: {error}"
            ) from error
        return _decode_tolerantly(data, kind)
    return found


def decode_unlimited_body(data: bytes, kind: type[B]) -> B:
    """As ``decode_body``, of any length: for answers and files.  Raises ``BadFields``."""
    quick = _decoder(kind)
    if quick is not None:
        with contextlib.suppress(*java_json.DECODE_ERRORS):
            found: B = quick.decode(data)
            return found
    return _decode_tolerantly(data, kind)


def _decode_tolerantly(data: bytes, kind: type[B]) -> B:
    try:
        return convert(java_json.read(data), kind)
    except (java_json.NotJson, DoesNotFit, RecursionError) as error:
        raise BadFields(f"the body is no {kind.__name__}: {error}") from error


def _encode(value: object, release: Release, style: Style) -> bytes:
    return java_json.write(value, _shape(release), style)


@functools.cache
def _shape(release: Release) -> Shape:
    """One object a release, because the writer uses it as a key of its caches."""
    return functools.partial(_members, release=release)


@functools.cache
def _members(kind: type, release: Release) -> Members:
    since: Mapping[str, Release] = getattr(kind, "since", {})
    return tuple(
        (attribute, name)
        for attribute, name in all_members(kind)
        if attribute not in since or release >= since[attribute]
    )


@functools.cache
def _decoder(kind: type[B]) -> msgspec.json.Decoder[B] | None:
    try:
        return msgspec.json.Decoder(kind, strict=False)
    except TypeError:  # a map whose keys are objects
        return None


# Configuration files in pieces --------------------------------------------------------


_BEGIN, _END = b'{\n\t"":{', b"\n\t}\n}"


def config_entries(piece: Mapping[K, object], release: Release) -> bytes:
    """The entries of *piece* as they stand in a map that is a member of the file."""
    if not piece:
        return b""
    return encode_config_file({"": piece}, release).removeprefix(_BEGIN).removesuffix(_END)


def filled_config_file(
    empty: Body, entries: Mapping[str, Sequence[bytes]], release: Release
) -> bytes:
    """The text of *empty* with these *entries* in its maps, by their name on the wire."""
    text = encode_config_file(empty, release)
    for name, pieces in entries.items():
        if any(pieces):
            begin = b'"%b":{' % name.encode()
            whole = begin + b",".join(filter(None, pieces)) + b"\n\t}"
            text = text.replace(begin + b"}", whole, 1)
    return text


# Cached texts --------------------------------------------------------------------------


TEXTS_MAX = 1_000  # ours: then the cache is emptied

Value = TypeVar("Value")


class EncodedCache(Generic[Value]):
    """The last value and its text for each key; *encode* makes a text that is not cached."""

    def __init__(self, encode: Callable[[Value], bytes]) -> None:
        self._encode = encode
        self._texts: dict[Hashable, tuple[Value, bytes]] = {}

    def text(self, value: Value, key: Hashable = None) -> bytes:
        """The encoded *value*.  Values that are sent alternately need different keys."""
        known = self._texts.get(key)
        if known is not None and known[0] == value:
            return known[1]
        text = self._encode(value)
        if len(self._texts) >= TEXTS_MAX:
            self._texts.clear()
        self._texts[key] = (value, text)
        return text
