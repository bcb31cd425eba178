"""The same measurements of a real RocketMQ and of the emulator, in turns, on one machine.

A round starts a cluster, measures it and stops it; then it does the same with one that has
had no other load before its transactions, and with one whose brokers flush every message to the
same disk before they answer.  The result is the median of the rounds, or the best.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchmarks.clusters import OURS, REAL, Cluster, running
from benchmarks.load import BODY_BYTES, LoadFailed, bench
from benchmarks.memory import resident_mb

SIDES = {"real": REAL, "ours": OURS}
FILTERS = ("--set", "enablePropertyFilter=true")
DEAR = "price BETWEEN 5 AND 9 AND region = 'eu'"  # half of the messages, whose prices are 0 to 9
PRICES = 10
SYNC_FLUSH = ("--set", "flushDiskType=SYNC_FLUSH")
CONSUME_S_MAX = 120
BEST_OF = ("first_s",)  # at random the Java client waits a second more, with either server
QUIET_S = 1.0  # after the first message, before idle memory is read

Figures = dict[str, float]
Step = Callable[[Cluster], Figures]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of each measurement."""

    rounds: int = 3
    load_s: int = 5
    sync_load_s: int = 3  # 0: no SYNC_FLUSH cluster
    backlog_messages: int = 200_000
    through_messages: int = 50_000
    virtual_s: int = 6_000
    weather_seeds: int = 40
    facts: int = 1_000_000  # of the journal that is judged, and of the report's


QUICK = Plan(
    rounds=1,
    load_s=1,
    sync_load_s=0,  # it would spend half of its time on the start of a second real cluster
    backlog_messages=20_000,
    through_messages=5_000,
    virtual_s=600,
    weather_seeds=8,
    facts=200_000,
)


def steps(plan: Plan) -> dict[str, Step]:
    """The measurements of one round, in order; the titles are for the progress bar."""
    seconds, count = plan.load_s, plan.backlog_messages
    return {
        "start": lambda cluster: {"start_s": cluster.started_s},
        "first message": lambda c: {"first_s": bench(c.namesrv, "first")["ms"] / 1000},
        "idle memory": _idle_memory,
        "1 thread": lambda c: {"send_1": _sends(c, "send", 1, seconds)},
        "32 threads": lambda c: {"send_32": _sends(c, "send", 32, seconds)},
        "1,000 in flight": lambda c: {"async_1000": _sends(c, "async", 1_000, seconds)},
        "transactions": lambda c: {"commit_32": _sends(c, "commit", 32, seconds)},
        "backlog": lambda c: {"consume": _consumes(c, count)},
        "memory after": lambda c: _memory(c, "loaded"),
        "backlog, by SQL92": lambda c: {"consume_sql": _consumes_by_sql(c, count)},
    }


def new_steps(plan: Plan) -> dict[str, Step]:
    """The measurements of a cluster without earlier load: a virtual machine grows faster by it."""
    seconds = plan.load_s
    return {"transactions first": lambda c: {"commit_new_32": _sends(c, "commit", 32, seconds)}}


def sync_steps(plan: Plan) -> dict[str, Step]:
    """The measurements of the SYNC_FLUSH cluster; empty if it is left out."""
    seconds = plan.sync_load_s
    if not seconds:
        return {}
    return {
        "1 thread, SYNC_FLUSH": lambda c: {"sync_1": _sends(c, "send", 1, seconds)},
        "32 threads, SYNC_FLUSH": lambda c: {"sync_32": _sends(c, "send", 32, seconds)},
    }


def one_round(side: str, plan: Plan, done: Callable[[str], None]) -> Figures:
    """All figures of one side's clusters; *done* is called after each step."""
    figures: Figures = {}
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # the real RocketMQ has its stores in such a folder too
        store = ("--store", folder) if side == "ours" else ()
        clusters = (
            ((*SIDES[side], *FILTERS), steps(plan)),
            (SIDES[side], new_steps(plan)),
            ((*SIDES[side], *SYNC_FLUSH, *store), sync_steps(plan)),
        )
        for command, todo in clusters:
            if not todo:
                continue
            with running(command) as cluster:
                for title, step in todo.items():
                    figures |= step(cluster)
                    done(title)
    return figures


def round_step_count(plan: Plan) -> int:
    """How often ``one_round`` calls its *done*."""
    return sum(len(part(plan)) for part in (steps, new_steps, sync_steps))


def summarized(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure; of ``BEST_OF`` the best."""
    found = {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}
    return found | {key: min(figures[key] for figures in rounds) for key in BEST_OF}


def turns(plan: Plan) -> Iterator[str]:
    """The side of each turn; the order alternates, in case the second of a pair is faster."""
    for number in range(plan.rounds):
        yield from list(SIDES)[:: 1 if number % 2 == 0 else -1]


def _sends(cluster: Cluster, mode: str, parallel: int, seconds: int) -> float:
    found = bench(cluster.namesrv, mode, parallel, seconds, BODY_BYTES)
    if found["errors"]:
        raise LoadFailed(f"{mode} {parallel}: {found['errors']} sends failed")
    return float(found["sends_per_s"])


def _consumes(cluster: Cluster, count: int) -> float:
    bench(cluster.namesrv, "fill", count, BODY_BYTES, "Backlog")
    found = bench(cluster.namesrv, "consume", count, CONSUME_S_MAX, "Backlog")
    if found["messages"] != count:
        raise LoadFailed(f"{found['messages']} of {count} messages were consumed")
    return float(found["msgs_per_s"])


def _consumes_by_sql(cluster: Cluster, count: int) -> float:
    """Messages examined a second: those that do not match are work of the broker, too."""
    bench(cluster.namesrv, "fill", count, BODY_BYTES, "Priced", PRICES)
    wanted = count // 2 - count // 100  # a failed send is repeated with another price
    found = bench(cluster.namesrv, "consume", wanted, CONSUME_S_MAX, "Priced", DEAR)
    if found["messages"] < wanted:
        raise LoadFailed(f"{found['messages']} of {wanted} messages were consumed")
    return 2 * float(found["msgs_per_s"])


def _idle_memory(cluster: Cluster) -> Figures:
    time.sleep(QUIET_S)
    return _memory(cluster, "idle")


def _memory(cluster: Cluster, when: str) -> Figures:
    """Memory of the servers, and of the servers with the process that supervises them."""
    everything = {*cluster.pids, cluster.command_pid}
    return {
        f"{when}_mb": resident_mb(cluster.pids),
        f"{when}_all_mb": resident_mb(everything),
    }
