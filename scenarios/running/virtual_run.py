"""One plan in the virtual world, in this process: from a seed to a judged journal.

Everything follows from the plan and the seed.  A run needs a process without another trio run
(see ``emulator.sim.determinism``); ``scenarios.running.fleet`` gives each one of its own.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import trio

from emulator.checks.judging import judge
from emulator.cluster.virtual import VirtualCluster
from emulator.facts import RunEnded
from emulator.journal import Entry
from emulator.sim.world import VirtualWorld, run_virtual
from scenarios.running.code_version import code_version
from scenarios.running.director import Director, StepNeverCame
from scenarios.running.guard import WallTimeRefused, no_wall_time
from scenarios.running.specs import spec_of
from scenarios.running.verdicts import result_of, started
from scenarios.running.virtual_stage import VirtualStage
from scenarios.running.waiting import what_waits

if TYPE_CHECKING:
    from scenarios.plan import Plan
    from scenarios.result import RunResult

FACTS_ON_DEMAND = ("HeartbeatReceived", "MessageGivenToListener", "MessagePolled")
LOOK_AT_LIMITS_S = 1.0


class LimitPassed(Exception):
    """A run took more than its plan allows."""


def run_plan(plan: Plan, seed: int, take: Callable[[Entry], object] | None = None) -> RunResult:
    """Run *plan* from *seed* and judge it; *take* gets each entry of the journal.

    Whatever goes wrong inside is a row with the verdict ``error``.  Raises ``NotAlone`` inside
    a trio run.
    """
    return finished_run(plan, seed, take)[0]


def finished_run(
    plan: Plan, seed: int, take: Callable[[Entry], object] | None = None
) -> tuple[RunResult, list[Entry]]:
    """The same, and the journal."""
    began_s = time.perf_counter()
    run = VirtualRun(plan, seed, take)
    run.run()
    result = result_of(
        plan,
        run.began,
        run.ended,
        judge(run.entries),
        run_s=run.lasted_us / 1_000_000,
        took_s=time.perf_counter() - began_s,
    )
    return result, run.entries


class VirtualRun:
    """``entries`` are the journal: the first is ``began``, the last ``ended``."""

    def __init__(
        self, plan: Plan, seed: int, take: Callable[[Entry], object] | None = None
    ) -> None:
        self.entries: list[Entry] = []
        self.began = started(plan, seed, "virtual", code_version())
        self.ended = RunEnded("error", "it has not begun")
        self.lasted_us = 0
        self._plan = plan
        self._seed = seed
        self._take = take
        self._is_over = False
        self._stage: VirtualStage | None = None
        self._director: Director | None = None

    def run(self) -> None:
        """Until it ends, one way or another: ``ended`` says how."""
        try:
            with no_wall_time(self._refuse):
                run_virtual(self._live, seed=self._seed)
        except (LimitPassed, WallTimeRefused):
            return  # the journal was closed when it happened
        except Exception as error:  # noqa: BLE001  # any defect, of a program or ours, is a row
            self._close("error", text_of(error))

    async def _live(self, world: VirtualWorld) -> None:
        cluster = VirtualCluster(
            world, spec_of(self._plan), listener=self._see, facts_on_demand=FACTS_ON_DEMAND
        )
        self._stage = VirtualStage(self._plan, cluster)
        self._director = Director(self._stage, self._seed)
        self._stage.note(self.began)
        world.nursery.start_soon(self._keep_limits, world)
        await self._director.run()
        self._close("finished", self._director.unrest)

    # The journal ----------------------------------------------------------------------

    def _see(self, entry: Entry) -> None:
        if self._is_over:
            return  # what falls apart at the end is not judged
        self.entries.append(entry)
        if self._take is not None:
            self._take(entry)
        if self._stage is not None:
            self._stage.watch.take(entry)
        if len(self.entries) == self._plan.limits.facts_max:
            self._pass_limit(f"{self._plan.limits.facts_max:,} facts (limits.facts_max)")

    def _close(self, reason: Literal["finished", "limit", "error"], detail: str) -> None:
        if self._is_over:
            return
        self.ended = RunEnded(reason, detail)
        if self._stage is not None:
            self.lasted_us = self._stage.mono_us()
            self._stage.note(self.ended)
        self._is_over = True

    # Limits ---------------------------------------------------------------------------

    async def _keep_limits(self, world: VirtualWorld) -> None:
        limits = self._plan.limits
        while True:
            await trio.sleep(LOOK_AT_LIMITS_S)
            if trio.current_time() >= limits.virtual_s_max:
                self._pass_limit(
                    f"{limits.virtual_s_max:g} virtual seconds (limits.virtual_s_max)"
                )
            if world.clock.steps >= limits.steps_max:
                self._pass_limit(f"{limits.steps_max:,} steps (limits.steps_max)")

    def _pass_limit(self, what: str) -> None:
        assert self._stage is not None
        assert self._director is not None
        text = f"it passed {what} at {self._stage.mono_us() / 1_000_000:g} s. "
        text += what_waits(self._stage, self._director)
        self._close("limit", text)
        self._stage.end_world(LimitPassed(text))

    def _refuse(self, error: WallTimeRefused) -> None:
        self._close("error", str(error))
        if self._stage is not None:
            self._stage.end_world(error)


def text_of(error: BaseException) -> str:
    """What ended a run, with its place, in one line; of several at once the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, StepNeverCame):
        return str(error)
    text = "".join(traceback.format_exception_only(error)).strip()
    places = traceback.extract_tb(error.__traceback__)
    if not places:
        return text
    last = places[-1]
    return f"{text} (at {last.name}, {Path(last.filename).name}:{last.lineno})"
