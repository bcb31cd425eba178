"""Delay levels: a line of text such as ``1s 5s 1m`` whose delays are numbered from 1.

The messages of a level share one queue of the schedule topic.  So each queue is in order of
due times, and only its first message has to be checked.  Upstream: ScheduleMessageService.
"""

from __future__ import annotations

import functools

import msgspec

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
FIRST_RETRY_LEVEL = 3  # a message sent back for the first time waits 10 s, then one level up
UNKNOWN_LEVEL_DELAY_MS = 1000
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels(msgspec.Struct, frozen=True):
    """The levels of a text.  ``is_valid`` is false if upstream stops at an error in it."""

    delay_ms: dict[int, int]
    level_max: int
    is_valid: bool

    def clamp(self, level: int) -> int:
        """*level*, or the greatest one if it is above that."""
        return min(level, self.level_max)

    def deliver_ms(self, level: int, store_ms: int) -> int:
        """When a message stored at *store_ms* is due.

        Upstream: ScheduleMessageService.computeDeliverTimestamp.
        """
        return store_ms + self.delay_ms.get(level, UNKNOWN_LEVEL_DELAY_MS)


@functools.lru_cache(maxsize=64)
def parse_delay_levels(text: str = DEFAULT_DELAY_LEVELS) -> DelayLevels:
    """Parse up to the first error; the levels before it are kept.

    Upstream: ScheduleMessageService.parseDelayLevel.
    """
    delay_ms: dict[int, int] = {}
    level = 0
    for word in _words(text):
        if not word:
            return DelayLevels(delay_ms, level, is_valid=False)
        level += 1
        number, unit_ms = word[:-1], _UNIT_MS.get(word[-1])
        if unit_ms is None or not _is_number(number):
            return DelayLevels(delay_ms, level, is_valid=False)
        delay_ms[level] = int(number) * unit_ms
    return DelayLevels(delay_ms, level, is_valid=True)


def queue_of_level(level: int) -> int:
    """The queue of the schedule topic that holds a level.  Upstream: delayLevel2QueueId."""
    return level - 1


def _words(text: str) -> list[str]:
    # Java's split: at every single blank, without empty words at the end.
    words = text.split(" ")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _is_number(text: str) -> bool:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isascii() and digits.isdigit()
