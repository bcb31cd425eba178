"""Java's values in a filter: how a property becomes a number, and how two values compare.

A value is a ``str``, a ``bool``, ``None``, an ``int`` (Java's Integer), a ``Long`` or a ``float``
(Double).  Properties are always texts.  A text beside a number becomes a number of that type,
by Java's strict parsers: ``"1.0"`` is no Integer, and ``"1d"`` is a Double.

Upstream: ComparisonExpression.__compare, Integer.valueOf, Long.valueOf, Double.valueOf.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeAlias

from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.protocol.java.java_json_writer import java_double


class Long(int):
    """A whole number beyond 32 bits, which Java keeps as another type."""

    __slots__ = ()


Value: TypeAlias = str | bool | int | float | None

RUNTIME_EXCEPTION = "java.lang.RuntimeException"
NUMBER_FORMAT = "java.lang.NumberFormatException"
CLASS_CAST = "java.lang.ClassCastException"
_BOOLEAN_AS_STRING = (
    "class java.lang.Boolean cannot be cast to class java.lang.String "
    "(java.lang.Boolean and java.lang.String are in module java.base of loader 'bootstrap')"
)
_INTEGER_BITS, _LONG_BITS = 32, 64
_JAVA_BLANKS = "".join(map(chr, range(33)))  # the characters that String.trim removes
_SHORT_DIGITS_MAX = 9  # digits that fit an Integer whatever they are
_PLAIN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")  # as nearly all numbers are written
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_NAMED = re.compile(r"[+-]?(?:NaN|Infinity)")


class NotComparable(Misuse, ValueError):
    """Two values of a filter cannot be compared: the message does not match, nothing happened.

    ``java_class`` and ``java_message`` are those of the exception that upstream throws.
    """

    def __init__(self, java_class: str, java_message: str) -> None:
        super().__init__(f"{java_class}: {java_message}")
        self.java_class, self.java_message = java_class, java_message


def parse_integer(text: str) -> int:
    """Integer.valueOf.  Raises ``NotComparable``."""
    if len(text) <= _SHORT_DIGITS_MAX and text.isascii() and text.isdigit():
        return int(text)
    return _parse_whole(text, _INTEGER_BITS)


def parse_long(text: str) -> Long:
    """Long.valueOf.  Raises ``NotComparable``."""
    return Long(_parse_whole(text, _LONG_BITS))


def _parse_whole(text: str, bits: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Java reads one UTF-16 unit at a time, so digits beyond the BMP are none.
    if digits.isdecimal() and max(digits) <= "\uffff":
        try:
            number = int(text)
        except ValueError:  # thousands of digits
            raise _no_number(text) from None
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return number
    raise _no_number(text)


def parse_double(text: str) -> float:
    """Double.valueOf, which also reads ``1d``, ``Infinity`` and ``0x1p3``.

    Raises ``NotComparable``.
    """
    if _PLAIN.fullmatch(text):
        return float(text)
    trimmed = text.strip(_JAVA_BLANKS)
    if _NAMED.fullmatch(trimmed):
        return float(trimmed)
    if found := _DECIMAL.fullmatch(trimmed):
        return float(found.group(1))
    if found := _HEXADECIMAL.fullmatch(trimmed):
        return _from_hexadecimal(found.group(1))
    raise _no_number(trimmed, "" if trimmed else "empty String")


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _no_number(text: str, reason: str = "") -> NotComparable:
    cause = reason or f'For input string: "{text}"'
    return NotComparable(RUNTIME_EXCEPTION, f"{NUMBER_FORMAT}: {cause}")


def parse_boolean(text: str) -> bool:
    """Boolean.valueOf: true in any case of letters, anything else is false."""
    return text.isascii() and text.lower() == "true"


def _boolean_as_string(_value: bool) -> bool:
    raise NotComparable(CLASS_CAST, _BOOLEAN_AS_STRING)


def _as_it_is(value: Value) -> Value:
    return value


# (type of the left value, type of the right one): the conversion of each before they compare.
# Without a row the left one counts as less.
_CONVERSIONS: dict[tuple[type, type], tuple[Callable[..., Value], Callable[..., Value]]] = {
    (str, bool): (parse_boolean, _as_it_is),
    (str, int): (parse_integer, _as_it_is),
    (str, Long): (parse_long, _as_it_is),
    (str, float): (parse_double, _as_it_is),
    (int, str): (_as_it_is, parse_integer),
    (Long, str): (_as_it_is, parse_long),
    (float, str): (_as_it_is, parse_double),
    (bool, str): (_boolean_as_string, _as_it_is),  # upstream converts the wrong one
    (int, Long): (_as_it_is, _as_it_is),
    (Long, int): (_as_it_is, _as_it_is),
    (int, float): (float, _as_it_is),
    (Long, float): (float, _as_it_is),
    (float, int): (_as_it_is, float),
    (float, Long): (_as_it_is, float),
}


def compare(left: Value, right: Value) -> int:
    """Below, at or above 0 as *left* is less than, equal to or greater than *right*.

    Neither is None.  Raises ``NotComparable``.  Upstream: ComparisonExpression.__compare.
    """
    if type(left) is not type(right):
        conversions = _CONVERSIONS.get((type(left), type(right)))
        if conversions is None:
            return -1
        left, right = conversions[0](left), conversions[1](right)
    low, high = _sort_key(left), _sort_key(right)
    return (low > high) - (low < high)


def _sort_key(value: Value) -> tuple[float | bytes, ...]:
    if isinstance(value, float):  # Double.compare: -0.0 is before 0.0, NaN after all others
        return math.isnan(value), 0 if math.isnan(value) else value, math.copysign(1, value)
    if isinstance(value, str):
        return (value.encode("utf-16-be", "surrogatepass"),)  # Java compares UTF-16 units
    assert value is not None
    return (value,)


def compare_texts_as_doubles(left: str, right: str) -> int:
    """Two properties compared by order are Doubles.  Raises ``NotComparable``.

    Upstream: ComparisonExpression.evaluate.
    """
    try:
        return compare(parse_double(left), parse_double(right))
    except NotComparable:
        text = f"It's illegal to compare string by '>=', '>', '<', '<='. lv={left}, rv={right}"
        raise NotComparable(RUNTIME_EXCEPTION, text) from None


def java_text(value: Value) -> str:
    """The value as Java's ``toString`` shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return java_double(value) if isinstance(value, float) else str(value)
