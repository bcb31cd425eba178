"""The cost of a sweep on Spark: rows per second on one core and two, and without Spark.

    python -m benchmarks.sweep ROWS       # prints JSON

A run of the scenario takes about one CPU second.  The start before the first row (Spark, the
process that forks runs) is measured separately.  Each number of cores has its own process, in
turns with a ``RunPool``; the best of two rounds counts, because other programs only add time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from rocketmq_emulator.pipeline.session import spark_session
from rocketmq_emulator.pipeline.sweep.driving import SparkSweep
from rocketmq_emulator.pipeline.sweep.folder import SweepFolder, stored_sweep
from rocketmq_emulator.pipeline.sweep.grid import SweepSpec, grid_of
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.result import RunOrder
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool

SCENARIO, SETTINGS = "a_broker_flaps", {"well_s": "300"}  # 1,240 s of virtual time
ROUNDS = 2
WARM_ROWS = 6  # per core, to start its worker and its forking process


def main(rows: int) -> dict[str, float]:
    """All figures, in wall time; ``overhead_…`` is Spark's, compared with a ``RunPool``."""
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for jobs in (1, 2):
            rate, run_s = plain(jobs, rows * jobs)
            found.setdefault(f"plain_{jobs}", []).append(rate)
            found.setdefault("run_s", []).append(run_s)
            swept = in_a_process("swept", jobs, rows * jobs)
            found.setdefault(f"swept_{jobs}", []).append(swept["rows_per_s"])
            found.setdefault("spark_start_s", []).append(swept["start_s"])
        asked = in_a_process("asked", 2, 100_000)
        found.setdefault("asked_2", []).append(asked["rows_per_s"])
    best = {name: (min if name.endswith("_s") else max)(each) for name, each in found.items()}
    return {
        **best,
        "overhead_1": best["plain_1"] / best["swept_1"] - 1,
        "overhead_2": best["plain_2"] / best["swept_2"] - 1,
        "cores_share": best["swept_2"] / best["swept_1"],
    }


def plain(jobs: int, rows: int) -> tuple[float, float]:
    """Rows per second as by ``rmqemu run --seeds --jobs``, and seconds per run."""
    plan = load(SCENARIO, SETTINGS)
    first, *orders = [RunOrder(plan=plan, seed=seed) for seed in range(rows + 1)]
    with RunPool() as fleet:
        list(fleet.rows([first], 1))
        began_s = time.perf_counter()
        made = list(fleet.rows(orders, jobs))
        rate = len(made) / (time.perf_counter() - began_s)
        return rate, statistics.fmean(row.took_s for row in made)


def in_a_process(what: str, cores: int, rows: int) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.sweep", what, str(cores), str(rows)]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def swept(
    cores: int, rows: int, scenario: str = SCENARIO, settings: Mapping[str, str] = SETTINGS
) -> dict[str, float]:
    """Rows per second of a sweep on *cores*, after the start of its workers."""
    warm = WARM_ROWS * cores
    began_s = time.perf_counter()
    spark = spark_session("benchmark", cores)
    start_s = time.perf_counter() - began_s
    with tempfile.TemporaryDirectory() as folder:
        for seeds in (range(warm), range(warm, warm + rows)):
            asked = SweepSpec(
                scenario=scenario,
                settings=dict(settings),
                first_seed=seeds[0],
                last_seed=seeds[-1],
            )
            grid = grid_of(asked)
            with SweepFolder(Path(folder), stored_sweep(grid, ["benchmark"])) as target:
                made = SparkSweep(lambda: spark, grid, target)
                began_s = time.perf_counter()
                count = sum(1 for _ in made.rows())
                took_s = time.perf_counter() - began_s
    spark.stop()
    return {"rows_per_s": count / took_s, "start_s": start_s}


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    if what in ("swept", "asked"):
        of = (SCENARIO, SETTINGS) if what == "swept" else ("sharing", {})
        print(json.dumps(swept(int(numbers[0]), int(numbers[1]), *of)))
    else:
        print(json.dumps(main(int(what))))
