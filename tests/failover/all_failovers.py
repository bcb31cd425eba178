"""All histories of fail-overs, each on a cluster of its own, with two clients at the same time.

    python -m tests.failover.all_failovers real --history elected --client trio

prints the outcomes.  *at_once* clusters run at the same time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.clusters import Cluster, running
from tests.failover.failover_histories import HISTORIES, Facts, History
from tests.failover.failover_run import MASTER, FailoverRun, Steps
from tests.histories.all_runs import CLIENTS
from tests.histories.history_run import ClientProcesses
from tests.sdk.administration import create_topic
from tests.sdk.sdk_process import SdkProcess

TOLD_BY = ("java-4.9.8", "trio")
UP = ("-m", "rocketmq_emulator.cli", "up", "--port", "0", "--release")
REAL = ("benchmarks/real_cluster.py", "--heap", "256m", "--version")
OUR_CLUSTERS_AT_ONCE = 8  # they wait for timers nearly all the time
WAIT_LONG = (  # 40 to 90 s each: begun first, else the last of them would wait alone
    "slave-read",
    "master-killed",
    "longer-log",
    "acting-master-escape",
    "acting-master",
    "elected",
    "controller-killed",
    "slave-offsets",
)
BROKERS = (MASTER, "broker-b")


class Key(NamedTuple):
    """One run."""

    history: str
    release: str
    client: str


KEYS = [
    Key(name, release, client)
    for name, history in HISTORIES.items()
    for release in history.settings
    for client in TOLD_BY
]


def command_of(kind: str, history: History, release: str) -> list[str]:
    """Starts the cluster of *history*: ``ours`` or ``real``."""
    command = [*(UP if kind == "ours" else REAL), release, "--slaves", "1"]
    command += ["--brokers", str(history.brokers)]
    if history.controllers:
        command += ["--controllers", str(history.controllers)]
    patience = {} if kind == "ours" else {"brokerFastFailureEnable": "false"}
    for name, value in {**history.settings[release], **patience}.items():
        command += ["--set", f"{name}={value}"]
    for name, value in history.namesrv.items() if kind == "real" else ():
        command += ["--nset", f"{name}={value}"]  # ours follows the brokers' settings
    return [sys.executable, *command]


def outcomes_on(
    kind: str,
    histories: Sequence[str] = (*HISTORIES,),
    clients: Sequence[str] = TOLD_BY,
    *,
    at_once: int = 1,
) -> dict[Key, Facts]:
    """The outcomes on clusters of *kind*; one that raised is ``{"failed": …}``.

    The histories that take long begin first.
    """
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(at_once) as threads:
        processes = [_process(name, stack) for name in clients]
        running_now = [
            threads.submit(_on_one_cluster, kind, name, release, processes)
            for name in sorted(histories, key=_place)
            for release in HISTORIES[name].settings
        ]
        return {key: facts for each in running_now for key, facts in each.result().items()}


def _place(history: str) -> int:
    return WAIT_LONG.index(history) if history in WAIT_LONG else len(WAIT_LONG)


def _process(name: str, stack: contextlib.ExitStack) -> ClientProcesses:
    scratch = stack.enter_context(tempfile.TemporaryDirectory())
    process = SdkProcess(name, *CLIENTS[name](Path(scratch)))
    stack.callback(process.stop)
    return ClientProcesses(name, process, process)


def _on_one_cluster(
    kind: str, name: str, release: str, processes: Sequence[ClientProcesses]
) -> dict[Key, Facts]:
    keys = [Key(name, release, each.name) for each in processes]
    try:
        with (
            running(command_of(kind, HISTORIES[name], release)) as cluster,
            ThreadPoolExecutor(len(processes)) as threads,
        ):
            steps = Steps(cluster, len(processes))
            runs = [FailoverRun(name, release, each, cluster, steps) for each in processes]
            for run in runs:
                _create_topic(run, HISTORIES[name])
            return dict(zip(keys, threads.map(_outcome, runs), strict=True))
    except Exception as failure:  # noqa: BLE001  # it is the outcome, and the others go on
        return dict.fromkeys(keys, _failed(failure))


def _create_topic(run: FailoverRun, history: History) -> None:
    """One queue at each master: then what was stored first is consumed first."""
    run.wait_until(run.master, "there is a master")
    masters = {name: run.cluster.brokers[name] for name in BROKERS[: history.brokers]}
    masters[MASTER] = run.cluster.brokers[run.master()]
    create_topic(Cluster(run.cluster.namesrv, masters), run.topic, 1, history.brokers)


def _outcome(run: FailoverRun) -> Facts:
    began_s = time.monotonic()
    try:
        return HISTORIES[run.history].tell(run)
    except Exception as failure:  # noqa: BLE001  # it is the outcome, and the others go on
        return _failed(failure)
    finally:
        run.leave()
        with contextlib.suppress(Exception):  # the outcome is known
            run.close()
        if os.environ.get("HISTORY_TIMES"):
            took_s = time.monotonic() - began_s
            sys.stderr.write(f"{took_s:6.1f} s  {run.history} {run.release} {run.client.name}\n")


def _failed(failure: Exception) -> Facts:
    return {"failed": f"{type(failure).__name__}: {failure}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("ours", "real"))
    parser.add_argument("--client", action="append", choices=TOLD_BY)
    parser.add_argument("--history", action="append", choices=HISTORIES)
    options = parser.parse_args()
    histories = options.history or [*HISTORIES]
    found = outcomes_on(options.kind, histories, options.client or TOLD_BY)
    for key, outcome in found.items():
        sys.stdout.write(f"{' '.join(key)}: {json.dumps(outcome)}\n")


if __name__ == "__main__":
    main()
