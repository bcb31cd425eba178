"""Lines of a file as message bodies: their bytes without the line end, LF or CR LF.

RocketMQ refuses an empty body and a body above its limit.  This module finds such lines, so
that a sender counts them and does not fail in the middle of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rocketmq_emulator.protocol.messages.validation import MESSAGE_BYTES_MAX, client_refuses_body


class Counts(msgspec.Struct):
    """How many lines can be sent, are empty, and are too long."""

    sendable: int = 0
    empty: int = 0
    too_long: int = 0


def bodies(lines: Iterable[bytes]) -> Iterator[bytes]:
    """*lines* without their ends."""
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in lines)


def is_sendable(body: bytes) -> bool:
    """True if RocketMQ accepts a body of this length."""
    return client_refuses_body(len(body)) is None


def counted(lines: Iterable[bytes]) -> Counts:
    """Count the lines that can be sent, are empty, and are too long."""
    counts = Counts()
    for body in bodies(lines):
        counts.sendable += is_sendable(body)
        counts.empty += not body
        counts.too_long += len(body) > MESSAGE_BYTES_MAX
    return counts
