"""The exact writer: the same bytes as from fastjson.

Members of objects are sorted by name and left out when null; maps keep their order.
Keys that are numbers have no quotes, keys that are objects are written as objects: not
JSON, but expected by upstream's peers.  The standard form sorts and quotes all keys and
escapes all characters beyond ASCII.  The pretty form, of configuration files, breaks lines before
members, but not before keys that are no strings.  msgspec writes structs that have only texts and
whole numbers, if its bytes are the same.

A broker writes its topics for every registration, every tool and their file; mostly one of
thousands has changed.  So a ``CachedTextDict`` keeps the text of each entry, in each form that
was written, until the entry changes.  Its values must be immutable.
"""

from __future__ import annotations

import base64
import functools
import math
import re
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from decimal import Decimal
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar, get_args, get_origin

import msgspec

# A map that keeps the texts of its entries --------------------------------------------


Value = TypeVar("Value")

Texts = dict[str, tuple[Any, str]]


class CachedTextDict(dict[str, Value]):
    """A dict of immutable values that keeps the text of its entries."""

    def __init__(self, entries: Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__(entries)
        self._forms: dict[Hashable, Texts] = {}

    def subset(self, names: Iterable[str]) -> CachedTextDict[Value]:
        """A dict of the entries with these *names*, if they exist; both share the texts."""
        subset = CachedTextDict((name, self[name]) for name in names if name in self)
        subset._forms = self._forms  # the same class
        return subset

    def texts(self, form: Hashable, write: Callable[[str, Value], str]) -> list[str]:
        """The text of every entry in *form*, in the order of the dict; *write* makes new ones."""
        kept = self._forms.setdefault(form, {})
        texts = []
        for name, value in self.items():
            known = kept.get(name)
            if known is None or known[0] is not value:
                known = kept[name] = value, write(name, value)
            texts.append(known[1])
        return texts

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        for kept in self._forms.values():
            kept.pop(name, None)

    def pop(self, name: str, *default: Any) -> Any:  # noqa: ANN401  # as dict.pop
        """As ``dict.pop``; removes the text, too."""
        if name in self:
            value = self[name]
            del self[name]
            return value
        return super().pop(name, *default)


# The writer ---------------------------------------------------------------------------


Members: TypeAlias = tuple[tuple[str, str], ...]  # (attribute, name on the wire), sorted by name
Shape: TypeAlias = Callable[[type], Members]


class Style(msgspec.Struct, frozen=True):
    """The form of a text."""

    standard: bool = False
    pretty: bool = False


COMPACT = Style()
STANDARD = Style(standard=True)
PRETTY = Style(pretty=True)

_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)},
    **{ord(raw): "\\" + letter for raw, letter in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)},
}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

# In msgspec's output: escapes that fastjson writes in capitals, and characters that it escapes.
_ODD_ESCAPE = re.compile(rb"\\u00[01][a-f]")
_ODD = re.compile(rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
_BACKSLASH, _DELETE = b"\\\x7f"  # as numbers: ``in`` finds those without an exception inside
_encode = msgspec.json.encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_SCALARS = (str, int, bool)


@functools.cache
def all_members(kind: type) -> Members:
    """Every field of a struct."""
    fields = msgspec.structs.fields(kind)
    return tuple(sorted(((f.name, f.encode_name) for f in fields), key=lambda pair: pair[1]))


def differs_from_fastjson(data: bytes) -> bool:
    """Whether *data*, written by msgspec, is not what fastjson writes."""
    # One search each: this runs for every header, and an alternation is five times slower.
    if _BACKSLASH in data and _ODD_ESCAPE.search(data):
        return True
    return _DELETE in data or not (data.isascii() or _ODD.search(data) is None)


def write_texts(value: str | dict[str, str]) -> bytes:
    """As ``write``, for a text or a map of texts."""
    return msgspec_texts(value) or write_value(value)


def msgspec_texts(value: str | dict[str, str] | msgspec.Struct) -> bytes | None:
    """The text as msgspec writes it; None if fastjson would not write the same bytes."""
    try:
        data = _encode(value)
    except UnicodeEncodeError:  # half a surrogate pair
        return None
    return None if differs_from_fastjson(data) else data


def write_value(value: object, shape: Shape = all_members, style: Style = COMPACT) -> bytes:
    """The value's text.  A lone surrogate becomes a question mark."""
    writer = _Writer(shape, style)
    writer.value(value)
    return "".join(writer.parts).encode("utf-8", "replace")


def write_pretty(value: object, shape: Shape = all_members) -> bytes:
    """The form of configuration files.  Upstream: RemotingSerializable.toJson(obj, true)."""
    return write_value(value, shape, PRETTY)


class _Writer:
    """Collects the parts of one text."""

    def __init__(self, shape: Shape, style: Style) -> None:
        self.parts: list[str] = []
        self._shape = shape
        self._style = style
        self._indent = 0

    def value(self, value: object) -> None:
        kind: type = type(value)
        _write_of(kind)(self, value)

    def text(self, text: str) -> None:
        if _needs_no_escape(text) and not self._style.standard:
            self.parts.append(f'"{text}"')
            return
        text = text.translate(_ESCAPES)
        if self._style.standard:
            text = _NOT_ASCII.sub(_escape_units, text.replace("/", "\\/"))
        self.parts.append(f'"{text}"')

    def struct(self, value: msgspec.Struct) -> None:
        if self._style is COMPACT and _is_plain(type(value), self._shape):
            data = _encoded(value)
            if data is not None:
                self.parts.append(data)
                return
        parts, before = self.parts, "{"
        self._indent += 1
        lead = "\n" + "\t" * self._indent if self._style.pretty else ""
        for attr, name in self._shape(type(value)):
            member = getattr(value, attr)
            if member is None:
                continue
            parts.append(f"{before}{lead}{_quoted(name)}:")
            before = ","
            if type(member) is int:
                parts.append(str(member))
            else:
                self.value(member)
        self._indent -= 1
        if before == "{":
            parts.append("{}")
        else:
            self._break_line()
            parts.append("}")

    def map(self, value: Mapping[Any, Any]) -> None:
        if not self._style.standard and _holds_only_int(value):
            self.parts.append("{" + ",".join([f"{key}:{number}" for key, number in value.items()]))
            if value:
                self._break_line()
            self.parts.append("}")
            return
        members = [(key, member) for key, member in value.items() if member is not None]
        self._members(sorted(members, key=itemgetter(0)) if self._style.standard else members)

    def table(self, value: CachedTextDict[Any]) -> None:
        """As ``map``, from cached texts."""
        if self._style.standard:
            self.map(value)
            return
        form = self._shape, self._style, self._indent if self._style.pretty else 0
        self.parts.append("{" + ",".join(value.texts(form, self._entry)))
        if value:
            self._break_line()
        self.parts.append("}")

    def _entry(self, key: str, member: object) -> str:
        writer = _Writer(self._shape, self._style)
        writer._indent = self._indent + 1  # the same class
        writer._key(key)
        writer.parts.append(":")
        writer.value(member)
        return "".join(writer.parts)

    def items(self, items: Iterable[object]) -> None:
        self.parts.append("[")
        for number, item in enumerate(items):
            if number:
                self.parts.append(",")
            self.value(item)
        self.parts.append("]")

    def set(self, items: Iterable[Any]) -> None:
        self.items(sorted(items))  # a hash set's order would differ from run to run

    def _members(self, members: list[tuple[Any, Any]]) -> None:
        self.parts.append("{")
        self._indent += 1
        for number, (key, member) in enumerate(members):
            if number:
                self.parts.append(",")
            self._key(key)
            self.parts.append(":")
            self.value(member)
        self._indent -= 1
        if members:
            self._break_line()
        self.parts.append("}")

    def _key(self, key: object) -> None:
        if isinstance(key, int) and self._style.standard:
            key = str(key)
        if isinstance(key, str):
            self._break_line()
        self.value(key)

    def _break_line(self) -> None:
        if self._style.pretty:
            self.parts.append("\n" + "\t" * self._indent)

    def boolean(self, value: bool) -> None:
        self.parts.append("true" if value else "false")

    def double(self, value: float) -> None:
        self.parts.append(java_double(value))

    def base64(self, value: bytes | bytearray) -> None:
        self.text(base64.b64encode(value).decode())

    def null(self, _: None) -> None:
        self.parts.append("null")

    def plain(self, value: object) -> None:
        self.parts.append(str(value))


# The first kind that a value is an instance of decides.
_WRITES: tuple[tuple[type | tuple[type, ...], Callable[[_Writer, Any], None]], ...] = (
    (msgspec.Struct, _Writer.struct),
    (CachedTextDict, _Writer.table),
    (Mapping, _Writer.map),
    ((list, tuple), _Writer.items),
    ((set, frozenset), _Writer.set),
    (str, _Writer.text),
    (bool, _Writer.boolean),
    (types.NoneType, _Writer.null),
    (float, _Writer.double),
    ((bytes, bytearray), _Writer.base64),
    (object, _Writer.plain),  # whole numbers, Decimal
)


@functools.cache
def _write_of(kind: type) -> Callable[[_Writer, Any], None]:
    return next(write for known, write in _WRITES if issubclass(kind, known))


def _holds_only_int(value: Mapping[Any, Any]) -> bool:
    """Whether all keys and values are whole numbers, as the offsets of a topic's queues are."""
    return set(map(type, value)) | set(map(type, value.values())) <= {int}


def _needs_no_escape(text: str) -> bool:
    """Whether nothing in it is escaped: a faster check than a translation."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


@functools.cache
def _quoted(name: str) -> str:
    """A member's name, which is a word."""
    return f'"{name}"'


@functools.cache
def _is_plain(kind: type, shape: Shape) -> bool:
    """Whether msgspec can write it: all its members, none null, no map, no fraction."""
    if shape(kind) != all_members(kind):
        return False
    return all(_is_plain_type(field.type, shape) for field in msgspec.structs.fields(kind))


def _is_plain_type(kind: object, shape: Shape) -> bool:
    if get_origin(kind) is list:
        return _is_plain_type(get_args(kind)[0], shape)
    if not isinstance(kind, type):
        return False
    return kind in _SCALARS or (issubclass(kind, msgspec.Struct) and _is_plain(kind, shape))


def _encoded(value: msgspec.Struct) -> str | None:
    """The text as msgspec writes it; None if fastjson would not write the same."""
    try:
        data = _encode_sorted(value)
    except UnicodeEncodeError:  # half a surrogate pair
        return None
    return None if differs_from_fastjson(data) else data.decode()


def _escape_units(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2))


def java_double(value: float) -> str:
    """A double's text; null for NaN, as fastjson.  Upstream: Double.toString."""
    if not math.isfinite(value):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{Decimal(repr(value)).adjusted()}"
