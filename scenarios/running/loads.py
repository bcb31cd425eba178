"""A load as numbers: which message is due when, how large, with which key, tag and delay.

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
    """The messages of one call, and when it is to be made, in ms since the load began."""

    numbers: tuple[int, ...]
    at_ms: float


def due_messages(load: LoadPlan, index: int, not_before_ms: float) -> Iterator[Due]:
    """What the *index*-th producer sends from *not_before_ms* on."""
    burst_ms = load.burst * 1_000 / load.rate
    bursts_past = max(0, int((not_before_ms - load.from_ms) / burst_ms) - 1)
    for call in itertools.count(bursts_past * load.burst // load.batch):
        numbers = range(call * load.batch, (call + 1) * load.batch)
        sent = [(n, at_ms) for n in numbers if (at_ms := _due_ms(load, n, burst_ms)) is not None]
        if not sent:
            return
        last_ms = sent[-1][1]
        if call % load.producers == index and last_ms >= not_before_ms:
            yield Due(tuple(number for number, _ in sent), last_ms)


def _due_ms(load: LoadPlan, number: int, burst_ms: float) -> float | None:
    """None for one that the load does not have."""
    at_ms = load.from_ms + number // load.burst * burst_ms
    if load.count_max is not None and number >= load.count_max:
        return None
    return at_ms if load.until_ms is None or at_ms < load.until_ms else None


class Contents:
    """What the messages of one load hold."""

    def __init__(self, load: LoadPlan, seed: int) -> None:
        self._load = load
        self._seed = seed
        weights = [1 / rank**load.key_skew for rank in range(1, load.keys + 1)]
        self._key_weights = list(itertools.accumulate(weights))
        self._is_random = bool(
            load.keys or load.tags or load.size_jitter_bytes or load.delay_levels or load.timer_ms
        )

    def message(self, number: int) -> Message:
        """Message *number*; its key, if it has one, chooses its queue."""
        load, key, tag, size_bytes = self._load, None, None, self._load.size_bytes
        level = timer_ms = 0
        if self._is_random:
            rng = random.Random(f"{self._seed}/{load.topic}/{number}")
            size_bytes += rng.randint(0, load.size_jitter_bytes)
            if load.tags:
                tag = rng.choice(load.tags)
            if load.keys:
                rank = rng.choices(range(load.keys), cum_weights=self._key_weights)[0]
                key = f"key-{rank + 1}"
            if load.delay_levels:
                level = rng.choice(load.delay_levels)
            if load.timer_ms:
                timer_ms = rng.choice(load.timer_ms)
        body = f"{load.topic} {number} ".encode().ljust(size_bytes, b".")[: max(1, size_bytes)]
        return Message(load.topic, body, tags=tag, keys=key, delay_level=level, delay_ms=timer_ms)
