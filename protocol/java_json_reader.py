"""The tolerant reader: everything fastjson takes for JSON.

Keys without quotes or in single ones, numbers and whole objects as keys, commas too
many, semicolons for commas, comments, raw control characters, half surrogate pairs, dates.
An object as a key becomes its own text, which fastjson also takes in its place.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

DEPTH_MAX = 100  # ours, as the next: upstream recurses until its stack ends
DIGITS_MAX = 1_000  # of a number, which upstream takes at any length

_SKIP = re.compile(r"(?:[ \t\r\n\f\b\x00\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SEPARATORS = re.compile(r"(?:[ \t\r\n\f\b\x00,;]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_HEX = {"u": re.compile(r"[0-9a-fA-F]{4}"), "x": re.compile(r"[0-9a-fA-F]{2}")}
_NEW = re.compile(r"new[ \t\r\n\f]+[A-Za-z_$][A-Za-z0-9_$]*\s*\(\s*([+-]?[0-9]{1,1000})\s*\)")
_WORDS = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_ESCAPES = {
    **{quoted: quoted for quoted in "\"'\\/"},
    **{str(code): chr(code) for code in range(8)},
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "F": "\f",
    "r": "\r",
}


class NotJson(ValueError):
    """Text that fastjson cannot read either."""


class JavaDate(int):
    """Milliseconds that were written as ``new Date(1)``; any name does for Date.

    Fits into no number, and into a text as Java shows a date, in UTC.
    """

    def text(self) -> str:
        """Upstream: Date.toString; the number where no calendar goes."""
        try:
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self)
        except OverflowError:
            return str(int(self))
        return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at:%d %H:%M:%S} UTC {at.year}"


def read_tolerantly(text: str) -> Any:
    """The value of the whole text.  Raises ``NotJson``."""
    reader = _JsonReader(text)
    try:
        value = reader.value(0)
        reader.skip()
    except IndexError:
        raise NotJson("the text ends too early") from None
    if reader.at != len(text):
        raise NotJson(f"something follows the value at {reader.at}")
    return value


class _JsonReader:
    """A position in a text.  Running off the end is an ``IndexError``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self, pattern: re.Pattern[str] = _SKIP) -> str:
        """Skip blanks and comments; the next character, not yet taken."""
        found = pattern.match(self.text, self.at)
        assert found is not None, "these patterns match the empty text"
        self.at = found.end()
        return self.text[self.at] if self.at < len(self.text) else ""

    def value(self, depth: int) -> Any:
        first = self.skip()
        if first == "{":
            return self._object(depth + 1)
        if first == "[":
            return self._array(depth + 1)
        if first in _PLAIN:
            return self._string(first)
        return self._scalar()

    def _object(self, depth: int) -> dict[str | int, Any]:
        self._open(depth)
        members: dict[str | int, Any] = {}
        while self.skip(_SEPARATORS) != "}":
            key = self._key(depth)
            if self.skip() != ":":
                raise NotJson(f"a colon is missing at {self.at}")
            self.at += 1
            members[key] = self.value(depth)
            if self.skip() not in (",", ";", "}"):
                raise NotJson(f"a comma is missing at {self.at}")
        self.at += 1
        return members

    def _key(self, depth: int) -> str | int:
        first = self.text[self.at]
        if first in _PLAIN:
            return self._string(first)
        if first == "{":
            start = self.at
            self._object(depth + 1)
            return self.text[start : self.at]
        if word := _WORD.match(self.text, self.at):
            self.at = word.end()
            return word.group()
        number = self._scalar()
        if not isinstance(number, int):
            raise NotJson(f"no key at {self.at}")
        return number

    def _array(self, depth: int) -> list[Any]:
        self._open(depth)
        items: list[Any] = []
        while self.skip(_SEPARATORS) != "]":
            items.append(self.value(depth))
            if self.skip() not in (",", "]"):
                raise NotJson(f"a comma is missing at {self.at}")
        self.at += 1
        return items

    def _open(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise NotJson(f"nested deeper than {DEPTH_MAX}")
        self.at += 1

    def _scalar(self) -> Any:
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            if number.end() - number.start() > DIGITS_MAX:
                raise NotJson(f"a number of more than {DIGITS_MAX} digits")
            kind = Decimal if number.group(1) or number.group(2) else int
            try:
                return kind(number.group())
            except InvalidOperation:
                raise NotJson(f"a number of such an exponent at {self.at}") from None
        if made := _NEW.match(self.text, self.at):
            self.at = made.end()
            return JavaDate(_as_long(int(made.group(1))))
        word = _WORD.match(self.text, self.at)
        if word is None or word.group() not in _WORDS:
            raise NotJson(f"no value at {self.at}")
        self.at = word.end()
        return _WORDS[word.group()]

    def _string(self, quote: str) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN[quote].match(self.text, self.at)
            assert plain is not None, "these patterns match the empty text"
            parts.append(plain.group())
            self.at = plain.end() + 1
            if self.text[self.at - 1] == quote:
                return _joined(parts)
            parts.append(self._escape())

    def _escape(self) -> str:
        kind = self.text[self.at]
        self.at += 1
        if (pattern := _HEX.get(kind)) is not None:
            digits = pattern.match(self.text, self.at)
            if digits is None:
                raise NotJson(f"a bad escape at {self.at}")
            self.at = digits.end()
            return chr(int(digits.group(), 16))
        if kind not in _ESCAPES:
            raise NotJson(f"a bad escape at {self.at}")
        return _ESCAPES[kind]


def _as_long(value: int) -> int:
    """The lowest 64 bits.  Upstream: BigInteger.longValue."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _joined(parts: list[str]) -> str:
    """The text, with escaped surrogates put together where they are pairs."""
    text = "".join(parts)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
