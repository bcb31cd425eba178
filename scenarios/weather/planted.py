"""Bugs that were planted, as weather finds them: the first seed in which it meets each.

A checker that never objects proves nothing, and neither does weather in which nothing fails. So
each bug that has a name (``emulator.quirks``) is switched on, and seeds are counted from 1 until a
checker objects; the shape is ``SMALL``.  Tests run these seeds, with the bug and without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from emulator.quirks import QUIRKS


class Planted(NamedTuple):
    """``seeds``: the first seed that fails, by release; ``checker``: who objects, to what."""

    seeds: Mapping[str, int]
    checker: str
    breaks: str  # words of the rule


PLANTED: Mapping[str, Planted] = {
    "commit_when_pulled": Planted({"4.9.7": 2, "5.3.3": 2}, "commits", "client invariant 43"),
    "ignore_lock": Planted({"4.9.7": 1, "5.3.3": 9}, "locks", "client invariant 51"),
    "keep_offsets": Planted({"4.9.7": 2, "5.3.3": 1}, "commits", "client invariant 56"),
    "keep_queues": Planted({"4.9.7": 1, "5.3.3": 1}, "ownership", "a queue has one owner"),
    "lose_bells": Planted({"4.9.7": 1, "5.3.3": 1}, "wakes", "a message wakes the held pulls"),
    "retry_on_another_queue": Planted(
        {"4.9.7": 2, "5.3.3": 2}, "async_retries_stay", "client invariant 16"
    ),
}
assert PLANTED.keys() <= QUIRKS.keys(), "each is a bug that has a name"
