"""Lines of a file as bodies: their bytes without the line's end, whatever system wrote them.

RocketMQ takes no empty body and none above its limit: such lines are told apart here, and
those who send count them instead of failing in the middle of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rocketmq_emulator.protocol.messages.validation import MESSAGE_BYTES_MAX, client_refuses_body


class Counts(msgspec.Struct):
    """How many lines there are of each kind."""

    sendable: int = 0
    empty: int = 0
    too_long: int = 0


def bodies(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends."""
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in lines)


def is_sendable(body: bytes) -> bool:
    """Does RocketMQ take such a body?"""
    return client_refuses_body(len(body)) is None


def counted(lines: Iterable[bytes]) -> Counts:
    """How many lines could be sent, and how many not, and why."""
    counts = Counts()
    for body in bodies(lines):
        counts.sendable += is_sendable(body)
        counts.empty += not body
        counts.too_long += len(body) > MESSAGE_BYTES_MAX
    return counts
