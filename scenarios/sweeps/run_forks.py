"""The process that forks runs: it loads everything once, then each run is a fork of it.

    python -m rocketmq_emulator.scenarios.sweeps.run_forks SOCKET

A forked run starts within some milliseconds: the modules, the decoders of types and the digest of
the code are already there from a first run.  It reads one ``RunOrder`` from its standard input,
writes one ``RunResult`` to its standard output, and ends; all other output goes to its standard
error.  SIGUSR1 makes it write its traceback there.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import socket
import sys
from pathlib import Path

import msgspec

from rocketmq_emulator.cluster.fault_values import Kill
from rocketmq_emulator.facts.journal import encode_entry
from rocketmq_emulator.processes.fork_server import ForkServer
from rocketmq_emulator.processes.roles import CONFIG_OF_ROLE, import_role
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    ListenerPlan,
    LoadPlan,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.running.client_processes import client_forker
from rocketmq_emulator.scenarios.running.real_run import finished_real_run
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from rocketmq_emulator.scenarios.weather.coverage import Coverage


def main() -> None:
    """Serve the socket whose number is the first argument."""
    for role in CONFIG_OF_ROLE:
        import_role(role)
    warm_up()
    gc.collect()
    gc.freeze()  # else the first collection of every run would copy all of it
    ForkServer(socket.socket(fileno=int(sys.argv[1])), run_one_order, kills=True).run()


def warm_up() -> RunResult:
    """Runs a short plan with the features that most plans use; later runs are not affected."""
    topics = {"orders": "*"}
    groups = (
        ConsumersPlan(group="billing", topics=topics, listener=ListenerPlan(fails=0.2)),
        ConsumersPlan(group="stepping", topics=topics, orderly=True),
        ConsumersPlan(group="reading", topics=topics, kind="lite_pull"),
    )
    plan = Plan(
        name="warm_up",
        topics={"orders": TopicPlan(queues=1)},
        consumers=groups,
        load=(LoadPlan(topic="orders", rate=10),),
        timeline=(Step(does=Kill(node="broker-a"), at_ms=1_000, for_ms=500),),
        lasts_ms=2_000,
    )
    return finished_run(plan, seed=1)[0]


def run_one_order() -> int:
    """Run the order from standard input, write its result to standard output; returns 0."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the RunPool ends it
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=RunOrder)
    answer = os.dup(1)
    os.dup2(2, 1)  # prints of the scenario's programs must not mix with the result
    sys.path[:0] = order.paths
    if order.world == "virtual":
        result, entries = finished_run(order.plan, order.seed)
    else:
        forker = client_forker()  # while this process has no thread
        result, entries = finished_real_run(order, forker)
    if order.journal and (order.keeps_passed or result.verdict != "passed"):
        with Path(order.journal).open("wb") as file:
            file.writelines(map(encode_entry, entries))
        result = msgspec.structs.replace(result, journal=order.journal)
    if order.counts_coverage:
        coverage = Coverage()
        coverage.add(entries)
        metrics = result.metrics | coverage.as_metrics()
        result = msgspec.structs.replace(result, metrics=metrics)
    with os.fdopen(answer, "wb") as file:
        file.write(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    main()
