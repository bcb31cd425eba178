"""Ready-made queue selectors: by hash, so that equal arguments share a queue; by chance.

A selector is any function of (publish queues, message, argument) to one of those queues.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from protocol.message import Message
from protocol.queues import MessageQueue
from protocol.tags import java_hash

Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue | None]


def by_hash(queues: Sequence[MessageQueue], _message: Message, argument: object) -> MessageQueue:
    """Equal arguments, same queue, for as long as the topic keeps its queues.

    Texts and whole numbers hash as in Java, so that a Java producer agrees.
    Upstream: SelectMessageQueueByHash.
    """
    value = hash_code(argument)
    remainder = abs(value) % len(queues)  # Java's % keeps the sign: |a % n| = |a| % n
    return queues[remainder]


def by_chance(rng: random.Random) -> Selector:
    """Any queue.  Upstream: SelectMessageQueueByRandom."""

    def choose(
        queues: Sequence[MessageQueue], _message: Message, _argument: object
    ) -> MessageQueue:
        return rng.choice(queues)

    return choose


def hash_code(argument: object) -> int:
    """Java's ``hashCode`` of a String, an Integer, or a Long where an int is too small.

    Raises ``TypeError`` for anything else: Java would hash its address.
    """
    if isinstance(argument, str):
        return java_hash(argument)
    if isinstance(argument, int):
        return argument if -(2**31) <= argument < 2**31 else _of_long(argument)
    raise TypeError(f"a queue is chosen by a text or a whole number, not {argument!r}")


def _of_long(value: int) -> int:
    bits = value & 0xFFFF_FFFF_FFFF_FFFF
    folded = (bits ^ bits >> 32) & 0xFFFF_FFFF
    return folded - 2**32 if folded & 2**31 else folded
