"""Names as people count them: ``orders-2`` before ``orders-10``.

Only for what is shown.  Queues are allocated in Java's order of names: see
``protocol.queues``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

DIGITS = re.compile(r"(\d{1,18})")  # longer ones are no counts


@functools.lru_cache(maxsize=10_000)
def natural(name: str) -> tuple[tuple[str | int, ...], str]:
    """A key that sorts runs of digits by value, and what is equal then by its text."""
    parts = DIGITS.split(name)
    return tuple(int(part) if at % 2 else part for at, part in enumerate(parts)), name


def in_natural_order(names: Iterable[str]) -> list[str]:
    """As ``sorted``, by value where there are digits."""
    return sorted(names, key=natural)
