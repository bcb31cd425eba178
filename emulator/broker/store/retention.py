"""Which of the oldest segments are to go: for their age, or to make room.

A plan, not a deed.  The last segment always stays; another's age is that of its newest
message.

Upstream: DefaultMessageStore.CleanCommitLogService (which also waits for an hour of the
day or a filling disk; here age alone decides).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.disk.port import Segment


def expired_count(
    segments: Sequence[Segment], newest_ms: Callable[[Segment], int], older_than_ms: int
) -> int:
    """How many of the oldest hold nothing stored at or after *older_than_ms*."""
    for count, segment in enumerate(segments[:-1]):
        if newest_ms(segment) >= older_than_ms:
            return count
    return max(0, len(segments) - 1)


def surplus_count(segments: Sequence[Segment], bytes_max: int, coming_bytes: int) -> int:
    """How many of the oldest must go so that *coming_bytes* more stay within *bytes_max*."""
    total = coming_bytes + sum(segment.size for segment in segments)
    for count, segment in enumerate(segments[:-1]):
        if total <= bytes_max:
            return count
        total -= segment.size
    return max(0, len(segments) - 1)
