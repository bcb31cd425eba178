"""Periodic tasks that share one thread of control, as upstream's do.

They run one at a time, in order of their due times, at a fixed rate: one that is slow
makes the others late, and what was missed meanwhile is made up for back to back.

Upstream: MQClientInstance.startScheduledTask.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import trio

if TYPE_CHECKING:
    from emulator.alarms import Alarm


class Periodic(NamedTuple):
    """An action, first after ``first_ms``, then every ``every_ms``."""

    first_ms: int
    every_ms: int
    action: Callable[[], Awaitable[object]]


async def run_schedule(tasks: Sequence[Periodic], alarm: Alarm) -> NoReturn:
    """Run *tasks* by turns, counted from now, until cancelled; what one raises ends all."""
    began_s = trio.current_time()
    due = [(began_s + task.first_ms / 1000, number) for number, task in enumerate(tasks)]
    heapq.heapify(due)
    while True:
        due_s, number = due[0]
        await alarm.wait_until(due_s)
        await tasks[number].action()
        heapq.heapreplace(due, (due_s + tasks[number].every_ms / 1000, number))
