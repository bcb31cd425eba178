"""Two orderly consumers of one group start together: measures the time until all is consumed.

    python -m tests.parity.orderly_start ours|real [RUNS]

The official Java client with its default timers; each run has a new group, eight queues with
80 messages, and 20 ms between the two starts.  A run takes about 1 s, or 20 s, or 40 s.  In the
long runs the first consumer held all queues for a moment, and was processing messages of a queue
when it had to release it: the client unlocks such a queue 20 s later
(RebalancePushImpl.unlockDelay), and the other consumer asks for it at its next rebalance, every
20 s.  The broker does not influence this.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.clusters import OURS, REAL, Cluster, running
from tests.sdk.administration import create_group, create_topic
from tests.sdk.sdk_process import SdkProcess
from tests.sdk.toolchains import java_command

COMMANDS = {"ours": OURS, "real": REAL}
MESSAGES = 80
RUNS = 20
RUN_EVERY_S = 1.3
BETWEEN_STARTS_S = 0.02
RUN_S_MAX = 60.0
HURRIED = "rocketmq.client.rebalance.lockInterval"  # set by tests that cannot wait for 20 s


def main() -> None:
    which, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    with tempfile.TemporaryDirectory() as scratch, running(COMMANDS[which]) as cluster:
        command = java_command(cluster.namesrv, Path(scratch))
        patient = [part for part in command if HURRIED not in part]
        java = SdkProcess("java", patient, os.environ)
        java.invoke("start producer", producer="p", group="pg")
        took_s: list[float] = []
        threads = [
            threading.Thread(target=lambda: took_s.append(seconds_of_a_run(java, cluster)))
            for _ in range(runs)
        ]
        for thread in threads:
            thread.start()
            time.sleep(RUN_EVERY_S)
        for thread in threads:
            thread.join()
        java.stop()
    slow = [seconds for seconds in took_s if seconds > 10]
    seconds = " ".join(f"{s:.1f}" for s in sorted(took_s))
    sys.stdout.write(f"{which}: {len(slow)} of {runs} took long; seconds: {seconds}\n")


def seconds_of_a_run(java: SdkProcess, cluster: Cluster) -> float:
    """The time from the start of the first consumer until both have consumed all messages."""
    topic = f"orderly-{secrets.token_hex(4)}"
    group, names = f"group-{topic}", (f"{topic}-one", f"{topic}-two")
    create_topic(cluster, topic, 4)
    create_group(cluster, group)
    messages = [
        {"topic": topic, "keys": f"k{n}", "body": "b", "tags": "TagA", "shard": f"s{n}"}
        for n in range(MESSAGES)
    ]
    java.invoke("send", producer="p", way="sharded", messages=messages)
    began_s = time.monotonic()
    starts = []
    for name in names:
        how = {"consumer": name, "group": group, "topic": topic, "orderly": True}
        starts.append(java.begin("start consumer", **how))
        time.sleep(BETWEEN_STARTS_S)
    for start in starts:
        java.answer(start)
    while sum(len(java.events("consumed", consumer=name)) for name in names) < MESSAGES:
        assert time.monotonic() - began_s < RUN_S_MAX, f"{topic} is not consumed"
        time.sleep(0.05)
    took_s = time.monotonic() - began_s
    for name in names:
        java.invoke("stop consumer", consumer=name)
    return took_s


if __name__ == "__main__":
    main()
