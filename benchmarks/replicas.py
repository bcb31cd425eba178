"""Masters with slaves, a real RocketMQ and ours in turns: start, memory, sends, lag, catching up.

A round has two clusters of a side: two brokers with a slave each and a controller (5.3.3), for
start and memory; and one SYNC_MASTER or ASYNC_MASTER with a slave (4.9.7), for the rest.  What
slaves cost in virtual time is compared with the same brokers as masters.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.clusters import ROOT, Cluster, running
from benchmarks.load import BODY_BYTES, LoadFailed, bench
from benchmarks.memory import resident_mb
from benchmarks.side_by_side import QUIET_S, Figures, Plan
from benchmarks.stream import NoSuccess, Stream
from benchmarks.virtual_load import a_plan, virtual_per_cpu_s
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.fields import Header

OURS = (sys.executable, "-m", "rocketmq_emulator.cli", "up", "--port", "0", "--release")
REAL = (sys.executable, str(ROOT / "benchmarks" / "real_cluster.py"), "--version")
SIDES = {"real": REAL, "ours": OURS}
WHOLE = ("5.3.3", "--brokers", "2", "--slaves", "1", "--controllers", "1")
PAIR = ("4.9.7", "--brokers", "1", "--slaves", "1")
LOG_FILE_BYTES = 64 << 20  # a slave's must be of its master's size
FILES = {
    "real": ("--set", f"mappedFileSizeCommitLog={LOG_FILE_BYTES}"),
    # What a slave missed must not be dropped, as from a temporary store.
    "ours": ("--set", "retained_bytes_max=0"),
}
SYNC = ("--set", "brokerRole=SYNC_MASTER")
MASTER, SLAVE = "broker-a", "broker-a-1"
COPIED_S_MAX = 120.0
SAMPLE_S = 0.05
ASKED_EVERY_S = 0.02
CAUGHT_UP_BODY_BYTES = 10_000
VIRTUAL_RATE = 100.0

Step = Callable[[Cluster], Figures]


def clusters(side: str, plan: Plan) -> list[tuple[tuple[str, ...], dict[str, Step]]]:
    """The commands of a round, each with its measurements in order."""
    seconds = plan.load_s
    return [
        (
            (*SIDES[side], *WHOLE),
            {
                "start of pairs": lambda c: {"pairs_start_s": c.started_s},
                "memory of pairs": _idle_memory,
            },
        ),
        (
            (*SIDES[side], *PAIR, *FILES[side], *SYNC),
            {
                "SYNC_MASTER, 1 thread": lambda c: {"replicated_1": _sends(c, 1, seconds)},
                "SYNC_MASTER, 32 threads": lambda c: {"replicated_32": _sends(c, 32, seconds)},
            },
        ),
        (
            (*SIDES[side], *PAIR, *FILES[side]),
            {
                "lag under async load": lambda c: {"lag_ms": _lag_ms(c, seconds)},
                "catching up": lambda c: {"caught_up": _caught_up_mb_per_s(c, plan)},
            },
        ),
    ]


def one_round(side: str, plan: Plan, done: Callable[[str], None]) -> Figures:
    """All figures of one side's clusters; *done* is called after each step."""
    figures: Figures = {}
    for command, steps in clusters(side, plan):
        with running(command) as cluster:
            for title, step in steps.items():
                figures |= step(cluster)
                done(title)
    return figures


def step_count(plan: Plan) -> int:
    """How often ``one_round`` calls its *done*."""
    return sum(len(steps) for _, steps in clusters("ours", plan))


def summarized(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure."""
    return {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}


def virtual_cost() -> float:
    """The CPU time of a virtual minute with slaves, by that of the same brokers as masters."""
    masters, pairs = a_plan(VIRTUAL_RATE, brokers=4), a_plan(VIRTUAL_RATE, brokers=2, slaves=1)
    runs = [(virtual_per_cpu_s(masters), virtual_per_cpu_s(pairs)) for _ in range(3)]
    return statistics.median(one / other for one, other in runs)


# Measurements -------------------------------------------------------------------------


def _idle_memory(cluster: Cluster) -> Figures:
    time.sleep(QUIET_S)
    return {"pairs_mb": resident_mb(cluster.pids)}


def _sends(cluster: Cluster, threads: int, seconds: int) -> float:
    _wait_copying(cluster)
    found = bench(cluster.namesrv, "send", threads, seconds, BODY_BYTES)
    if found["errors"]:
        raise LoadFailed(f"{threads} threads to a SYNC_MASTER: {found['errors']} sends failed")
    return float(found["sends_per_s"])


def _lag_ms(cluster: Cluster, seconds: int) -> float:
    """The median time by which the slave is behind, while 1,000 sends are under way."""
    _wait_copying(cluster)
    seen: list[tuple[float, int, int]] = []
    ended = threading.Event()

    def watch() -> None:
        with Stream(cluster.brokers[MASTER]) as master, Stream(cluster.brokers[SLAVE]) as slave:
            while not ended.wait(SAMPLE_S):
                copied = _end(slave)
                seen.append((time.monotonic(), _end(master), copied))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        bench(cluster.namesrv, "async", 1_000, seconds, BODY_BYTES)
    finally:
        ended.set()
        watcher.join()
    return 1_000 * statistics.median(_lags_s(seen))


def _lags_s(seen: list[tuple[float, int, int]]) -> list[float]:
    """How long before each sample the master's log ended where the slave's does now."""
    lags = []
    for number, (at_s, master, slave) in enumerate(seen):
        if number and master > seen[number - 1][1]:  # under load
            before = [then_s for then_s, end, _ in seen[: number + 1] if end <= slave]
            lags.append(at_s - before[-1] if before else at_s - seen[0][0])
    return lags


def _caught_up_mb_per_s(cluster: Cluster, plan: Plan) -> float:
    """How fast a slave copies what came while it was away."""
    _wait_copying(cluster)
    cluster.control_node(SLAVE, "kill")
    count = plan.backlog_messages // 10
    bench(cluster.namesrv, "fill", count, CAUGHT_UP_BODY_BYTES, "Missed")
    cluster.control_node(SLAVE, "start")
    end, began = _ends_after_a_start(cluster)
    until_s = time.monotonic() + COPIED_S_MAX
    began_s = time.monotonic()
    with Stream(cluster.brokers[SLAVE]) as slave:
        while (copied := _end(slave)) < end:
            if copied == began:
                began_s = time.monotonic()  # it has not connected yet
            if time.monotonic() > until_s:
                raise LoadFailed(f"the slave has {copied} of {end} bytes after {COPIED_S_MAX} s")
            time.sleep(ASKED_EVERY_S)  # asking without a pause would take a core from the slave
    return (end - began) / 1e6 / (time.monotonic() - began_s)


def _wait_copying(cluster: Cluster) -> None:
    """Send until the slave has what was sent: it is connected then."""
    until_s = time.monotonic() + COPIED_S_MAX
    bench(cluster.namesrv, "fill", 10, BODY_BYTES, "Begun")
    while len({*_ends(cluster)}) > 1:
        if time.monotonic() > until_s:
            raise LoadFailed(f"the slave has not copied its master in {COPIED_S_MAX} s")
        time.sleep(SAMPLE_S)


def _ends_after_a_start(cluster: Cluster) -> tuple[int, int]:
    """As ``_ends``: a real broker refuses to tell, until it has its first sample of statistics."""
    until_s = time.monotonic() + COPIED_S_MAX
    while True:
        try:
            return _ends(cluster)
        except NoSuccess:
            if time.monotonic() > until_s:
                raise
            time.sleep(SAMPLE_S)


def _ends(cluster: Cluster) -> tuple[int, int]:
    """Where the logs of master and slave end."""
    with Stream(cluster.brokers[MASTER]) as master, Stream(cluster.brokers[SLAVE]) as slave:
        copied = _end(slave)
        return _end(master), copied


def _end(broker: Stream) -> int:
    """Where its log ends; over an open connection, as a new one takes a broker longer."""
    body = broker.ask(catalog.GET_BROKER_RUNTIME_INFO, Header()).body
    return int(decode_body(body, KVTable).table["commitLogMaxOffset"])
