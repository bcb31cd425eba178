"""Time is advanced for messages that wait: what falls due in the next so many ms comes now.

Only due times move.  Messages come in the order of the times at which they would have come, over
all delay levels and the timer wheel: ten hours in one step or in many come in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from emulator.broker.store.delays import ScheduleMessageService
    from emulator.broker.store.timer_messages import TimerMessageStore

DELIVERIES_MAX = 20_000  # at once; the others in the next turns


class Moved(NamedTuple):
    """How many messages waited, and how many of them have come."""

    waiting_count: int
    due_count: int


def advance(
    delays: ScheduleMessageService, timers: TimerMessageStore | None, ms: int, now_ms: int
) -> Moved:
    """Move what waits by *ms*, and deliver what is due by that."""
    waiting = delays.waiting_count() + (timers.waiting_count() if timers is not None else 0)
    delays.advance(ms)
    if timers is not None:
        timers.advance(ms)
    due = 0
    while due < DELIVERIES_MAX and (done := _deliver_next(delays, timers, now_ms)):
        due += done
    return Moved(waiting, due)


def _deliver_next(
    delays: ScheduleMessageService, timers: TimerMessageStore | None, now_ms: int
) -> int:
    """From the levels or the wheel, whichever is due first, up to where the other's turn is."""
    later_ms = now_ms + 1
    level_ms = delays.first_due_ms(now_ms) or later_ms
    timer_ms = (timers.first_due_ms() if timers is not None else None) or later_ms
    if timers is not None and timer_ms < level_ms:
        return timers.deliver_due(now_ms, min(now_ms, level_ms))
    return delays.deliver_due(now_ms, min(now_ms, timer_ms)) if level_ms <= now_ms else 0
