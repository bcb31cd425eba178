"""Tasks under trio: periodic services, actions in the scheduler's next pass, nurseries.

A service is a short loop in a nursery, at a fixed rate of trio time; several services may share
a task.

A pass of the scheduler runs every task that is ready for one step.  ``NextPass`` calls an action
once, in the next pass, for all requests made in one pass.  It does so from one parked task, so
that a request starts no new task.

The nurseries raise a single failure as itself, not inside a group.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias, TypeVarTuple, Unpack

import trio

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import Alarm

Ts = TypeVarTuple("Ts")


# Periodic services --------------------------------------------------------------------


async def every(
    interval_ms: int, action: Callable[[], object], *, first_ms: int, alarm: Alarm
) -> NoReturn:
    """Run *action* at a fixed rate, the first time after *first_ms*."""
    due_s = trio.current_time() + first_ms / 1000
    while True:
        await alarm.wait_until(due_s)
        action()
        due_s += interval_ms / 1000


async def every_service(
    services: Sequence[tuple[Callable[[], object], int, int]], alarm: Alarm
) -> NoReturn:
    """``every`` for several services in one task: (action, interval_ms, first_ms) of each.

    Services that are due at the same time run in the order given.
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


async def every_async(
    interval_ms: int, action: Callable[[], Awaitable[object]], *, first_ms: int
) -> NoReturn:
    """``every`` for an action that may wait; a slow action delays the next, as in one thread."""
    due_s = trio.current_time() + first_ms / 1000
    while True:
        await trio.sleep_until(due_s)
        await action()
        due_s += interval_ms / 1000


# The scheduler's next pass ------------------------------------------------------------


class NextPass:
    """Calls *action* once for all requests of one pass; at once if ``run`` does not run."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._parked: trio.lowlevel.Task | None = None
        self._is_asked = False

    def ask(self) -> None:
        """Request the action: it is called before the scheduler sleeps again."""
        if self._parked is not None:
            self._is_asked = True
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task)
        elif not self._is_asked:
            self._action()

    async def run(self) -> NoReturn:
        """Call the action in each pass after a request, until cancelled."""
        while True:
            self._parked = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
            self._is_asked = False
            self._action()

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED


# Nurseries ----------------------------------------------------------------------------


class TaskNursery(Protocol):
    """The nursery of a node's tasks: trio's, or one whose tasks can be paused."""

    @property
    def cancel_scope(self) -> trio.CancelScope:
        """Cancels all tasks of the nursery."""
        ...

    def start_soon(self, async_fn: Callable[[Unpack[Ts]], Awaitable[object]], *args: *Ts) -> None:
        """Run ``async_fn(*args)`` in a task of its own."""
        ...


OpenNursery: TypeAlias = Callable[[], AbstractAsyncContextManager[TaskNursery]]


@asynccontextmanager
async def cancelling_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery whose tasks are cancelled when the block ends."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise _single_error(group) from None


@asynccontextmanager
async def joining_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery whose block ends when all its tasks have ended."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        raise _single_error(group) from None


def _single_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
