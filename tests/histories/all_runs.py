"""All histories, by all clients, on one or several clusters, at the same time: they wait mostly.

    python -m tests.histories.all_runs real-4.9.7 --client trio --history commit

prints the outcomes; the columns are those of the compatibility page.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias

from benchmarks.clusters import ROOT, Cluster, running
from benchmarks.real_cluster import registered_brokers
from tests.compatibility.record import COLUMNS
from tests.compatibility.run import SETTINGS, command_of
from tests.histories.appointment import Appointment
from tests.histories.histories import CALM, HISTORIES, OUTAGES, Facts
from tests.histories.history_run import ClientProcesses, HistoryRun, Meeting
from tests.sdk import toolchains
from tests.sdk.administration import create_group, create_topic
from tests.sdk.sdk_process import SdkProcess

BROKER = "broker-a"
REGISTERED_S_MAX = 60  # a virtual machine starts slowly on a busy machine

# A broker of 5.3.3 writes the records of ends in batches.  A check that runs before has not seen
# them, and asks about messages that have ended; with a check interval below that of the batches
# it has delivered one that was rolled back.  So batches come much more often than checks.
#
# A real broker answers SYSTEM_BUSY when a send has waited for 200 ms, and drops ends of
# transactions after 3 s: not here, where the machine is busy with the clients.
SETTINGS_OF_RUNS = {
    **SETTINGS,
    "transactionOpBatchInterval": "200",
    "brokerFastFailureEnable": "false",
}


Command: TypeAlias = tuple[list[str], Mapping[str, str]]  # with its environment
Launch: TypeAlias = Callable[[Path], Command]  # given a folder for logs; raises PartMissing


class Key(NamedTuple):
    """One run."""

    history: str
    release: str
    client: str


def _python(face: str) -> Launch:
    def started(_scratch: Path) -> Command:
        command = [sys.executable, "-m", "tests.histories.python_actor", face]
        return command, {**os.environ, "PYTHONPATH": str(ROOT)}

    return started


def _java(version: str) -> Launch:
    def started(scratch: Path) -> Command:
        return toolchains.java_command("given-by-each-command", scratch, version), os.environ

    return started


def _go(scratch: Path) -> Command:
    return toolchains.go_command("given-by-each-command"), toolchains.go_environment(scratch)


CLIENTS: Mapping[str, Launch] = {
    "trio": _python("trio"),
    "sync": _python("threads"),
    "asyncio": _python("asyncio"),
    "java-4.9.8": _java("4.9.8"),
    "java-5.4.0": _java("5.4.0"),
    "go-2.1.2": _go,
}


# The traces of all clients of a process go through one client, which has one NameServer
# (Go 2.1.2, internal/trace.go: INNER_TRACE_CLIENT_DEFAULT).
ONE_CLUSTER_ONLY = ("go-2.1.2",)


class Outcomes(NamedTuple):
    """The outcome of each run, and why a client is missing."""

    outcomes: dict[Key, Facts]
    missing: dict[str, str]


def run_all(
    columns: Sequence[str], clients: Sequence[str] = (*CLIENTS,), histories: Sequence[str] = ()
) -> Outcomes:
    """The outcomes of *histories* (all unless given) on the clusters of *columns*.

    A history that raised has the outcome ``{"failed": …}``.
    """
    wanted = histories or tuple(HISTORIES)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(500) as threads:
        commands, missing = _found(clients, stack)
        starting = [threads.submit(_started, stack, column) for column in columns]
        ready = _ready(commands, [COLUMNS[column].release for column in columns], stack)
        clusters = dict(each.result() for each in starting)
        outcomes: dict[Key, Facts] = {}
        for part in (CALM, OUTAGES):
            keys = [
                Key(history, release, client)
                for history in part
                if history in wanted
                for release in clusters
                for client in commands
            ]
            runs = {
                key: HistoryRun(*key[:2], ready[key[1:]], clusters[key.release]) for key in keys
            }
            _create_names(runs, clusters, threads)
            meetings = _meetings(runs, clusters)
            run = {
                key: threads.submit(_outcome, key, run, meetings[key]) for key, run in runs.items()
            }
            outcomes |= {key: each.result() for key, each in run.items()}
    return Outcomes(outcomes, missing)


def _found(
    clients: Sequence[str], stack: contextlib.ExitStack
) -> tuple[dict[str, Command], dict[str, str]]:
    """The commands of *clients*, and why a client is missing."""
    commands, missing = {}, {}
    for name in clients:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        try:
            commands[name] = CLIENTS[name](Path(scratch))
        except toolchains.PartMissing as reason:
            missing[name] = str(reason)
    return commands, missing


def _started(stack: contextlib.ExitStack, column: str) -> tuple[str, Cluster]:
    cluster = stack.enter_context(running(command_of(column, SETTINGS_OF_RUNS)))
    return COLUMNS[column].release, cluster


def _ready(
    commands: Mapping[str, Command],
    releases: Sequence[str],
    stack: contextlib.ExitStack,
) -> dict[tuple[str, str], ClientProcesses]:
    """The processes of each client, by release and client."""
    ready: dict[tuple[str, str], ClientProcesses] = {}
    for name, command in commands.items():
        groups = [[each] for each in releases] if name in ONE_CLUSTER_ONLY else [releases]
        for group in groups:
            processes = SdkProcess(name, *command), SdkProcess(name, *command)
            for process in processes:
                stack.callback(process.stop)
            ready |= {(release, name): ClientProcesses(name, *processes) for release in group}
    return ready


def _create_names(
    runs: Mapping[Key, HistoryRun], clusters: Mapping[str, Cluster], threads: ThreadPoolExecutor
) -> None:
    """Create topics and retry topics, one after the other at each broker.

    One queue for each topic: then what was stored first is consumed first.
    """

    def create(release: str) -> None:
        mine = [run for key, run in runs.items() if key.release == release]
        for run in mine:
            create_topic(clusters[release], run.topic, queues=1, brokers=1)
            create_group(clusters[release], run.unique("reader"))

    for creating in [threads.submit(create, release) for release in clusters]:
        creating.result()


def _meetings(
    runs: Mapping[Key, HistoryRun], clusters: Mapping[str, Cluster]
) -> dict[Key, Meeting]:
    """For each run its part in a kill: of the broker, or of a process of its client."""

    def restart(cluster: Cluster) -> None:
        cluster.control_node(BROKER, "kill")
        cluster.control_node(BROKER, "start")
        _wait_registered(cluster, BROKER)

    outages = collections.Counter(key.release for key in runs if key.history in OUTAGES)
    successors = collections.Counter(
        run.client for key, run in runs.items() if key.history == "successor"
    )
    of_brokers = {
        release: Appointment(count, functools.partial(restart, clusters[release]))
        for release, count in outages.items()
    }
    of_clients = {
        client: Appointment(count, client.victim.kill) for client, count in successors.items()
    }
    return {
        key: Meeting(
            of_brokers.get(key.release)
            if key.history in OUTAGES
            else of_clients.get(run.client)
            if key.history == "successor"
            else None
        )
        for key, run in runs.items()
    }


def _wait_registered(cluster: Cluster, broker: str) -> None:
    """A broker accepts connections before the NameServer lists it, and clients may send to it."""
    deadline = time.monotonic() + REGISTERED_S_MAX
    while f'"{cluster.brokers[broker]}"' not in registered_brokers(cluster.namesrv):
        assert time.monotonic() < deadline, f"{broker} is not registered"
        time.sleep(0.02)


def _outcome(key: Key, run: HistoryRun, meeting: Meeting) -> Facts:
    began_s = time.monotonic()
    try:
        return HISTORIES[key.history](run, meeting)
    except Exception as failure:  # noqa: BLE001  # it is the outcome, and the others go on
        return {"failed": f"{type(failure).__name__}: {failure}"}
    finally:
        meeting.close()
        with contextlib.suppress(Exception):  # the outcome is known
            run.close()
        if os.environ.get("HISTORY_TIMES"):
            sys.stderr.write(f"{time.monotonic() - began_s:6.1f} s  {' '.join(key)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("column", nargs="+", choices=COLUMNS)
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("--history", action="append", choices=HISTORIES, default=[])
    options = parser.parse_args()
    found = run_all(options.column, options.client or (*CLIENTS,), options.history)
    for key, outcome in sorted(found.outcomes.items()):
        sys.stdout.write(f"{' '.join(key)}: {json.dumps(outcome)}\n")
    for client, reason in found.missing.items():
        sys.stdout.write(f"{client} is missing: {reason}\n")


if __name__ == "__main__":
    main()
