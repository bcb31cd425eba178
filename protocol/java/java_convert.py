"""Decoded JSON values into typed structs, as leniently as fastjson fills its beans.

Numbers may come as text and text as numbers, enums by number or in any case, names in
any case or with underscores, one object in place of a list, a map's key as the text
of an object.  A null, or an unknown enum name, leaves the field at its default; in a map it
leaves the key out, or makes the map invalid if upstream has a ConcurrentMap.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.protocol.java.java_json import JavaDate, read_tolerantly, text_of

S = TypeVar("S", bound=msgspec.Struct)
K = TypeVar("K")
V = TypeVar("V")


class NoNulls:
    """Marks a map that may hold no null."""


# Upstream: ConcurrentMap, which fails on a null where a HashMap keeps it.
ConcurrentMap: TypeAlias = Annotated[dict[K, V], NoNulls]

_TRUE = ("true", "1", "Y", "T")
_FALSE = ("false", "0", "N", "F")


class DoesNotFit(DamagedData, ValueError):
    """A value that fastjson would not put into such a field."""


def convert(value: object, kind: type[S]) -> S:
    """The value as a struct.  Raises ``DoesNotFit``."""
    if not isinstance(value, Mapping):
        raise DoesNotFit(f"a {kind.__name__} is an object, not {value!r:.50}")
    fields = _fields(kind)
    given = {}
    for name, member in value.items():
        field = fields.get(str(name)) or fields.get(smart_match_name(str(name)))
        if field is None:
            continue
        attribute, hint = field
        found = _as(member, hint, attribute)
        if found is not None:
            given[attribute] = found
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:  # a required member is missing, or a check fails
        raise DoesNotFit(str(error)) from error


def smart_match_name(name: str) -> str:
    """A name as fastjson's smart matching compares it."""
    return name.lower().replace("_", "").replace("-", "")


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    exact = {f.encode_name: (f.name, hints[f.name]) for f in msgspec.structs.fields(kind)}
    return {**{smart_match_name(name): field for name, field in exact.items()}, **exact}


def _as(value: object, hint: object, where: str) -> object:
    """The value as the hinted type, or None where fastjson would leave or set null."""
    if value is None:
        return None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is not None:
        return _AS_GENERIC[origin](value, args, where)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return convert(value, hint)
    if isinstance(value, JavaDate) and hint in (int, float, bool):
        raise DoesNotFit(f"{where} is no date")
    return _AS_SCALAR[hint](value, where) if hint in _AS_SCALAR else value


def _as_optional(value: object, hints: tuple[object, ...], where: str) -> object:
    return _as(value, next(hint for hint in hints if hint is not type(None)), where)


def _as_annotated(value: object, hints: tuple[object, ...], where: str) -> object:
    if NoNulls in hints and isinstance(value, Mapping) and None in value.values():
        raise DoesNotFit(f"{where} has a null")
    value = _as(value, hints[0], where)
    for check in hints[1:]:
        if not isinstance(check, msgspec.Meta) or check.le is None:
            continue
        if isinstance(value, int | float):
            low = check.ge if check.ge is not None else value
            if not low <= value <= check.le:
                raise DoesNotFit(f"{where} is out of range: {value}")
    return value


def _as_enum_name(value: object, names: tuple[str, ...], where: str) -> str | None:
    """An enum by number or by name; an unknown name is null.  Upstream: fastjson's enums."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < len(names):
            raise DoesNotFit(f"{where} has no value {value}")
        return names[value]
    if not isinstance(value, str):
        raise DoesNotFit(f"{where} is one of {names}, not {value!r:.50}")
    return next((name for name in names if name.lower() == value.lower()), None)


def _as_items(value: object, hints: tuple[object, ...], where: str) -> list[object]:
    items = [value] if isinstance(value, Mapping) else value
    if not isinstance(items, list):
        raise DoesNotFit(f"{where} is a list, not {value!r:.50}")
    return [found for item in items if (found := _as(item, hints[0], where)) is not None]


def _as_map(value: object, hints: tuple[object, ...], where: str) -> dict[object, object]:
    if not isinstance(value, Mapping):
        raise DoesNotFit(f"{where} is a map, not {value!r:.50}")
    return {
        _as_key(key, hints[0], where): found
        for key, member in value.items()
        if (found := _as(member, hints[1], where)) is not None
    }


def _as_key(key: object, hint: object, where: str) -> object:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and isinstance(key, str):
        key = read_tolerantly(key)
    return _as(key, hint, where)


def _as_int(value: object, where: str) -> int | None:
    if value in ("", "null"):
        return None
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 20:
            return int(value)
    elif isinstance(value, int) or (isinstance(value, Decimal) and value.adjusted() < 20):
        return int(value)
    raise DoesNotFit(f"{where} is a number, not {value!r:.50}")


def _as_float(value: object, where: str) -> float | None:
    if value in ("", "null"):
        return None
    with suppress(ValueError, OverflowError):
        if isinstance(value, str | int | float | Decimal):
            return float(value)
    raise DoesNotFit(f"{where} is a number, not {value!r:.50}")


def _as_bool(value: object, where: str) -> bool | None:
    if isinstance(value, (bool, int, Decimal)):
        return value == 1
    if value in ("", "null"):
        return None
    if isinstance(value, str) and (value.lower() in _TRUE or value in _TRUE):
        return True
    if isinstance(value, str) and (value.lower() in _FALSE or value in _FALSE):
        return False
    raise DoesNotFit(f"{where} is true or false, not {value!r:.50}")


_AS_SCALAR: dict[Any, Callable[[Any, str], Any]] = {
    int: _as_int,
    float: _as_float,
    bool: _as_bool,
    str: lambda value, _: text_of(value),
}

_AS_GENERIC: dict[Any, Callable[[Any, tuple[Any, ...], str], Any]] = {
    Annotated: _as_annotated,
    types.UnionType: _as_optional,
    typing.Union: _as_optional,
    Literal: _as_enum_name,
    dict: _as_map,
    list: _as_items,
    tuple: lambda value, hints, where: tuple(_as_items(value, hints, where)),
    frozenset: lambda value, hints, where: frozenset(_as_items(value, hints, where)),
}
