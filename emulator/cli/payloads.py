"""What ``produce`` sends: lines that are read while others are sent, or bodies made up.

A source is an async generator of batches, so that a pipe that is slow keeps nobody from
sending what it gave already.
"""

from __future__ import annotations

import io
import os
from collections.abc import AsyncGenerator, Iterator
from typing import IO

import trio

from emulator.cli.errors import BadUse
from emulator.cli.lines import bodies

READ_BYTES = 64 * 1024
GENERATED_A_BATCH = 64


async def lines_of(file: IO[bytes]) -> AsyncGenerator[list[bytes]]:
    """The lines of *file* as they come, without their ends.

    The file is read in a thread, which is left behind when this is cancelled: it may wait
    for a terminal.
    """
    rest = b""
    while data := await trio.to_thread.run_sync(_some_of, file, abandon_on_cancel=True):
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        yield list(bodies(lines))
    if rest:
        yield list(bodies([rest]))


def _some_of(file: IO[bytes]) -> bytes:
    """At most one read of the system's; empty at the end.

    Past the file's buffer, whose lock a thread that was left behind would hold for ever.
    """
    try:
        number = file.fileno()
    except io.UnsupportedOperation:
        return file.read(READ_BYTES)  # bytes in memory
    return os.read(number, READ_BYTES)


async def made_up(count: int, size: int) -> AsyncGenerator[list[bytes]]:
    """*count* bodies of *size* bytes, numbered from 1; 0: without end, as long as they are."""
    number = 1
    while not count or number <= count:
        last = number + GENERATED_A_BATCH - 1
        if count:
            last = min(last, count)
        yield [made_up_body(at, size) for at in range(number, last + 1)]
        number = last + 1


def made_up_body(number: int, size: int) -> bytes:
    """``message 17 ....``, of *size* bytes."""
    text = f"message {number}".encode()
    if not size:
        return text
    return text[:size] if len(text) >= size else (text + b" ").ljust(size, b".")


class KeyedLines:
    """``A-17:two cups``: a key, the delimiter, the body.  A line without one has no key."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()

    def split(self, line: bytes) -> tuple[str | None, bytes]:
        """Raises ``BadUse`` for a key that is no text."""
        key, found, body = line.partition(self._delimiter)
        if not found:
            return None, line
        try:
            return key.decode() or None, body
        except UnicodeDecodeError:
            raise BadUse(f"the key {key!r} is not UTF-8 text") from None


def properties_of(assignments: list[str]) -> Iterator[tuple[str, str]]:
    """``NAME=VALUE`` each.  Raises ``BadUse``."""
    for text in assignments:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise BadUse(f"--property is NAME=VALUE, not {text!r}")
        yield name, value


def rate_of(text: str) -> float:
    """``100`` or ``100/s``: messages a second; 0: as fast as it goes.  Raises ``BadUse``."""
    try:
        rate = float(text.removesuffix("/s") or "0")
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise BadUse(f"--rate is messages per second, such as 100 or 0.5, not {text!r}")
    return rate
