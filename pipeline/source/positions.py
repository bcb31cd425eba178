"""Offsets of many queues as one value: what a checkpoint keeps, what a user may write.

    {"version": 1, "queues": {"orders": {"broker-a": {"0": 17, "1": 20}}}, "lost": 0}

Written in one order, because Spark compares the texts to see whether there is anything new.
``lost`` counts the messages that a stream had to pass over since it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from pipeline.source.options import ByQueue
from protocol.queues import MessageQueue, queue_order

VERSION = 1
QueueOffsets: TypeAlias = Mapping[MessageQueue, int]


class Positions(msgspec.Struct, frozen=True):
    """How far a stream has come in each queue, and how many messages it missed."""

    offsets: dict[MessageQueue, int]
    lost: int = 0

    def as_json(self) -> dict[str, Any]:
        """The value that Spark keeps."""
        queues: dict[str, dict[str, dict[str, int]]] = {}
        for queue in sorted(self.offsets, key=queue_order):
            broker = queues.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
            broker[str(queue.queue_id)] = self.offsets[queue]
        return {"version": VERSION, "queues": queues, "lost": self.lost}


def positions_of(given: Mapping[str, Any]) -> Positions:
    """The value back.  Raises ``ValueError`` for what a later release has written."""
    if given.get("version") != VERSION:
        raise ValueError(
            f"the checkpoint was written by another release of this source: version "
            f"{given.get('version')!r}, this one reads {VERSION}"
        )
    queues = msgspec.convert(given["queues"], ByQueue, strict=False)
    return Positions(flat(queues), int(given.get("lost", 0)))


def flat(queues: ByQueue) -> dict[MessageQueue, int]:
    """Topic, broker and queue id as one key."""
    return {
        MessageQueue(topic, broker, queue_id): offset
        for topic, brokers in queues.items()
        for broker, ids in brokers.items()
        for queue_id, offset in ids.items()
    }
