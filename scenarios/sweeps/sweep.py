"""Many runs: rows that are cached on disk are taken from there, the rest is run.

    for row in sweep.rows():
        ...
    sweep.tally

One plan from many seeds, weather from many seeds, or several plans from one seed.  Rows come in
the order in which they finish.  A sweep that is stopped early has saved all rows it returned.  In
weather each seed has its own plan, which does not depend on other seeds, so its row is the same
alone and in any range; the coverage of all runs is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import msgspec

from rocketmq_emulator.cluster.world import WorldKind
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import COMPARE, RunOrder, RunResult, Verdict, is_worse
from rocketmq_emulator.scenarios.sweeps.row_files import FinishedRuns
from rocketmq_emulator.scenarios.sweeps.run_pool import RUN_S_MAX, RunPool
from rocketmq_emulator.scenarios.weather.coverage import Coverage


class Worst(msgspec.Struct):
    """The value of an expectation that is nearest to its bound, or farthest beyond it."""

    expectation: Expectation
    value: float
    seed: int

    def is_worse_than(self, other: Worst) -> bool:
        """Is the value farther beyond the bound?  Of equal values the lower seed is worse."""
        if self.value == other.value:
            return self.seed < other.seed
        return is_worse(self.expectation, self.value, other.value)


class SweepTally:
    """The progress of a sweep: verdicts, cached rows, the worst values and the worst row."""

    def __init__(self, plan: Plan, total: int, world: WorldKind = "virtual") -> None:
        self.plan = plan
        self.world: WorldKind = world
        self.total = total
        self.counts: Counter[Verdict] = Counter()
        self.cached_count = 0
        self.worst: dict[str, Worst] = {}
        self.worst_row: RunResult | None = None  # of equal rows that of the lowest seed
        self.worst_badness: Badness | None = None

    @property
    def done(self) -> int:
        """The number of rows so far."""
        return self.counts.total()

    def add(self, row: RunResult, *, cached: bool) -> None:
        """Count *row*."""
        self.counts[row.verdict] += 1
        self.cached_count += cached
        if row.verdict != "passed":
            self._compare(row)
        for expectation in self.plan.expect:
            self._measure(expectation, row)

    def _compare(self, row: RunResult) -> None:
        found, known, worst = badness(row, self.plan), self.worst_badness, self.worst_row
        if known is None or worst is None or (found, -row.seed) > (known, -worst.seed):
            self.worst_row, self.worst_badness = row, found

    def _measure(self, expectation: Expectation, row: RunResult) -> None:
        name = metric_name(expectation)
        value = row.metrics.get(name)
        if value is None:
            return
        found, before = Worst(expectation, value, row.seed), self.worst.get(name)
        if before is None or found.is_worse_than(before):
            self.worst[name] = found


class SweepOptions(TypedDict, total=False):
    """Keyword arguments of ``Sweep``, for functions that pass them on."""

    jobs: int
    keeps_passed: bool
    paths: Sequence[str]
    world: WorldKind
    look: Callable[[], object]


class Sweep:
    """Runs *plan* from each of *seeds*; journals of runs that do not pass go to *journals*."""

    def __init__(
        self,
        plan: Plan,
        seeds: Sequence[int],
        journals: Path,
        *,
        jobs: int = 1,
        finished: FinishedRuns | None = None,
        keeps_passed: bool = False,
        paths: Sequence[str] = (),
        world: WorldKind = "virtual",
        look: Callable[[], object] = lambda: None,
    ) -> None:
        self.tally = SweepTally(plan, len(seeds), world)
        self._counts_coverage = False
        self._plan = plan
        self._plan_of: Callable[[int], Plan] = lambda _seed: plan
        self._seeds = seeds
        self._journals = journals
        self._jobs = jobs
        self._finished = finished
        self._keeps_passed = keeps_passed
        self._paths = tuple(paths)
        self._world: WorldKind = world
        self._look = look

    def rows(self) -> Iterator[RunResult]:
        """One row for each seed, those that are cached first."""
        wanted: list[int] = []
        for seed in self._seeds:
            row = None if self._finished is None else self._finished.row(seed)
            if row is None:
                wanted.append(seed)
            else:
                self.tally.add(row, cached=True)
                yield row
        if not wanted:
            return
        self._journals.mkdir(parents=True, exist_ok=True)
        run_s_max = RUN_S_MAX
        if self._world != "virtual":  # the run itself checks the plan's limit, in real time
            run_s_max += self._plan.limits.virtual_s_max
        with RunPool(self._look, run_s_max) as fleet:
            for row in fleet.rows(map(self._order, wanted), min(self._jobs, len(wanted))):
                if self._finished is not None:
                    self._finished.add(row)
                self.tally.add(row, cached=False)
                yield row

    def _order(self, seed: int) -> RunOrder:
        plan = self._plan_of(seed)
        return RunOrder(
            plan=plan,
            seed=seed,
            journal=str(self._journals / f"{file_name(plan)}-seed{seed}.jsonl"),
            keeps_passed=self._keeps_passed,
            paths=self._paths,
            world=self._world,
            counts_coverage=self._counts_coverage,
        )


def file_name(plan: Plan) -> str:
    """The prefix of the names of files of a plan's runs."""
    return re.sub(r"[^\w.-]+", "-", plan.name).strip("-")[:60] or "scenario"


def metric_name(expectation: Expectation) -> str:
    """As in a judgement: ``lost``, ``lost.billing``."""
    return f"{expectation.metric}.{expectation.scope}" if expectation.scope else expectation.metric


class Badness(msgspec.Struct, frozen=True, order=True):
    """How bad a row is, compared field by field: a failed one is worse than one without answer.

    ``beyond`` has for each expectation of the plan, in its order, how far its value is beyond the
    bound, 0 if it holds: so the first expectation that distinguishes two rows decides.
    """

    has_failed: bool
    beyond: tuple[float, ...]
    violation_count: int


def badness(row: RunResult, plan: Plan) -> Badness:
    """The ``Badness`` of *row*, a run of *plan*."""
    beyond = tuple(_beyond(each, row.metrics.get(metric_name(each))) for each in plan.expect)
    return Badness(row.verdict == "failed", beyond, len(row.violations))


def reason_worst(row: RunResult, plan: Plan) -> str:
    """What makes *row* the worst, as text: ``unowned_s 43.2, where <= 21 was expected``."""
    for each in plan.expect:
        value = row.metrics.get(metric_name(each))
        if value is not None and _beyond(each, value):
            bound = f"{each.operator} {each.bound:g}"
            return f"{metric_name(each)} {value:g}, where {bound} was expected"
    if count := len(row.violations):
        return f"{count} violation{'s' * (count > 1)}"
    return ""


def _beyond(expectation: Expectation, value: float | None) -> float:
    if value is None or COMPARE[expectation.operator](value, expectation.bound):
        return 0.0
    return abs(value - expectation.bound)


# Weather: a plan for each seed --------------------------------------------------------


def cache_plan_of(base: Plan) -> Plan:
    """The plan whose digest names the cache file of a weather sweep: the same for all seeds."""
    parameters = {**base.parameters, "seed": 0}
    return Plan(name="weather", cluster=base.cluster, quirks=base.quirks, parameters=parameters)


class WeatherSweep(Sweep):
    """A sweep whose plans *plan_of(seed)* makes; ``coverage`` counts all rows so far."""

    def __init__(
        self,
        plan_of: Callable[[int], Plan],
        base: Plan,
        seeds: Sequence[int],
        journals: Path,
        *,
        finished: FinishedRuns | None = None,
        **options: Unpack[SweepOptions],
    ) -> None:
        plan = msgspec.structs.replace(base, name="weather")
        super().__init__(plan, seeds, journals, finished=finished, **options)
        self.coverage = Coverage()
        self._plan_of = plan_of
        self._counts_coverage = True

    def rows(self) -> Iterator[RunResult]:
        for row in super().rows():
            self.coverage.add_metrics(row.metrics)
            yield row


# Several plans, each from one seed ----------------------------------------------------


def rows_of_plans(
    plans: Sequence[Plan],
    *,
    seed: int,
    jobs: int,
    cache: Path | None = None,
    look: Callable[[], object] = lambda: None,
) -> Iterator[tuple[int, RunResult]]:
    """The index in *plans* and the row of each, cached rows first; *look* as for ``RunPool``."""
    wanted: dict[int, int] = {}  # by the order's id: the place
    orders: list[RunOrder] = []
    finished = {at: FinishedRuns(plan, cache) for at, plan in enumerate(plans) if cache}
    for at, plan in enumerate(plans):
        row = finished[at].row(seed) if at in finished else None
        if row is not None:
            yield at, row
            continue
        orders.append(RunOrder(plan=plan, seed=seed, paths=(str(Path.cwd()),)))
        wanted[id(orders[-1])] = at
    if not orders:
        return
    with RunPool(look) as fleet:
        for order, row in fleet.finished(orders, min(jobs, len(orders))):
            at = wanted[id(order)]
            if at in finished:
                finished[at].add(row)
            yield at, row
