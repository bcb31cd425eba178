"""The time of a sweep on many cores, computed by a small simulation of its schedule.

    python -m docs.generate.sweep_schedule                 the tables of docs/sweep.md
    python -m docs.generate.sweep_schedule DIR 100 1000    run times of a sweep, on so many cores

It divides rows as the driver does (``division``), assigns tasks to cores in order, starts one
task at a time, and counts the transferred bytes.  Run times are drawn from those of real sweeps.
No scenario and no Spark is run here.
"""

from __future__ import annotations

import heapq
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TypeAlias

import msgspec

from rocketmq_emulator.pipeline.sweep.division import WAVES_AT_ONCE, RunTimes, tasks_of_wave

Divide: TypeAlias = Callable[[int, int, float], list[int]]  # as ``tasks_of_wave``

QUANTILES = 20
# Quantiles at 0, 5, … 100 % of the seconds of 300 weather runs (30 s, 4 messages/s, 2 brokers):
# wall times, scaled to the mean CPU time of a run, 0.75 s.
WEATHER_RUN_S = (
    *(0.26, 0.35, 0.40, 0.44, 0.46, 0.48, 0.50, 0.53, 0.57, 0.60, 0.64),
    *(0.69, 0.73, 0.78, 0.84, 0.90, 0.96, 1.03, 1.17, 1.51, 2.60),
)
SEED = 1
CORES = (1, 2, 10, 100, 1_000)


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """The overhead of a schedule: measured by benchmarks/sweep_costs.py, rounded up."""

    job_s: float = 0.2  # driver, per wave: plan and divide it, store its rows
    launch_s: float = 0.001  # driver, per task: serialise and send it, note its end
    task_s: float = 0.05  # executor's core, per task: pass it to Python and back
    row_s: float = 0.015  # executor's core, per row: fork a process, read its answer
    order_bytes: int = 1_700  # per row, sent to an executor: a compressed plan
    row_bytes: int = 9_000  # per row, returned by a weather run: a hundred named metrics


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a schedule.  ``busy`` is the share of all cores' time that was spent in runs."""

    cores: int
    rows: int
    tasks: int
    elapsed_s: float
    busy: float
    driver_busy: float  # the share of its time in which the driver started tasks and jobs
    sent_mb: float
    returned_mb: float


def simulated(
    run_s: Sequence[float],
    cores: int,
    costs: Costs | None = None,
    divide: Divide = tasks_of_wave,
) -> Schedule:
    """The schedule of runs that take *run_s*, in this order, on *cores*."""
    costs = costs or Costs()
    free_s = [0.0] * cores  # a heap: when each core is free
    driver_s = driver_busy_s = 0.0
    ends: deque[float] = deque([0.0] * WAVES_AT_ONCE, WAVES_AT_ONCE)  # of the last waves
    tasks = 0
    for sizes, runs in _waves(run_s, cores, divide):
        handed_s = max(driver_s, ends[0]) + costs.job_s
        driver_s, driver_busy_s = handed_s, driver_busy_s + costs.job_s
        end_s = handed_s
        for first, last in pairwise(accumulate(sizes, initial=0)):
            driver_s = max(heapq.heappop(free_s), driver_s) + costs.launch_s
            driver_busy_s += costs.launch_s
            row_s = sum(runs[first:last]) + (last - first) * costs.row_s
            heapq.heappush(free_s, driver_s + costs.task_s + row_s)
            end_s = max(end_s, driver_s + costs.task_s + row_s)
        ends.append(end_s)
        tasks += len(sizes)
    elapsed_s = max(ends)
    return Schedule(
        cores=cores,
        rows=len(run_s),
        tasks=tasks,
        elapsed_s=elapsed_s,
        busy=sum(run_s) / (cores * elapsed_s),
        driver_busy=driver_busy_s / elapsed_s,
        sent_mb=len(run_s) * costs.order_bytes / 1e6,
        returned_mb=len(run_s) * costs.row_bytes / 1e6,
    )


def _waves(
    run_s: Sequence[float], cores: int, divide: Divide
) -> Iterator[tuple[list[int], Sequence[float]]]:
    """The sizes of each wave's tasks, and its runs; sizes depend on the times of earlier runs."""
    times, at = RunTimes(), 0
    before: Sequence[float] = ()
    while at < len(run_s):
        sizes = divide(len(run_s) - at, cores, times.mean_s)
        runs = run_s[at : at + sum(sizes)]
        yield sizes, runs
        for each in before:  # the next wave is divided before this one has ended
            times.add(each)
        before, at = runs, at + len(runs)


def one_row_a_task(left: int, cores: int, _run_s: float) -> list[int]:
    """For comparison: one task per row."""
    return [1] * min(left, cores * 32)


def large_tasks(left: int, cores: int, _run_s: float) -> list[int]:
    """For comparison: one task per core, with an equal part of all rows."""
    part = -(-left // cores)
    return [min(part, left - at) for at in range(0, left, part)]


def quantiles_of(run_s: Iterable[float]) -> tuple[float, ...]:
    """The quantiles of *run_s* at 0, 5, … 100 %."""
    ordered = sorted(run_s)
    return tuple(ordered[(len(ordered) - 1) * at // QUANTILES] for at in range(QUANTILES + 1))


def drawn(quantiles: Sequence[float], count: int, rng: random.Random) -> list[float]:
    """*count* run times of a distribution with these quantiles, evenly between two of them."""
    parts = list(pairwise(quantiles))
    return [rng.uniform(*rng.choice(parts)) for _ in range(count)]


# As a table -------------------------------------------------------------------------------

HEADINGS = ("rows", "cores", "takes", "cores busy", "driver busy", "tasks", "sent", "returned")


def schedule_table(quantiles: Sequence[float], cores: Sequence[int] = CORES) -> list[str]:
    """Markdown: ten and a hundred thousand rows on each number of cores."""
    lines = [_line(HEADINGS), _line(["---:"] * len(HEADINGS))]
    for rows in (10_000, 100_000):
        run_s = drawn(quantiles, rows, random.Random(SEED))
        lines += [_line(_cells(simulated(run_s, count))) for count in cores]
    return lines


def comparison_table(quantiles: Sequence[float], cores: int = 1_000) -> list[str]:
    """Markdown: other ways to divide and to order the same rows."""
    mixed = drawn(quantiles, 100_000, random.Random(SEED))
    ways: dict[str, tuple[Divide, list[float]]] = {
        "as here: tasks of 3 s, rows mixed": (tasks_of_wave, mixed),
        "as here, the slowest rows last": (tasks_of_wave, sorted(mixed)),
        "one task per row": (one_row_a_task, mixed),
        "one task per core": (large_tasks, mixed),
        "one task per core, rows ordered by time": (large_tasks, sorted(mixed)),
    }
    lines = [_line(("100,000 rows, 1,000 cores", "takes", "cores busy", "driver busy"))]
    lines.append(_line(("---", "---:", "---:", "---:")))
    for name, (divide, run_s) in ways.items():
        cells = _cells(simulated(run_s, cores, divide=divide))
        lines.append(_line((name, *cells[2:5])))
    return lines


def _cells(one: Schedule) -> list[str]:
    return [
        f"{one.rows:,}",
        f"{one.cores:,}",
        _duration(one.elapsed_s),
        f"{one.busy:.0%}",
        f"{one.driver_busy:.1%}",
        f"{one.tasks:,}",
        f"{one.sent_mb:,.0f} MB",
        f"{one.returned_mb:,.0f} MB",
    ]


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(words: Sequence[str]) -> None:
    """Print the tables."""
    quantiles: Sequence[float] = WEATHER_RUN_S
    cores: tuple[int, ...] = CORES
    if words:
        quantiles = quantiles_of(_run_times(Path(words[0])))
        cores = tuple(map(int, words[1:])) or CORES
    write = partial(print, file=sys.stdout)
    write("\n".join(schedule_table(quantiles, cores)))
    write()
    write("\n".join(comparison_table(quantiles)))


def _run_times(folder: Path) -> list[float]:
    import pyarrow.parquet as pq  # noqa: PLC0415  # the table of the docs needs none

    files = sorted((folder / "runs").glob("*.parquet"))
    return [
        took_s for file in files for took_s in pq.read_table(file)["took_s"].to_pylist() if took_s
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
