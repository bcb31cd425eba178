"""A service is a short loop in somebody's nursery."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import trio

if TYPE_CHECKING:
    from emulator.alarms import Alarm


async def every(
    interval_ms: int, action: Callable[[], object], *, first_ms: int, alarm: Alarm
) -> NoReturn:
    """Run *action* at a fixed rate, the first time after *first_ms*."""
    due_s = trio.current_time() + first_ms / 1000
    while True:
        await alarm.wait_until(due_s)
        action()
        due_s += interval_ms / 1000


async def every_of(
    services: Sequence[tuple[Callable[[], object], int, int]], alarm: Alarm
) -> NoReturn:
    """``every`` for several in one task: (action, interval_ms, first_ms) of each.

    Those that are due at the same moment run one after the other, in the order given.
    """
    began_s = trio.current_time()
    due = [(began_s + first / 1000, place) for place, (_, _, first) in enumerate(services)]
    heapq.heapify(due)
    while True:
        due_s, place = due[0]
        if due_s > trio.current_time():
            await alarm.wait_until(due_s)
        action, interval_ms, _ = services[place]
        action()
        heapq.heapreplace(due, (due_s + interval_ms / 1000, place))


async def every_waiting(
    interval_ms: int, action: Callable[[], Awaitable[object]], *, first_ms: int
) -> NoReturn:
    """The same for an action that may wait; late when it is slow, as one thread would be."""
    due_s = trio.current_time() + first_ms / 1000
    while True:
        await trio.sleep_until(due_s)
        await action()
        due_s += interval_ms / 1000
