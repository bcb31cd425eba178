"""fastjson's dialect of JSON: it reads and writes more than JSON.

Reading has three steps, each for texts that the step before refuses: msgspec reads strict JSON;
lax text is rewritten into strict JSON of the same value, in a few passes over all of it
(fastjson's escapes, single quotes, names without quotes, raw control characters, commas too
many); the tolerant reader takes everything that fastjson takes (also comments, semicolons for
commas, numbers and whole objects as keys, half surrogate pairs, dates), character by character:
thirty times as slow.  Rewritten text has the value that the tolerant reader would find; if
the strict reader refuses it, the tolerant reader gets the original text.  An object as a key
becomes its own text, which fastjson also accepts as a key.
Writing (``java_json_writer``): maps may have numbers or whole objects as keys, and the text
is escaped exactly as fastjson does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import accumulate

import msgspec

from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.protocol.java.java_json_writer import (
    COMPACT,
    Shape,
    Style,
    all_members,
    msgspec_texts,
    write_pretty,
    write_texts,
    write_value,
)

__all__ = [
    "DECODE_ERRORS",
    "NotJson",
    "msgspec_texts",
    "read",
    "text_of",
    "write",
    "write_pretty",
    "write_texts",
    "write_value",
]

# Errors of msgspec for unusual or hostile text: deep nesting, numbers with thousands of digits
# or huge exponents.  The tolerant reader then reads or refuses the text.
DECODE_ERRORS = (msgspec.DecodeError, ValueError, RecursionError, ArithmeticError)

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def read(data: bytes, *, strict_utf8: bool = False) -> object:
    """Plain values; fractions as ``Decimal``, object keys as their text.  Raises ``NotJson``."""
    try:
        return _decode(data)
    except DECODE_ERRORS:
        return _read_tolerantly(data, strict_utf8=strict_utf8)


def _read_tolerantly(data: bytes, *, strict_utf8: bool) -> object:
    try:
        text = data.decode("utf-8", "strict" if strict_utf8 else "replace")
    except UnicodeDecodeError as error:
        raise NotJson(str(error)) from error
    for form in strict_forms(text.encode()):
        try:
            return _decode(form)
        except DECODE_ERRORS:
            continue
    return read_tolerantly(text)


def write(value: object, shape: Shape = all_members, style: Style = COMPACT) -> bytes:
    """The value's text.  Structs are written with the members *shape* gives, sorted by name."""
    if style is COMPACT and type(value) is str:
        return write_texts(value)
    return write_value(value, shape, style)


def text_of(value: object) -> str:
    """The string that fastjson makes of any value where it expects a string."""
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


# Lax text into strict JSON ------------------------------------------------------------


# In this order: after pairs of backslashes are replaced, each other one begins an escape.
_STRICT_ESCAPES = (
    (b"\\\\", b"\\u005c"),
    (b"\\'", b"\\u0027"),
    (b'\\"', b"\\u0022"),
    (b"\\x", b"\\u00"),  # two digits must follow: without them \u is refused, too
    (b"\\v", b"\\u000b"),
    (b"\\F", b"\\f"),
    *((b"\\%d" % digit, b"\\u000%d" % digit) for digit in range(8)),
)
_TOKENS = re.compile(
    rb"""
      (?P<strict> (?: "[^"\x00-\x1f]*" | [0-9.:+\-\[\]{}\ \t\r\n]+ | ,(?![ \t\r\n]*[,\]}]) )+ )
    | (?P<single> '[^']*' )
    | (?P<double> "[^"]*" )
    | (?P<name> [A-Za-z_$][A-Za-z0-9_$]* (?= [ \t\r\n]*: ) )
    | (?P<null> (?: NaN | undefined ) (?! [A-Za-z0-9_$] ) )
    | (?P<word> [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<comma> , [ \t\r\n]* (?= [,\]}] ) )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(code for code in range(256) if code not in _STEP)
_CONTROL = re.compile(rb"(?<!\\)[\x00-\x1f]")


class _NotRewritten(Exception):
    """The text has a token that has no strict form."""


def strict_forms(data: bytes) -> Iterator[bytes]:
    """Texts for the strict reader, the cheapest first.  *data* is UTF-8.

    Yields nothing for a text that seems nested deeper than ``DEPTH_MAX``.
    """
    if _depth(data) > DEPTH_MAX:
        return
    if b"\\" in data:
        for escape, strict in _STRICT_ESCAPES:
            data = data.replace(escape, strict)
        yield data
    if b'"' not in data:
        data = data.replace(b"'", b'"')
        yield data
    with suppress(_NotRewritten):
        yield _TOKENS.sub(_strict_token, data)


def _depth(data: bytes) -> int:
    """How deep it is nested, if its strings hold no brackets."""
    brackets = data.translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _strict_token(token: re.Match[bytes]) -> bytes:
    kind, text = token.lastgroup, token.group()
    if kind == "name":
        return b'"%b"' % text
    if kind == "single":
        return b'"%b"' % _without_controls(text[1:-1].replace(b'"', b"\\u0022"))
    if kind == "double":
        return _without_controls(text)
    if kind == "other":
        raise _NotRewritten
    if kind == "null":
        return b"null"
    return b"" if kind == "comma" else text


def _without_controls(text: bytes) -> bytes:
    return _CONTROL.sub(lambda raw: b"\\u%04x" % ord(raw.group()), text)


# The tolerant reader ------------------------------------------------------------------


DEPTH_MAX = 100  # ours, as the next one: upstream recurses until its stack overflows
DIGITS_MAX = 1_000  # of a number, which upstream reads at any length

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


class NotJson(DamagedData, ValueError):
    """Text that fastjson cannot read either."""


class JavaDate(int):
    """Milliseconds that were written as ``new Date(1)``, or with any other name than Date.

    A number field refuses it; a text field gets the date as Java prints it, in UTC.
    """

    def text(self) -> str:
        """The date as text; the number if no calendar has it.  Upstream: Date.toString."""
        try:
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self)
        except OverflowError:
            return str(int(self))
        return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at:%d %H:%M:%S} UTC {at.year}"


def read_tolerantly(text: str) -> object:
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
    """A position in a text.  Reading past the end raises ``IndexError``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self, pattern: re.Pattern[str] = _SKIP) -> str:
        """Skip blanks and comments; the next character, not yet taken."""
        found = pattern.match(self.text, self.at)
        assert found is not None, "these patterns match the empty text"
        self.at = found.end()
        return self.text[self.at] if self.at < len(self.text) else ""

    def value(self, depth: int) -> object:
        first = self.skip()
        if first == "{":
            return self._object(depth + 1)
        if first == "[":
            return self._array(depth + 1)
        if first in _PLAIN:
            return self._string(first)
        return self._scalar()

    def _object(self, depth: int) -> dict[str | int, object]:
        self._open(depth)
        members: dict[str | int, object] = {}
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

    def _array(self, depth: int) -> list[object]:
        self._open(depth)
        items: list[object] = []
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

    def _scalar(self) -> object:
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            if number.end() - number.start() > DIGITS_MAX:
                raise NotJson(f"a number of more than {DIGITS_MAX} digits")
            kind = Decimal if number.group(1) or number.group(2) else int
            try:
                return kind(number.group())
            except InvalidOperation:
                raise NotJson(f"a number whose exponent is out of range at {self.at}") from None
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
    """The text, with pairs of escaped surrogates combined."""
    text = "".join(parts)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
