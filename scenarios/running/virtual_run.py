"""Runs one plan in the virtual world, in this process: from a seed to a judged journal.

Every node and every client is a virtual machine, in virtual time.  The journal follows from the
plan and the seed alone.  A run needs a process without another trio run (see
``sim.determinism``); ``scenarios.sweeps`` runs each plan in a process of its own.
"""

from __future__ import annotations

import sysconfig
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import trio

from rocketmq_emulator.admin.calls import Admin, admin_on
from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.cluster.faults.effects import OPERATOR
from rocketmq_emulator.cluster.world import STOP_S_MAX
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.facts import RunEnded
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.error_families import CannotDoHere
from rocketmq_emulator.scenarios.plan.result import code_version, result_of, started
from rocketmq_emulator.scenarios.running.client_runner import run_client
from rocketmq_emulator.scenarios.running.environment import RunEnvironment, cluster_spec_of
from rocketmq_emulator.scenarios.running.no_wall_time import WallTimeRefused, no_wall_time
from rocketmq_emulator.scenarios.running.runner import PlanRunner, StepTimedOut, waiting_summary
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

if TYPE_CHECKING:
    from rocketmq_emulator.client import ClientProcess
    from rocketmq_emulator.scenarios.plan.plan import Plan
    from rocketmq_emulator.scenarios.plan.result import RunResult
    from rocketmq_emulator.scenarios.running.client_specs import AnyClientSpec


FACTS_ON_DEMAND = ("HeartbeatReceived", "MessageGivenToListener", "MessagePolled")
LIMIT_CHECK_INTERVAL_S = 1.0


class LimitExceeded(CannotDoHere):
    """A run passed a limit of its plan."""


def run_plan(plan: Plan, seed: int, take: Callable[[Entry], object] | None = None) -> RunResult:
    """Run *plan* from *seed* and judge it; *take* is called with each entry of the journal.

    Any error during the run is a row with the verdict ``error``.  Raises ``InsideTrioRun``
    inside a trio run.
    """
    return finished_run(plan, seed, take)[0]


def finished_run(
    plan: Plan, seed: int, take: Callable[[Entry], object] | None = None
) -> tuple[RunResult, list[Entry]]:
    """Like ``run_plan``, but returns the row and the journal."""
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
    """One run; ``entries`` are its journal: the first is ``began``, the last ``ended``."""

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
        self._environment: VirtualEnvironment | None = None
        self._runner: PlanRunner | None = None

    def run(self) -> None:
        """Run until the end, also after an error: then ``ended`` has the reason."""
        try:
            with no_wall_time(self._refuse):
                run_virtual(self._live, seed=self._seed)
        except (LimitExceeded, WallTimeRefused):
            return  # the journal was closed when it happened
        except Exception as error:  # noqa: BLE001  # any defect, of a program or ours, is a row
            self._close("error", text_of(error))

    async def _live(self, world: VirtualWorld) -> None:
        cluster = VirtualCluster(
            world, cluster_spec_of(self._plan), listener=self._see, facts_on_demand=FACTS_ON_DEMAND
        )
        self._environment = VirtualEnvironment(self._plan, cluster)
        self._runner = PlanRunner(self._environment, self._seed)
        self._environment.note(self.began)
        world.nursery.start_soon(self._keep_limits, world)
        await self._runner.run()
        self._close("finished", self._runner.unrest)

    # The journal ----------------------------------------------------------------------

    def _see(self, entry: Entry) -> None:
        if self._is_over:
            return  # facts of the shutdown are not judged
        self.entries.append(entry)
        if self._take is not None:
            self._take(entry)
        if self._environment is not None:
            self._environment.watch.take(entry)
        if len(self.entries) == self._plan.limits.facts_max:
            self._pass_limit(f"{self._plan.limits.facts_max:,} facts (limits.facts_max)")

    def _close(self, reason: Literal["finished", "limit", "error"], detail: str) -> None:
        if self._is_over:
            return
        self.ended = RunEnded(reason, detail)
        if self._environment is not None:
            self.lasted_us = self._environment.mono_us()
            self._environment.note(self.ended)
        self._is_over = True

    # Limits ---------------------------------------------------------------------------

    async def _keep_limits(self, world: VirtualWorld) -> None:
        limits = self._plan.limits
        while True:
            await trio.sleep(LIMIT_CHECK_INTERVAL_S)
            if trio.current_time() >= limits.virtual_s_max:
                self._pass_limit(
                    f"{limits.virtual_s_max:g} virtual seconds (limits.virtual_s_max)"
                )
            if world.clock.steps >= limits.steps_max:
                self._pass_limit(f"{limits.steps_max:,} steps (limits.steps_max)")

    def _pass_limit(self, what: str) -> None:
        assert self._environment is not None
        assert self._runner is not None
        text = f"it passed {what} at {self._environment.mono_us() / 1_000_000:g} s. "
        text += waiting_summary(self._environment, self._runner)
        self._close("limit", text)
        self._environment.end_world(LimitExceeded(text))

    def _refuse(self, error: WallTimeRefused) -> None:
        self._close("error", str(error))
        if self._environment is not None:
            self._environment.end_world(error)


def text_of(error: BaseException) -> str:
    """*error* with its place in one line; of an exception group the first error.

    The place is the last line of the user's own code, if the error came through it.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, StepTimedOut):
        return str(error)
    notes = getattr(error, "__notes__", ())
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    text = "\n".join(lines[: len(lines) - len(notes)])
    places = traceback.extract_tb(error.__traceback__)
    last = next(filter(_is_users, reversed(places)), places[-1] if places else None)
    at = [] if last is None else [f"at {last.name}, {Path(last.filename).name}:{last.lineno}"]
    told = ", ".join([*notes, *at])
    return f"{text} ({told})" if told else text


OURS_AND_INSTALLED = (
    str(Path(__file__).parents[2]),
    *map(sysconfig.get_path, ("stdlib", "purelib")),
)


def _is_users(place: traceback.FrameSummary) -> bool:
    """Whether the code is neither ours nor that of an installed library."""
    return not place.filename.startswith((*OURS_AND_INSTALLED, "<"))


# Nodes and clients as virtual machines ------------------------------------------------


class VirtualEnvironment(RunEnvironment):
    """The virtual world of *cluster*, which has started no node yet."""

    def __init__(self, plan: Plan, cluster: VirtualCluster) -> None:
        super().__init__(plan, cluster)
        self._cluster = cluster
        self._world: VirtualWorld = cluster.world
        self._in_flight: dict[str, Callable[[], str]] = {}
        self._endings: dict[str, trio.Event] = {}

    def mono_us(self) -> int:
        return self._world.clock.now_us

    def now_ms(self) -> int:
        return self._world.now_ms()

    async def start_cluster(self) -> None:
        await self._cluster.start()

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Admin]:
        """Tool calls, sent from the machine ``operator``."""
        machine = self._world.machines.machine(OPERATOR)
        namesrv = self._cluster.namesrv
        async with admin_on(machine.network, machine.clock, namesrv) as admin:
            yield admin

    async def start_client(self, part: AnyClientSpec) -> None:
        """Start a machine named as the client, with one process for it."""

        async def program(process: ClientProcess) -> None:
            def report_open_work(in_flight: Callable[[], str]) -> None:
                self._in_flight[part.name] = in_flight

            ending = self._endings[part.name] = trio.Event()
            await run_client(part, process, report_open_work, ending)

        self._cluster.start_client(part.name, program)

    async def stop(self, name: str) -> None:
        """Close a client in order, and kill it if it hangs; or stop a node."""
        ending = self._endings.get(name)
        if ending is not None and self._cluster.is_running(name):
            self._world.machines.resume(name)
            ending.set()
            with trio.move_on_after(STOP_S_MAX):
                await self._world.machines.machine(name).wait_ended()
        await super().stop(name)

    def client_has_ended(self, name: str) -> bool:
        return not self._cluster.is_running(name)

    def end_world(self, error: Exception) -> None:
        """End the virtual world now; the run raises *error*."""
        self._world.crash(error)

    def open_work(self) -> dict[str, str]:
        found = {
            name: ask() for name, ask in self._in_flight.items() if self._cluster.is_running(name)
        }
        return {name: text for name, text in found.items() if text}
