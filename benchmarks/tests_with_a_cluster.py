"""The cost of a test with the pytest plugin: the import, a cluster, a reset.

    python -m benchmarks.tests_with_a_cluster   # prints ms; reset_topics: with a declared topic

Aims: ready within 50 ms once imported (a cluster of processes: 0.4 s), a reset within 10 ms.
Prints the best and the median: slower times are caused by other programs on the machine.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from rocketmq_emulator import ProcessCluster
from rocketmq_emulator.testing.rocketmq import RocketMQ

TIMES = 30
IMPORT = (
    "import pytest, time; began_s = time.perf_counter(); "
    "import rocketmq_emulator.testing.pytest_plugin; "
    "print(time.perf_counter() - began_s)"
)


def main() -> dict[str, dict[str, float]]:
    found = {
        "import": [float(output_of(IMPORT)) for _ in range(5)],
        "embedded": [ready_s(lambda: RocketMQ(brokers=2)) for _ in range(9)],
        "processes": [ready_s(lambda: ProcessCluster(brokers=2)) for _ in range(3)],
    }
    with RocketMQ(brokers=2) as cluster:
        found["reset"] = [timed_s(cluster.reset) for _ in range(TIMES)]
    with RocketMQ(brokers=2, topics=["orders"]) as cluster:
        found["reset_topics"] = [timed_s(cluster.reset) for _ in range(TIMES)]
    return {name: in_ms(took_s) for name, took_s in found.items()}


def in_ms(took_s: list[float]) -> dict[str, float]:
    shown = {"best": min(took_s), "median": statistics.median(took_s)}
    return {name: round(seconds * 1_000, 1) for name, seconds in shown.items()}


def ready_s(make: Callable[[], RocketMQ | ProcessCluster]) -> float:
    with make() as cluster:
        return cluster.ready_s


def timed_s(action: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s


def output_of(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return run.stdout


if __name__ == "__main__":
    print(json.dumps(main(), indent=2))
