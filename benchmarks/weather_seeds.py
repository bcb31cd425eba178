"""Seeds of weather per second: 60 virtual seconds of faults, then quiet, judged.

    python -m benchmarks.weather_seeds RATE SEEDS [JOBS]   # prints seeds/s

Without JOBS the runs are in this process, and the rate is per CPU second, so for one core.  With
JOBS it is per real second for all jobs together: rows as in `rmqemu run --seeds`, each from a
process of its own; the start before the first row is not included.
"""

from __future__ import annotations

import json
import sys
import time

from rocketmq_emulator.scenarios.plan.result import RunOrder
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.weather.generating import weather
from rocketmq_emulator.scenarios.weather.shape import WeatherShape


def main(rate: float, seeds: int, jobs: int) -> dict[str, float]:
    shape = WeatherShape(rate=rate)
    first, *orders = [
        RunOrder(plan=weather(seed, shape=shape), seed=seed) for seed in range(seeds + 1)
    ]
    if not jobs:
        return {"seeds_per_s": seeds / cpu_s_of(first, orders)}
    with RunPool() as fleet:
        rows = list(fleet.rows([first], 1))
        began_s = time.perf_counter()
        rows += fleet.rows(orders, jobs)
        took_s = time.perf_counter() - began_s
    if errors := [row.reason for row in rows if row.verdict == "error"]:
        raise RuntimeError(f"{len(errors)} runs ended with an error: {errors[0]}")
    return {"seeds_per_s": seeds / took_s}


def cpu_s_of(first: RunOrder, orders: list[RunOrder]) -> float:
    finished_run(first.plan, first.seed)
    began_s = time.process_time()
    for order in orders:
        finished_run(order.plan, order.seed)
    return time.process_time() - began_s


if __name__ == "__main__":
    print(json.dumps(main(float(sys.argv[1]), int(sys.argv[2]), int((*sys.argv, "0")[3]))))
