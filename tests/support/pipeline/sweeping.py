"""For tests of sweeps: a scenario of a few virtual seconds, and a sweep in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rocketmq_emulator.pipeline.sweep.driving import SparkSweep
from rocketmq_emulator.pipeline.sweep.folder import SweepFolder, stored_sweep
from rocketmq_emulator.pipeline.sweep.grid import SweepSpec, grid_of, variation
from rocketmq_emulator.pipeline.sweep.rows import SweptRow

SHORT = """
title = "A short one"
[parameters]
queues = 2
[topics.orders]
queues = "$queues"
[[consumers]]
group = "billing"
topic = "orders"
[[load]]
topic = "orders"
rate = "10/s"
until = "1s"
[expect]
lost = 0
"""
QUESTIONS = '''
import os, time
from pathlib import Path
from rocketmq_emulator.scenarios import question

@question
def halves(seed: int, width: int = 4) -> dict[str, float]:
    """Half of a width."""
    return {"half": width / 2, "seeded": seed * 10}

@question
def falls_over(seed: int, width: int = 4) -> dict[str, float]:
    if seed == 3:
        raise ZeroDivisionError("as it should")
    return {"half": width / 2}

@question
def kills_its_worker(seed: int) -> dict[str, float]:
    if seed == 3:
        os._exit(7)
    return {"seeded": seed}

@question
def hangs(seed: int) -> dict[str, float]:
    while seed == 3:
        time.sleep(0.01)
    return {"seeded": seed}
'''


def asked(scenario: str | Path, *vary: str, seeds: range = range(1, 3), **more: Any) -> SweepSpec:
    return SweepSpec(
        scenario=str(scenario),
        vary=dict(map(variation, vary)),
        first_seed=seeds[0],
        last_seed=seeds[-1],
        **more,
    )


def swept_here(
    spark: SparkSession, folder: Path, asked_for: SweepSpec, **more: Any
) -> tuple[SparkSweep, list[SweptRow]]:
    """Run a sweep in this process; return it and its new rows."""
    grid = grid_of(asked_for)
    with SweepFolder(folder, stored_sweep(grid, ["rmqemu", "sweep"])) as open_folder:
        sweep = SparkSweep(lambda: spark, grid, open_folder, **more)
        return sweep, list(sweep.rows())
