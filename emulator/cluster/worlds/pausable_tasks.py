"""The tasks of one embedded node, which can be paused while other tasks in the thread go on.

A paused process does nothing, but its sockets stay open and its deadlines pass.  Here each task
of the node runs through a loop that takes every step for it: while the node is paused, the loop
keeps trio's result for the task (bytes arrived, a deadline passed, it is cancelled), and the task
parks until ``resume``.  So the code of a node does not depend on it.  Only public parts of trio
are used: a task awaits the loop, and the loop yields to trio whatever the node's code awaits.
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

import trio

if TYPE_CHECKING:
    from rocketmq_emulator.net.tasks import TaskNursery

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PausableTasks:
    """The tasks that were begun by ``run`` and in ``open_nursery``."""

    def __init__(self) -> None:
        self.is_paused = False
        self._parked: list[trio.lowlevel.Task] = []  # in the order in which trio scheduled them

    def pause(self) -> None:
        """Let none of the tasks take another step until ``resume``."""
        self.is_paused = True

    def resume(self) -> None:
        """Continue the parked tasks in their order.  Only in trio's thread."""
        self.is_paused = False
        parked, self._parked = self._parked, []
        for task in parked:
            trio.lowlevel.reschedule(task)

    async def run(self, async_fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Run ``async_fn(*args)``, which takes no step while paused; returns its result."""
        coroutine = async_fn(*args)
        assert isinstance(coroutine, Coroutine), "trio, too, wants an async function"
        result: T = await self._steps(coroutine)
        return result

    @asynccontextmanager
    async def open_nursery(self) -> AsyncIterator[TaskNursery]:
        """As ``trio.open_nursery``; its tasks are paused and resumed with the others."""
        async with trio.open_nursery() as nursery:
            yield PausableNursery(nursery, self)

    @types.coroutine
    def _steps(self, coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        answer: Any = None  # trio's result for the await before
        try:
            while True:
                while self.is_paused:
                    yield from self._park().__await__()
                awaited = coroutine.send(answer)
                answer = yield awaited
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            coroutine.close()

    async def _park(self) -> None:
        self._parked.append(trio.lowlevel.current_task())
        # A cancelled task stays parked too: it is cancelled when it is resumed.
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)


class PausableNursery:
    """The ``TaskNursery`` of a node that can be paused."""

    def __init__(self, nursery: trio.Nursery, tasks: PausableTasks) -> None:
        self.cancel_scope = nursery.cancel_scope
        self._nursery = nursery
        self._tasks = tasks

    def start_soon(self, async_fn: Callable[[Unpack[Ts]], Awaitable[object]], *args: *Ts) -> None:
        """As ``trio.Nursery.start_soon``."""
        self._nursery.start_soon(self._tasks.run, async_fn, *args, name=async_fn)
