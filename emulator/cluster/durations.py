"""Lengths of time as people write them: "200ms", "30s", "10m", "2h", "1h30m"."""

from __future__ import annotations

import re

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:\s*{_PART.pattern})+\s*")


def milliseconds(text: str) -> int:
    """*text* in ms.  Raises ``ValueError``, which names an example."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'a length of time is written as "200ms", "30s" or "10m", not {text!r}')
    return round(sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(text)))
