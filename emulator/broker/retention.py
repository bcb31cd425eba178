"""Which of the oldest segments are to go: for their age, or to make room.

A plan, not a deed.  The last segment always stays; a segment's age is that of its newest
message, and no message is newer than the first of the next segment.

Upstream: DefaultMessageStore.CleanCommitLogService (which also waits for an hour of the
day or a filling disk; here age alone decides).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.disk.port import Segment


def expired_count(
    segments: Sequence[Segment], store_ms_at: Callable[[int], int], older_than_ms: int
) -> int:
    """How many of the oldest hold nothing stored at or after *older_than_ms*."""
    bases = [segment.base for segment in segments[1:]]
    # The last segment may be empty still: it has no first message to ask, so what is before
    # it stays until it has.
    for count, base in enumerate(bases):
        if store_ms_at(base) >= older_than_ms:
            return count
    return len(bases)


def surplus_count(segments: Sequence[Segment], bytes_max: int, coming_bytes: int) -> int:
    """How many of the oldest must go so that *coming_bytes* more stay within *bytes_max*."""
    total = coming_bytes + sum(segment.size for segment in segments)
    for count, segment in enumerate(segments[:-1]):
        if total <= bytes_max:
            return count
        total -= segment.size
    return max(0, len(segments) - 1)
