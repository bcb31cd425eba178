"""Finds the line of every key and value of a TOML document.

``tomllib`` returns values without their lines.  The document must be valid (``tomllib`` has read
it), so the scanner only skips over strings, comments, arrays, inline tables and headers.
"""

from __future__ import annotations

import re
from collections import Counter

from rocketmq_emulator.scenarios.plan.problems import Path

SPACE = re.compile(r"[ \t]*")
BLANKS = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
BARE = re.compile(r"[A-Za-z0-9_-]+")
PLAIN = re.compile(r"[^,\]}\n#]*")  # a number, a boolean, a date
STRINGS = (  # the longest quotes first
    re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\]|\\.)*"'),
    re.compile(r"'[^']*'"),
)
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


def positions(text: str) -> dict[Path, int]:
    """The line, from 1, of each key and each item of an array in the valid document *text*."""
    return _Scanner(text).document()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.lines: dict[Path, int] = {}
        self.items: Counter[Path] = Counter()  # of arrays of tables
        self._line, self._counted = 1, 0  # the line of the character up to which lines are counted

    def document(self) -> dict[Path, int]:
        table: Path = ()
        self.skip(BLANKS)
        while self.at < len(self.text):
            if self.peek("["):
                table = self.header()
            else:
                self.pair(table)
            self.skip(BLANKS)
        return self.lines

    def header(self) -> Path:
        is_array = self.peek("[[")
        line = self.line()
        self.at += 2 if is_array else 1
        keys = self.key()
        self.at += 2 if is_array else 1
        path = self.resolved(keys[:-1])
        path = (*path, keys[-1])
        if is_array:
            self.lines.setdefault(path, line)
            self.items[path] += 1
            path = (*path, self.items[path] - 1)
        self.found(path, line)
        return path

    def resolved(self, keys: Path) -> Path:
        """The path of *keys*, with the index of the last table of each array of tables."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in self.items:
                path = (*path, self.items[path] - 1)
        return path

    def pair(self, table: Path) -> None:
        line = self.line()
        path = (*table, *self.key())
        self.found(path, line)
        self.at += 1  # the equals sign
        self.skip(SPACE)
        self.value(path)

    def value(self, path: Path) -> None:
        if self.peek("["):
            self.array(path)
        elif self.peek("{"):
            self.table(path)
        elif not self.string():
            self.skip(PLAIN)

    def array(self, path: Path) -> None:
        self.at += 1
        count = 0
        while True:
            self.skip(BLANKS)
            if self.peek("]"):
                break
            if self.peek(","):
                self.at += 1
                continue
            self.found((*path, count), self.line())
            self.value((*path, count))
            count += 1
        self.at += 1

    def table(self, path: Path) -> None:
        self.at += 1
        while True:
            self.skip(BLANKS)
            if self.peek("}"):
                break
            if self.peek(","):
                self.at += 1
                continue
            self.pair(path)
        self.at += 1

    def key(self) -> Path:
        keys: list[str | int] = []
        while True:
            self.skip(SPACE)
            start = self.at
            if (found := BARE.match(self.text, self.at)) is not None:
                self.at = found.end()
                keys.append(found[0])
            else:
                self.string()
                keys.append(_unquoted(self.text[start : self.at]))
            self.skip(SPACE)
            if not self.peek("."):
                return tuple(keys)
            self.at += 1

    # Below: methods that move through the text --------------------------------------------

    def found(self, path: Path, line: int) -> None:
        """Record *line* for *path* and each path above it that has no line yet."""
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], line)

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        assert found is not None, "each pattern matches the empty text, too"
        self.at = found.end()

    def string(self) -> bool:
        for pattern in STRINGS:
            if (found := pattern.match(self.text, self.at)) is not None:
                self.at = found.end()
                return True
        return False

    def line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line


def _unquoted(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    return ESCAPE.sub(lambda found: _meant(found[1]), text[1:-1])


def _meant(escape: str) -> str:
    if escape[0] in "uU":
        return chr(int(escape[1:], 16))
    return ESCAPED.get(escape, escape)
