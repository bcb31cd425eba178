"""Ext fields: the flat map of strings that carries a request's arguments.

A header is a struct whose encoded names are the keys on the wire.  Encoding writes every
value as Java's text and leaves nulls out.  Decoding turns strings into the field's type.
A required field that is absent or not a number is refused at once (upstream reads null
and fails on it later).  An optional one that is not a number counts as absent, except
in the few headers with hand-written decoders upstream, which refuse it.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import msgspec

from rocketmq_emulator.protocol.error_families import DamagedData

_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-_INT_MAX - 1, le=_INT_MAX)]  # Java's int
Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-_LONG_MAX - 1, le=_LONG_MAX)]  # Java's long

_NUMBER = re.compile(r"[+-]?\d+")  # \d and Java's digits are those of any script


class BadFields(DamagedData):
    """Ext fields or a body do not fit the request: the peer is at fault, nothing was done."""


class Header(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Ext fields of one request or reply; a field's camelCase name is its key on the wire."""

    # Whether an optional field that is not a number is refused instead of ignored.
    strict_numbers: ClassVar[bool] = False


H = TypeVar("H", bound=Header)


class _Field(NamedTuple):
    attribute: str
    key: str
    kind: type  # int, bool or str
    limit: int  # the largest value of its Java type
    required: bool


@functools.cache
def _fields(kind: type[Header]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple(
        _Field(f.name, f.encode_name, *_plain(hints[f.name]), f.required)
        for f in msgspec.structs.fields(kind)
    )


def _plain(hint: object) -> tuple[type, int]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    if hint is bool:
        return bool, 1
    if hint is Int:
        return int, _INT_MAX
    return (int, _LONG_MAX) if hint in (int, Long) else (str, 0)


def fields_of(header: Header) -> dict[str, str]:
    """The header as ext fields, nulls left out, booleans as Java writes them."""
    keys, values_of = _keys(type(header))
    return {
        key: value if (kind := type(value)) is str else _TEXTS[kind](value)
        for key, value in zip(keys, values_of(header), strict=True)
        if value is not None
    }


def texts_of(header: Header) -> msgspec.Struct:
    """The same keys and texts as from ``fields_of``, as a struct that msgspec can write.

    Makes no dict and converts only values that are no text: half the time of ``fields_of``.
    """
    make, numbers = _text_struct(type(header))
    texts = [*_keys(type(header))[1](header)]
    for place in numbers:
        value = texts[place]
        if value is not None:
            texts[place] = _TEXTS[type(value)](value)
    return make(*texts)


_TEXTS: Mapping[type, Callable[[Any], str]] = {
    int: int.__repr__,
    bool: {True: "true", False: "false"}.__getitem__,
}


@functools.cache
def _keys(kind: type[Header]) -> tuple[tuple[str, ...], Callable[[Header], tuple[Any, ...]]]:
    """The keys on the wire, and a getter of all values: this runs for every reply."""
    fields = msgspec.structs.fields(kind)
    names = [field.name for field in fields]
    if len(names) < 2:  # attrgetter of one name gives no tuple
        return tuple(f.encode_name for f in fields), lambda h: tuple(getattr(h, n) for n in names)
    return tuple(f.encode_name for f in fields), attrgetter(*names)


@functools.cache
def _text_struct(kind: type[Header]) -> tuple[type[msgspec.Struct], tuple[int, ...]]:
    """A struct of texts, absent ones left out, and the indices of the other fields of *kind*."""
    fields = _fields(kind)
    struct = msgspec.defstruct(
        f"{kind.__name__}Texts",
        [(field.attribute, str | None, None) for field in fields],
        rename={field.attribute: field.key for field in fields},
        omit_defaults=True,
        gc=False,
    )
    return struct, tuple(at for at, field in enumerate(fields) if field.kind is not str)


def coerce_fields(given: Mapping[str, str], kind: type[H]) -> H:
    """*given* as *kind*, slow and tolerant: any text for a boolean, numbers as Java reads them."""
    values: dict[str, int | bool | str] = {}
    for field in _fields(kind):
        text = given.get(field.key)
        value = None if text is None else _READ[field.kind](text, field.limit)
        if value is not None:
            values[field.attribute] = value
        elif field.required or (text is not None and kind.strict_numbers):
            raise BadFields(_error_text(field, text))
    try:
        return kind(**values)
    except ValueError as error:  # the header's own check of its values
        raise BadFields(str(error)) from error


def _error_text(field: _Field, text: str | None) -> str:
    if text is None:
        return f"the custom field <{field.key}> is null"
    return f"the field {field.key} is a number, not {text!r}"


def _read_int(text: str, limit: int) -> int | None:
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return None
    value = int(text)
    return value if -limit - 1 <= value <= limit else None


_READ: dict[type, Callable[[str, int], int | bool | str | None]] = {
    int: _read_int,
    bool: lambda text, _: text.lower() == "true",
    str: lambda text, _: text,
}
