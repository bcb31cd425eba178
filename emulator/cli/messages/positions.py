"""Positions in a topic as options name them: its first message, its end, or a time.

A time is ``2024-05-31T12:00`` (in this machine's time zone, unless it has an offset), epoch
milliseconds, or an age such as ``10m``: ten minutes ago.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from rocketmq_emulator.cli.options.errors import BadUse

WORDS_SHOWN = ("earliest", "latest")
PLACES = "|".join((*WORDS_SHOWN, "TIME"))
TIMES = "TIME: 2024-05-31T12:00, epoch milliseconds, or an age such as 10m"

WORDS = {"earliest": "first", "latest": "last", "first": "first", "last": "last"}
_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE = re.compile(r"(\d+)([smhd])")
_EPOCH_DIGITS_MIN = 12  # fewer digits mean before 1973: probably seconds


class Position(msgspec.Struct, frozen=True):
    """``where`` is first, last or time; ``at_ms`` is set for a time."""

    where: str
    at_ms: int | None = None


def position(text: str, option: str, now_ms: int) -> Position:
    """The position that *text*, the value of *option*, names.  Raises ``BadUse``."""
    if (where := WORDS.get(text)) is not None:
        return Position(where)
    if age := _AGE.fullmatch(text):
        return Position("time", now_ms - int(age[1]) * _MS[age[2]])
    if text.isdecimal():
        if len(text) < _EPOCH_DIGITS_MIN:
            raise BadUse(f"{option} {text}: epoch times are in milliseconds, which are 13 digits")
        return Position("time", int(text))
    try:
        return Position("time", int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadUse(
            f"{option} is earliest, latest or a time (2024-05-31T12:00, epoch milliseconds, "
            f"or an age such as 10m), not {text!r}"
        ) from None
