"""All uses of trio's private scheduler by virtual runs, in one place.

The virtual clock reads the runnable tasks and the next deadline; a seed decides the order of the
tasks; pausing a machine keeps its tasks out of the run queue.  trio has no public names for these
three.  So ``check_trio`` looks for the private ones when a virtual run starts; clusters on real
ports, clients and commands use none of them and never load this file.

trio shuffles every batch of runnable tasks with a random generator of its own, and sorts the
batch before that only if a flag is set.  Both are names of the module and not of a run: while
virtual runs last, the generator is a ``ThreadLocalRandom``.  So a virtual run is repeatable beside
the trio runs of other threads: an embedded cluster, the clients of plain programs.  Sorted
batches have no effect on those.
"""

from __future__ import annotations

import importlib
import random
import threading
from collections import deque
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

import trio

from rocketmq_emulator.protocol.error_families import CannotDoHere

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from trio._core._run import Runner
    from trio.lowlevel import Task

TRIED_WITH = ("0.30.0", "0.31.0", "0.32.0", "0.33.0", "0.34.0", "0.35.0")
SCHEDULER = "trio._core._run"
PRIVATE_NAMES = (
    "_r",  # shuffles a batch of runnable tasks
    "_ALLOW_DETERMINISTIC_SCHEDULING",  # sorts a batch before it is shuffled
    "unrolled_run",  # the loop that reads these two
    "GLOBAL_RUN_CONTEXT",
    "Runner.runq",
    "Runner.deadlines",
    "Runner.waiting_for_idle",
    "Deadlines.next_deadline",
)


class UnknownTrio(CannotDoHere, RuntimeError):
    """A private name that virtual runs need is not in the installed trio; nothing was run."""


def check_trio() -> None:
    """Check that all private names exist.  Raises ``UnknownTrio`` with the missing ones."""
    try:
        scheduler = importlib.import_module(SCHEDULER)
    except ImportError:
        missing = [SCHEDULER]
    else:
        missing = [f"{SCHEDULER}.{name}" for name in PRIVATE_NAMES if not _has(scheduler, name)]
        if not isinstance(getattr(scheduler, "_r", _generators), random.Random):
            missing.append(f"a random.Random as {SCHEDULER}._r")
    if missing:
        raise UnknownTrio(
            f"trio {trio.__version__} lacks {', '.join(missing)}, which a virtual run needs.  "
            f"It was tried with trio {', '.join(TRIED_WITH)}: install one of them.  "
            "Clusters on real ports and clients need none of these names"
        )


def current_runner() -> Runner:
    """The scheduler of the current trio run.  Raises ``RuntimeError`` outside of one."""
    try:
        runner: Runner = _scheduler().GLOBAL_RUN_CONTEXT.runner
    except AttributeError:
        raise RuntimeError("there is no trio run here") from None
    return runner


def _scheduler() -> ModuleType:
    return importlib.import_module(SCHEDULER)


def _has(scheduler: ModuleType, name: str) -> bool:
    try:
        reduce(getattr, name.split("."), scheduler)
    except AttributeError:
        return False
    return True


# The order of tasks -------------------------------------------------------------------


class ThreadLocalRandom(random.Random):
    """trio's random generator: each thread draws from a generator of its own."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        super().__init__()

    @property
    def generator(self) -> random.Random:
        """The generator of the calling thread."""
        try:
            generator: random.Random = self._of_thread.generator
        except AttributeError:
            self._of_thread.generator = generator = random.Random()
        return generator

    @generator.setter
    def generator(self, generator: random.Random) -> None:
        self._of_thread.generator = generator

    def random(self) -> float:
        """As ``random.Random``; ``shuffle`` and ``choice`` use this and ``getrandbits``."""
        return self.generator.random()

    def getrandbits(self, k: int, /) -> int:
        return self.generator.getrandbits(k)


_generators = ThreadLocalRandom()
_lock = threading.Lock()
_trios_own: list[tuple[random.Random, bool]] = []  # one per virtual run; guarded by _lock


@contextmanager
def seeded_order(seed: int) -> Iterator[None]:
    """Inside, *seed* alone decides the order in which trio runs this thread's tasks.

    After the last virtual run of the process, trio's own values are restored.
    """
    before, _generators.generator = _generators.generator, random.Random(seed)
    _begin()
    try:
        yield
    finally:
        _end()
        _generators.generator = before


def _begin() -> None:
    with _lock:
        scheduler = _scheduler()
        its = (scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING)  # noqa: SLF001
        _trios_own.append(_trios_own[0] if _trios_own else its)
        _switch(scheduler, _generators, is_sorted=True)


def _end() -> None:
    with _lock:
        generator, is_sorted = _trios_own.pop()
        if not _trios_own:
            _switch(_scheduler(), generator, is_sorted=is_sorted)


def _switch(scheduler: ModuleType, generator: random.Random, *, is_sorted: bool) -> None:
    vars(scheduler).update(_r=generator, _ALLOW_DETERMINISTIC_SCHEDULING=is_sorted)


# Paused tasks -------------------------------------------------------------------------


class PausableRunQueue(deque["Task"]):
    """A run queue that keeps back the tasks of paused trees, in their order.

    *held* maps the root task of each paused tree to its runnable tasks.
    """

    def __init__(self, held: Mapping[Task, list[Task]], tasks: deque[Task]) -> None:
        super().__init__()
        self._held = held
        for task in tasks:
            self.append(task)

    def append(self, task: Task) -> None:
        """Queue *task*, or keep it back if its tree is paused."""
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
    """The paused task trees.  While there are none, trio's own queue is in place.

    The events for which a paused task waits still happen, and its deadlines still expire: it
    handles both when it runs again, as a stopped process does.
    """

    def __init__(self) -> None:
        self._held: dict[Task, list[Task]] = {}

    def pause(self, root: Task) -> None:
        """*root* and all tasks below it do not run until they are resumed."""
        self._held.setdefault(root, [])
        runner = current_runner()
        runner.runq = PausableRunQueue(self._held, runner.runq)

    def resume(self, root: Task) -> None:
        """The tasks that became runnable meanwhile run, in that order."""
        waiting = self._held.pop(root, [])
        runner = current_runner()
        if self._held:
            runner.runq = PausableRunQueue(self._held, runner.runq)
        else:
            runner.runq = deque(runner.runq)
        runner.runq.extend(waiting)
