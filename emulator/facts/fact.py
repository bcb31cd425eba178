"""The base of every fact, and the name of a queue in facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

SCHEMA_VERSION = 1


class Fact(msgspec.Struct, frozen=True, tag=True, tag_field="kind"):
    """Something that happened, in the past tense."""


Note = Callable[[Fact], None]


class Queue(NamedTuple):
    """A message queue's name in facts: ``topic``, ``broker``, ``queue_id``."""

    topic: str
    broker: str
    queue_id: int
