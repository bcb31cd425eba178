"""Ext fields: the flat map of strings that carries a request's arguments.

A header is a struct whose encoded names are the keys on the wire.  Out, every value
becomes its Java text and nulls are left out.  In, strings become the field's type; a
number that is no number is refused, because upstream fails on it too.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec


class BadFields(Exception):
    """The ext fields or the body do not fit the request: the peer is at fault, nothing was done."""


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """Ext fields of one request or reply; a field's camelCase name is its key on the wire."""


H = TypeVar("H", bound=Header)


class _Field(NamedTuple):
    attribute: str
    key: str
    kind: type  # int, bool or str
    required: bool


@functools.cache
def _fields(kind: type[Header]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        _Field(f.name, f.encode_name, _plain(hints[f.name]), f.required)
        for f in msgspec.structs.fields(kind)
    )


def _plain(hint: Any) -> type:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return hint if hint in (int, bool) else str


def fields_of(header: Header) -> dict[str, str]:
    """The header as ext fields, nulls left out, booleans as Java writes them."""
    out = {}
    for attribute, key, kind, _ in _fields(type(header)):
        value = getattr(header, attribute)
        if value is None:
            continue
        if kind is bool:
            out[key] = "true" if value else "false"
        else:
            out[key] = value if kind is str else str(value)
    return out


def coerce_fields(given: Mapping[str, str], kind: type[H]) -> H:
    """The slow tolerant reading: any text for a boolean, spaces around nothing, absent is null."""
    values = {}
    for attribute, key, plain, required in _fields(kind):
        text = given.get(key)
        if text is None:
            if required:
                raise BadFields(f"the custom field <{key}> is null")
            continue
        values[attribute] = text if plain is str else _parsed(key, text, plain)
    return kind(**values)


def _parsed(key: str, text: str, kind: type) -> int | bool:
    if kind is bool:
        return text.lower() == "true"
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BadFields(f"the field {key} wants a number, not {text!r}")
    return int(text)
