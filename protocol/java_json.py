"""fastjson's dialect of JSON: it reads and writes more than JSON.

Read: what msgspec refuses is rewritten into strict JSON, or else read by a tolerant
reader.  Write: maps may have
numbers or whole objects as keys, and the text is escaped exactly as fastjson does.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from protocol.java_json_reader import JavaDate, NotJson, read_tolerantly
from protocol.java_json_rewriter import strict_forms
from protocol.java_json_writer import (
    COMPACT,
    Shape,
    Style,
    all_members,
    quick_texts,
    write_pretty,
    write_texts,
    write_value,
)

__all__ = [
    "UNREADABLE",
    "NotJson",
    "quick_texts",
    "read",
    "text_of",
    "write",
    "write_pretty",
    "write_texts",
    "write_value",
]

# What msgspec raises for odd or hostile text: nested without end, numbers of thousands of
# digits or with such exponents.  The tolerant reader then reads or refuses it.
UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError, ArithmeticError)

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def read(data: bytes, *, strict_utf8: bool = False) -> Any:
    """Plain values; fractions as ``Decimal``, object keys as their text.  Raises ``NotJson``."""
    try:
        return _decode(data)
    except UNREADABLE:
        return _read_tolerantly(data, strict_utf8=strict_utf8)


def _read_tolerantly(data: bytes, *, strict_utf8: bool) -> Any:
    try:
        text = data.decode("utf-8", "strict" if strict_utf8 else "replace")
    except UnicodeDecodeError as error:
        raise NotJson(str(error)) from error
    for form in strict_forms(text.encode()):
        try:
            return _decode(form)
        except UNREADABLE:
            continue
    return read_tolerantly(text)


def write(value: Any, shape: Shape = all_members, style: Style = COMPACT) -> bytes:
    """The value's text.  Structs are written with the members *shape* gives, sorted by name."""
    if style is COMPACT and type(value) is str:
        return write_texts(value)
    return write_value(value, shape, style)


def text_of(value: Any) -> str:
    """What fastjson makes of any value where a string is expected."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, JavaDate):
        return value.text()
    if isinstance(value, Mapping):
        value = dict(sorted(value.items(), key=str))
    elif not isinstance(value, list):
        return str(value)
    return write(value).decode()
