"""Java's properties text: ``key=value`` lines, as configuration files and 25/318 carry it.

Upstream: java.util.Properties.load, MixAll.string2Properties, MixAll.properties2String.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rocketmq_emulator.protocol.error_families import DamagedData

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_BAD_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
_SEPARATOR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


TEXT_CHARS_MAX = 64 * 1024  # ours: the whole configuration of a broker has 10,000


class TextTooLong(DamagedData, ValueError):
    """The text exceeds ``TEXT_CHARS_MAX``; nothing of it was read."""


def parse(text: str) -> dict[str, str]:
    """Keys and values, in order.

    Raises ``ValueError`` for a broken unicode escape, ``TextTooLong``.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise _too_long(len(text))
    found = {}
    for line in _logical_lines(text):
        if _BAD_UNICODE.search(line):
            raise ValueError(f"malformed unicode escape in {line!r}")
        match = _SEPARATOR.fullmatch(line)
        assert match is not None  # a bug of ours: the pattern takes any text
        found[_unescape(match[1])] = _unescape(match[2])
    return found


def parse_bytes(data: bytes) -> dict[str, str]:
    """A file's keys and values: Java reads its bytes as Latin-1, whatever their encoding is.

    Raises ``ValueError`` for a broken unicode escape.  Upstream: Properties.load(InputStream).
    """
    return parse(data.decode("latin-1"))


def parse_body(data: bytes) -> dict[str, str]:
    """The keys and values of a request: upstream decodes the body as UTF-8 and encodes it again.

    Raises as ``parse``.  Upstream: MixAll.string2Properties.
    """
    if len(data) > TEXT_CHARS_MAX:  # the text is no shorter: invalid bytes become longer
        raise _too_long(len(data))
    return parse_bytes(data.decode("utf-8", "replace").encode())


def render(properties: Mapping[str, str]) -> str:
    """One ``key=value`` a line, sorted, not escaped, as in upstream's answers to 26 and 319."""
    return "".join(f"{key}={value}\n" for key, value in sorted(properties.items()))


def _too_long(chars: int) -> TextTooLong:
    return TextTooLong(f"{chars} characters of properties: the limit is {TEXT_CHARS_MAX}")


def _logical_lines(text: str) -> list[str]:
    """Comments and blanks dropped, lines that end in a lone backslash joined to the next."""
    lines: list[str] = []
    open_line = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not open_line and (not line or line[0] in "#!"):
            continue
        ending = len(line) - len(line.rstrip("\\"))
        if ending % 2:
            open_line += line[:-1]
            continue
        lines.append(open_line + line)
        open_line = ""
    return lines + ([open_line] if open_line else [])


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code, other = match[1], match[2]
        if code is not None:
            return chr(int(code, 16))
        return _CONTROLS.get(other, other or "")

    return _ESCAPE.sub(plain, text)
