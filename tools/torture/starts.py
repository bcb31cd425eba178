"""Starts that take long: a log of a million messages, pending timer messages, 26 brokers.

A store in this process writes the logs; writing takes as long as reading them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rocketmq_emulator.broker.store.appender import MessageToStore
from rocketmq_emulator.broker.store.store import Store
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import START_S_MAX
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.processes.starting import NodeProgress
from rocketmq_emulator.protocol.messages.names import TIMER_TOPIC
from rocketmq_emulator.protocol.messages.properties import (
    REAL_QID,
    REAL_TOPIC,
    TIMER_OUT_MS,
    UNIQ_KEY,
    properties_text,
)
from rocketmq_emulator.settings.config import BrokerConfig
from tools.torture import Row
from tools.torture.waiting import MachineShare

NAME = "starts that take long"
MESSAGES, MESSAGES_EXTRAPOLATED = 1_000_000, 14_000_000
TIMERS, TIMERS_EXTRAPOLATED = 200_000, 1_000_000
BODY = b"x" * 100
HOST = bytes([127, 0, 0, 1, 0, 0, 0, 0])
DAY_MS = 24 * 3_600_000
BROKERS, BROKERS_S_MAX = 26, 3.0
SILENCE_S_MAX = START_S_MAX / 3  # between two progress reports; the machine may be busy

Make = Callable[[int, int], MessageToStore]  # the message's number, and the time in ms


def run() -> list[Row]:
    """Start a broker with a long log, one with many timer messages, then 26 brokers."""
    return [
        _start_with("messages in the log", "4.9.7", (MESSAGES, MESSAGES_EXTRAPOLATED), _plain),
        _start_with("pending timer messages", "5.3.3", (TIMERS, TIMERS_EXTRAPOLATED), _timed),
        *_start_many(),
    ]


def _start_with(what: str, release: str, counts: tuple[int, int], make: Make) -> Row:
    """*counts*: the number of messages, and the number for which the time is extrapolated."""
    count, extrapolated = counts
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder) / "broker-a", release, count, make)
        silences, last_s = list[float](), time.monotonic()

        def progressed(_name: str, _progress: NodeProgress) -> None:
            nonlocal last_s
            silences.append(time.monotonic() - last_s)
            last_s = time.monotonic()

        spec = ClusterSpec(brokers=1, release=release, store=folder)
        with ProcessCluster(spec, on_progress=progressed) as cluster:
            silences.append(time.monotonic() - last_s)
            took_s = cluster.ready_s
    found = (
        f"ready in {took_s:.1f} s, {count / took_s:,.0f} a second, longest silence "
        f"{max(silences):.1f} s; {extrapolated // 1_000_000} million would take "
        f"{took_s * extrapolated / count:,.0f} s"
    )
    aim = f"progress every {SILENCE_S_MAX:g} s, so that no start times out"
    return Row(f"start with {count:,} {what}", aim, found, max(silences) <= SILENCE_S_MAX)


def _fill(folder: Path, release: str, count: int, make: Make) -> None:
    now_ms = int(time.time() * 1000)
    disk = FileDisk(folder)
    nobody: dict[str, Any] = {"note": _nothing, "wants": lambda _kind: False, "ring": _nothing}
    store = Store(disk, BrokerConfig(release=release, store=str(folder)), HOST, **nobody)
    for number in range(count):
        store.put(make(number, now_ms), now_ms)
    store.close()
    disk.close()


def _plain(number: int, now_ms: int) -> MessageToStore:
    pairs = {UNIQ_KEY: f"7F0000010001{number:020d}", "TAGS": f"tag{number % 10}"}
    text = properties_text(pairs, trailing=False)
    return MessageToStore(f"orders{number % 20}", number % 8, BODY, text, 0, 0, now_ms, HOST)


def _timed(number: int, now_ms: int) -> MessageToStore:
    pairs = {
        TIMER_OUT_MS: str(now_ms + DAY_MS + number),
        REAL_TOPIC: "orders",
        REAL_QID: str(number % 8),
        UNIQ_KEY: f"7F0000010001{number:020d}",
    }
    return MessageToStore(
        TIMER_TOPIC, 0, BODY, properties_text(pairs, trailing=False), 0, 0, now_ms, HOST
    )


def _start_many() -> list[Row]:
    share = MachineShare()
    with ProcessCluster(ClusterSpec(brokers=BROKERS)) as cluster:
        took_s = cluster.ready_s * share.left()
        pss_mb = sum(map(_pss_mb, cluster.pids.values()))
    return [
        Row(
            f"start of {BROKERS} brokers",
            f"≤ {BROKERS_S_MAX:g} s",
            f"{took_s:.1f} s",
            took_s <= BROKERS_S_MAX,
        ),
        Row(
            f"memory of {BROKERS} brokers and a NameServer, idle",
            "loaded modules are in memory once",
            f"{pss_mb:.0f} MB (PSS), {pss_mb / (BROKERS + 1):.1f} MB each",
        ),
    ]


def _pss_mb(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    (line,) = (line for line in rollup.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def _nothing(*_: object) -> None:
    """Ignore the arguments: this store has no observer."""
