"""The overhead of a task, a job and a row of a sweep: the ``Costs`` of its schedule.

    python -m benchmarks.sweep_costs  # prints JSON, named as in docs.generate.sweep_schedule

Driver and executor are one process here.  So the time of a task that only uses the JVM counts as
the driver's, and the time that ``mapInArrow`` adds counts as the executor's.  The time of a row
is the time of a ``RunPool`` per run, minus the time that the run reports.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from rocketmq_emulator.pipeline.session import spark_session
from rocketmq_emulator.pipeline.sweep.driving import SparkSweep
from rocketmq_emulator.pipeline.sweep.folder import SweepFolder, stored_sweep
from rocketmq_emulator.pipeline.sweep.grid import SweepSpec, grid_of
from rocketmq_emulator.pipeline.sweep.rows import ShippedRow, returned_batch, swept
from rocketmq_emulator.pipeline.sweep.work import RowSpec
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.result import RunOrder
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool

CORES = 2
TASKS = 2_000
JOBS = 20
ROWS = 60
WEATHER = {"seconds": "30", "rate": "4", "brokers": "2"}  # as WEATHER_RUN_S of the schedule


def main() -> dict[str, float]:
    spark = spark_session("benchmark", CORES)
    spark.range(0, TASKS, 1, 20).mapInArrow(same, "id long").write.format("noop").mode(
        "overwrite"
    ).save()  # classes, compiled code, Python's workers
    of_jvm_s = a_task_s(lambda: noop(spark.range(0, TASKS, 1, TASKS)))
    of_both_s = a_task_s(lambda: noop(spark.range(0, TASKS, 1, TASKS).mapInArrow(same, "id long")))
    found = {
        "job_s": a_job_s(spark),
        "launch_s": of_jvm_s,
        "task_s": (of_both_s - of_jvm_s) * CORES,
        **of_rows(),
    }
    spark.stop()
    return found


def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def noop(table: object) -> None:
    table.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]


def a_task_s(job: Callable[[], object]) -> float:
    """Wall seconds per task, of a job with ``TASKS`` tasks; the best of three."""
    return min(timed(job) for _ in range(3)) / TASKS


def a_job_s(spark: SparkSession) -> float:
    """The median of sweeps of one question: planned, run in one task, stored."""
    took: list[float] = []
    for seed in range(JOBS):
        grid = grid_of(SweepSpec(scenario="sharing", first_seed=seed, last_seed=seed))
        with (
            tempfile.TemporaryDirectory() as folder,
            SweepFolder(Path(folder), stored_sweep(grid, ["benchmark"])) as target,
        ):
            sweep = SparkSweep(lambda: spark, grid, target)
            took.append(timed(lambda sweep=sweep: list(sweep.rows())))  # type: ignore[misc]
    return statistics.median(took)


def of_rows() -> dict[str, float]:
    """For weather: seconds per row besides its run, bytes to an executor and back."""
    plan = load("weather", WEATHER)
    first, *orders = [RunOrder(plan=plan, seed=seed) for seed in range(ROWS + 1)]
    with RunPool() as fleet:
        list(fleet.rows([first], 1))
        began_s = time.perf_counter()
        rows = list(fleet.rows(orders, 1))
        took_s = time.perf_counter() - began_s
    shipped = returned_batch([ShippedRow(swept(row, "0" * 32)) for row in rows])
    order = msgspec.json.encode(RowSpec("0" * 32, 1, plan))
    compressed = pa.compress(order, codec="lz4", asbytes=True)
    return {
        "row_s": (took_s - sum(row.took_s for row in rows)) / ROWS,
        "order_bytes": len(compressed),
        "row_bytes": shipped.nbytes / ROWS,
    }


def timed(action: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    json.dump({name: round(each, 5) for name, each in main().items()}, sys.stdout, indent=1)
