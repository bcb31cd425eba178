"""Bodies of our own calls (9000 and above): plain JSON with the very names of their fields.

Reply rules have a page of their own; here is what they share, and the bodies of calls that
set the clock of a server and listen to its facts.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from protocol.fields import BadFields

SKEW_MS_MAX = 10 * 365 * 24 * 3_600_000  # ten years
DRIFT_PPM_MAX = 500_000  # half as fast again, or half as fast
ADVANCE_MS_MAX = 365 * 24 * 3_600_000  # a year
FACTS_WAIT_MS_MAX = 30_000


class OwnBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body of our own: snake_case names, nothing unknown."""


class ClockSkew(OwnBody, frozen=True, omit_defaults=True):
    """The server's wall clock is ``ms`` ahead of the true time, or behind it; 0: right again.

    Besides it gains ``drift_ppm`` millionths of the time that passes since ``since_ms`` (true
    time; None: from now on, or as before if it drifts so already), or loses them.
    """

    ms: int
    drift_ppm: int = 0
    since_ms: int | None = None

    def __post_init__(self) -> None:
        if abs(self.ms) > SKEW_MS_MAX:
            raise ValueError(f"ms is at most {SKEW_MS_MAX} either way, not {self.ms}")
        if abs(self.drift_ppm) > DRIFT_PPM_MAX:
            text = f"drift_ppm is at most {DRIFT_PPM_MAX} either way, not {self.drift_ppm}"
            raise ValueError(text)


class FactsWanted(OwnBody, frozen=True):
    """Facts from now on, by the names of their kinds (None: all that are not on demand).

    The answer waits up to ``wait_ms`` for the first one.
    """

    kinds: tuple[str, ...] | None = None
    wait_ms: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.wait_ms <= FACTS_WAIT_MS_MAX:
            text = f"wait_ms is a number from 0 to {FACTS_WAIT_MS_MAX}, not {self.wait_ms}"
            raise ValueError(text)


class AdvanceTime(OwnBody, frozen=True):
    """What falls due in the next ``ms`` falls due now."""

    ms: int

    def __post_init__(self) -> None:
        if not 0 <= self.ms <= ADVANCE_MS_MAX:
            raise ValueError(f"ms is a number from 0 to {ADVANCE_MS_MAX}, not {self.ms}")


class AdvancedTime(OwnBody, frozen=True):
    """How many messages wait for their time, and how many of them have fallen due."""

    due_count: int
    waiting_count: int


B = TypeVar("B", bound=OwnBody)


def encode_own_body(body: OwnBody) -> bytes:
    """Plain JSON; members that have their defaults are left out of rules."""
    return msgspec.json.encode(body)


def decode_own_body(data: bytes, kind: type[B]) -> B:
    """The body; an empty one has all defaults.  Raises ``BadFields`` with the field's name."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFields(f"the body is no {kind.__name__}: {error}") from error
