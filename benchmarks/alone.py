"""Figures of the emulator alone, without a comparison to a real RocketMQ."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

from benchmarks.clusters import OURS, ROOT, Cluster, running
from benchmarks.held_pulls import held_pulls
from benchmarks.pipelined import echo_per_s, sends_per_s
from benchmarks.side_by_side import DEAR, Figures, Plan
from rocketmq_emulator.protocol.messages.properties import decode_properties
from rocketmq_emulator.protocol.sql92.filters import compile_filter
from rocketmq_emulator.protocol.versions import R_5_3_3

MODULE_S_MAX = 600
EMBEDDED_STARTS = 5
RESTARTS = 7
CALLS, REPEATS = 2_000, 60
# As a Java producer sends a message of the priced backlog.
PROPERTIES = (
    b"UNIQ_KEY\x017F000001000000000000000000000001\x02price\x017\x02WAIT\x01true\x02region\x01eu"
)


def steps(plan: Plan) -> dict[str, Callable[[], Figures]]:
    """The measurements, in order; the titles are for the progress bar."""
    return {
        "embedded": _embedded,
        "restarts": _restarts,
        "our client": lambda: _own_client(plan),
        "three clients": lambda: _three_clients(plan),
        "pipelined": lambda: _pipelined(plan),
        "SQL92 filter": _sql_filter,
        "held pulls": _held,
        "virtual time": lambda: {
            "virtual": run_module("virtual_life", plan.virtual_s)["virtual_per_real_s"]
        },
    }


def _embedded() -> Figures:
    return {"embedded_ms": statistics.median(run_module("embedded", EMBEDDED_STARTS))}


def _restarts() -> Figures:
    return {"restart_ms": statistics.median(run_module("restart", RESTARTS))}


def _own_client(plan: Plan) -> Figures:
    with running(OURS) as cluster:
        first = run_module("own_client", cluster.namesrv, "first")
    figures = {"own_first_ms": first["ms"]}
    for mode in ("async", "calls", "consume", "through"):
        with running(OURS) as cluster:
            found = run_module("own_client", cluster.namesrv, mode, plan.through_messages)
        figures[f"own_{mode}"] = found["per_s"]
    return figures


def _three_clients(plan: Plan) -> Figures:
    with running(OURS) as cluster:
        found = run_module("three_clients", cluster.namesrv, plan.through_messages // 10)
    return {f"own_{key}": value for key, value in found.items()}


def _pipelined(plan: Plan) -> Figures:
    """Measure both in turns: a ratio of figures from different minutes would mean little."""
    with running(OURS) as cluster:
        pairs = [_pair(cluster, plan) for _ in range(plan.rounds)]
    return {
        "echo": statistics.median(echo for echo, _ in pairs),
        "send_v2": statistics.median(sends for _, sends in pairs),
        "send_share": statistics.median(sends / echo for echo, sends in pairs),
    }


def _pair(cluster: Cluster, plan: Plan) -> tuple[float, float]:
    return echo_per_s(plan.load_s), sends_per_s(cluster, plan.load_s)


def _sql_filter() -> Figures:
    """The CPU time of one message, the least of many repetitions."""
    matches = compile_filter(DEAR, R_5_3_3).matches
    properties = decode_properties(PROPERTIES)
    is_wanted = matches(properties)
    assert is_wanted
    return {
        "sql_us": _cpu_us(lambda: matches(properties)),
        "sql_decoded_us": _cpu_us(lambda: matches(decode_properties(PROPERTIES))),
    }


def _cpu_us(action: Callable[[], object]) -> float:
    took = timeit.repeat(action, number=CALLS, repeat=REPEATS, timer=time.process_time)
    return min(took) / CALLS * 1e6


def _held() -> Figures:
    with running(OURS) as cluster:
        return held_pulls(cluster)


def run_module(name: str, *arguments: object) -> Any:  # noqa: ANN401  # each its own JSON
    """Run the module in its own process; return the JSON that it printed."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, timeout=MODULE_S_MAX, check=True
    )
    return json.loads(done.stdout)
