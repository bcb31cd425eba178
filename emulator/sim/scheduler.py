"""What we must know of trio's scheduler that trio does not say, in one place.

The virtual clock asks which tasks may run and when the next deadline is; pausing a
machine keeps its tasks out of the run queue.  trio has no public words for either, so
the private names stand here and nowhere else, and are checked when this is imported.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from trio._core import _run
from trio._core._run import GLOBAL_RUN_CONTEXT, Deadlines, Runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trio.lowlevel import Task

_RUNNER_NAMES = {"runq", "deadlines", "waiting_for_idle"}
assert set(dir(Runner)) >= _RUNNER_NAMES, "this trio's Runner is not the one we know"
assert hasattr(Deadlines, "next_deadline"), "this trio's Deadlines is not the one we know"
assert hasattr(_run, "unrolled_run"), "this trio's run loop is not the one we know"


def current_runner() -> Runner:
    """The scheduler of the trio run this is called in; raises ``RuntimeError`` outside of one."""
    try:
        return GLOBAL_RUN_CONTEXT.runner
    except AttributeError:
        raise RuntimeError("there is no trio run here") from None


class ParkingRunQueue(deque["Task"]):
    """A run queue that turns away the tasks below certain ones, and keeps them in order.

    *lots* maps a root task to those of its descendants that would run if they could.
    """

    def __init__(self, lots: Mapping[Task, list[Task]], tasks: deque[Task]) -> None:
        super().__init__()
        self._lots = lots
        for task in tasks:
            self.append(task)

    def append(self, task: Task) -> None:
        lot = self._lot_of(task)
        if lot is None:
            super().append(task)
        else:
            lot.append(task)

    def _lot_of(self, task: Task) -> list[Task] | None:
        above: Task | None = task
        while above is not None:
            if above in self._lots:
                return self._lots[above]
            nursery = above.parent_nursery
            above = None if nursery is None else nursery.parent_task
        return None


class Parking:
    """Which task trees may not run.  While there are none, trio's own queue is in place.

    A parked task still gets what it waited for, and its deadlines still pass: it learns
    of both when it runs again, as a stopped process does.
    """

    def __init__(self) -> None:
        self._lots: dict[Task, list[Task]] = {}

    def park(self, root: Task) -> None:
        self._lots.setdefault(root, [])
        runner = current_runner()
        runner.runq = ParkingRunQueue(self._lots, runner.runq)

    def release(self, root: Task) -> None:
        waiting = self._lots.pop(root, [])
        runner = current_runner()
        if self._lots:
            runner.runq = ParkingRunQueue(self._lots, runner.runq)
        else:
            runner.runq = deque(runner.runq)
        runner.runq.extend(waiting)
