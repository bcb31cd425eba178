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
if not set(dir(Runner)) >= _RUNNER_NAMES:
    raise ImportError("this trio's Runner is not the one we know")
if not hasattr(Deadlines, "next_deadline"):
    raise ImportError("this trio's Deadlines is not the one we know")
if not hasattr(_run, "unrolled_run"):
    raise ImportError("this trio's run loop is not the one we know")


def current_runner() -> Runner:
    """The scheduler of the trio run this is called in; raises ``RuntimeError`` outside of one."""
    try:
        return GLOBAL_RUN_CONTEXT.runner
    except AttributeError:
        raise RuntimeError("there is no trio run here") from None


class PausableRunQueue(deque["Task"]):
    """A run queue that holds back the tasks below certain ones, in their order.

    *held* maps a root task to those of its descendants that would run if they could.
    """

    def __init__(self, held: Mapping[Task, list[Task]], tasks: deque[Task]) -> None:
        super().__init__()
        self._held = held
        for task in tasks:
            self.append(task)

    def append(self, task: Task) -> None:
        """Queue *task*, or hold it back."""
        held = self._held_with(task)
        if held is None:
            super().append(task)
        else:
            held.append(task)

    def _held_with(self, task: Task) -> list[Task] | None:
        above: Task | None = task
        while above is not None:
            if above in self._held:
                return self._held[above]
            nursery = above.parent_nursery
            above = None if nursery is None else nursery.parent_task
        return None


class PausedTasks:
    """Which task trees may not run.  While there are none, trio's own queue is in place.

    A paused task still gets what it waited for, and its deadlines still pass: it learns
    of both when it runs again, as a stopped process does.
    """

    def __init__(self) -> None:
        self._held: dict[Task, list[Task]] = {}

    def pause(self, root: Task) -> None:
        """*root* and all tasks below it do not run until they are resumed."""
        self._held.setdefault(root, [])
        runner = current_runner()
        runner.runq = PausableRunQueue(self._held, runner.runq)

    def resume(self, root: Task) -> None:
        """Those that became runnable meanwhile run, in that order."""
        waiting = self._held.pop(root, [])
        runner = current_runner()
        if self._held:
            runner.runq = PausableRunQueue(self._held, runner.runq)
        else:
            runner.runq = deque(runner.runq)
        runner.runq.extend(waiting)
