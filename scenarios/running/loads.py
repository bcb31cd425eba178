"""A load as numbers: which message is due when, how large, with which key and tag.

Message *n* of a load is the same whoever sends it and however often its producer was killed:
it follows from the seed, the load and *n*.  Producers share the numbers out among them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import msgspec

from protocol.message import Message
from scenarios.plan import LoadPlan


class Due(msgspec.Struct, frozen=True):
    """One message, and when it is to be sent, in ms since the load began."""

    number: int
    at_ms: float


def due_messages(load: LoadPlan, index: int, not_before_ms: float) -> Iterator[Due]:
    """What the *index*-th producer sends from *not_before_ms* on."""
    burst_ms = load.burst * 1_000 / load.rate
    bursts_past = max(0, int((not_before_ms - load.from_ms) / burst_ms) - 1)
    for number in itertools.count(bursts_past * load.burst):
        if load.count_max is not None and number >= load.count_max:
            return
        at_ms = load.from_ms + number // load.burst * burst_ms
        if load.until_ms is not None and at_ms >= load.until_ms:
            return
        if number % load.producers == index and at_ms >= not_before_ms:
            yield Due(number, at_ms)


class Contents:
    """What the messages of one load hold."""

    def __init__(self, load: LoadPlan, seed: int) -> None:
        self._load = load
        self._seed = seed
        weights = [1 / rank**load.key_skew for rank in range(1, load.keys + 1)]
        self._key_weights = list(itertools.accumulate(weights))
        self._is_random = bool(load.keys or load.tags or load.size_jitter_bytes)

    def message(self, number: int) -> Message:
        """Message *number*; its key, if it has one, chooses its queue."""
        load, key, tag, size_bytes = self._load, None, None, self._load.size_bytes
        if self._is_random:
            rng = random.Random(f"{self._seed}/{load.topic}/{number}")
            size_bytes += rng.randint(0, load.size_jitter_bytes)
            if load.tags:
                tag = rng.choice(load.tags)
            if load.keys:
                rank = rng.choices(range(load.keys), cum_weights=self._key_weights)[0]
                key = f"key-{rank + 1}"
        body = f"{load.topic} {number} ".encode().ljust(size_bytes, b".")[: max(1, size_bytes)]
        return Message(load.topic, body, tags=tag, keys=key)
