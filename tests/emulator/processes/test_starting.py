"""Starting nodes may take any time while they report progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.store.appender import MessageToStore
from rocketmq_emulator.broker.store.store import REPORT_BYTES, Store, StoreLoading
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import START_S_MAX, NotReady
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.facts import Fact, LogRecovered, LogRecovering, LogTailCut
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.processes.node_process import NodeProcess, wait_all_ready
from rocketmq_emulator.processes.starting import NodeProgress, NodeStart
from rocketmq_emulator.settings.config import BrokerConfig

BODY_BYTES = 4 * 1024 * 1024 - 1024
REPORTS = 3
READY = b'{"ready": true, "address": "127.0.0.1:1"}\n'

ASKED_TO_STOP_WHILE_READING = """
import signal, sys
from rocketmq_emulator.processes import node

class Output:
    def write(self, text):
        sys.__stdout__.write(text)
        if "recovering" in text:
            signal.raise_signal(signal.SIGTERM)
    def flush(self):
        sys.__stdout__.flush()

sys.stdout = Output()
sys.exit(node.main())
"""


class FakeNode:
    """A node that has only a standard output."""

    def __init__(self, name: str, said: bytes = b"") -> None:
        self.name = name
        self.address = ""
        self.popen = self
        reads, self._writes = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(reads, "rb")
        os.write(self._writes, said)

    def close(self) -> None:
        self.stdout.close()
        os.close(self._writes)


@contextmanager
def nodes_that_say(**said: bytes) -> Iterator[list[NodeProcess]]:
    nodes = [FakeNode(name, text) for name, text in said.items()]
    yield cast("list[NodeProcess]", nodes)
    for node in nodes:
        node.close()


def progress_line(done: int, total: int) -> bytes:
    return NodeProgress("log", done, total).line().encode() + b"\n"


def test_each_line_of_progress_renews_the_wait_for_a_node() -> None:
    start = NodeStart("broker-a", now_s=0.0, silence_s_max=30.0)
    assert start.feed(progress_line(1, 4), now_s=29.0) == [NodeProgress("log", 1, 4)]
    assert start.feed(progress_line(2, 4), now_s=58.0) == [NodeProgress("log", 2, 4)]
    assert start.silent_at_s == 88.0
    assert not start.address


def test_lines_that_come_in_parts_are_put_together() -> None:
    start = NodeStart("broker-a", now_s=0.0, silence_s_max=30.0)
    text = progress_line(1, 4) + progress_line(3, 4) + READY
    found = [one for at in range(0, len(text), 7) for one in start.feed(text[at : at + 7], 1.0)]
    assert [progress.percent for progress in found] == [25, 75]
    assert start.address == "127.0.0.1:1"


def test_a_node_that_is_ready_and_one_that_still_reads_are_told_apart() -> None:
    seen: list[tuple[str, NodeProgress]] = []
    with nodes_that_say(a=READY, b=progress_line(1, 2) + READY) as nodes:
        wait_all_ready(nodes, 30.0, lambda *news: seen.append(news))
        assert [node.address for node in nodes] == ["127.0.0.1:1", "127.0.0.1:1"]
    assert seen == [("b", NodeProgress("log", 1, 2))]


def test_a_node_that_falls_silent_is_named_with_how_far_it_was() -> None:
    with (
        nodes_that_say(a=READY, b=progress_line(37, 100)) as nodes,
        pytest.raises(NotReady, match=r"^not ready after 0\.05 s: b \(at 37 % of its log\)$"),
    ):
        wait_all_ready(nodes, 0.05, lambda *_: None)


def a_log_of_two_reports(folder: Path) -> None:
    """Store messages for ``REPORTS`` progress reports of a broker that reads the log."""
    disk = FileDisk(folder)
    config = BrokerConfig(store=str(folder))
    nobody: dict[str, Any] = {"note": _nothing, "wants": lambda _kind: False, "ring": _nothing}
    store = Store(disk, config, bytes(8), **nobody)
    message = MessageToStore("orders", 0, bytes(BODY_BYTES), "", 0, 0, 0, bytes(8))
    while store.log.end_position < REPORTS * REPORT_BYTES + BODY_BYTES:
        store.put(message, 0)
    store.close()
    disk.close()


def _nothing(*_: object) -> None:
    """Discard the arguments."""


@pytest.mark.parametrize("world", [ProcessCluster, EmbeddedCluster])
def test_who_starts_a_cluster_sees_how_far_its_broker_is_with_a_large_log(
    world: type[ProcessCluster | EmbeddedCluster], tmp_path: Path
) -> None:
    a_log_of_two_reports(tmp_path / "broker-a")
    seen: list[tuple[str, NodeProgress]] = []
    spec = ClusterSpec(brokers=1, store=str(tmp_path))
    with world(spec, on_progress=lambda *news: seen.append(news)):
        pass
    assert [name for name, _ in seen] == ["broker-a"] * REPORTS
    done = [progress.done for _, progress in seen]
    assert done == sorted(done)
    assert all(0 < progress.done <= progress.total for _, progress in seen)


def test_what_stands_behind_a_damaged_record_is_measured_step_by_step_too(tmp_path: Path) -> None:
    a_log_of_two_reports(tmp_path)
    first = min((tmp_path / "commitlog").iterdir())
    with first.open("r+b") as segment:
        segment.write(b"\0\0\0\1")
    facts: list[Fact] = []
    disk = FileDisk(tmp_path)
    for _ in StoreLoading(disk, BrokerConfig(store=str(tmp_path)), facts.append).steps():
        pass
    disk.close()
    reports = sum(isinstance(fact, LogRecovering) for fact in facts)
    assert reports >= REPORTS - 1  # steps over damaged records are larger
    assert [type(fact) for fact in facts[reports:]] == [LogTailCut, LogRecovered]


async def test_an_embedded_node_that_gets_on_is_waited_for_too(
    autojump_clock: MockClock,
) -> None:
    cluster = EmbeddedCluster(ClusterSpec(brokers=1))
    journal = Journal("broker-a", WallClock(0, trio.current_time()))
    cluster._attach_log(journal)
    with cluster._start_scope as patience:
        for done in range(3):
            await trio.sleep(START_S_MAX - 1)
            journal.note(LogRecovering(done, 3))
        assert patience.deadline == trio.current_time() + START_S_MAX


def test_a_node_that_reads_its_log_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    a_log_of_two_reports(tmp_path)
    config = BrokerConfig(listen_address="127.0.0.1:0", store=str(tmp_path))
    arguments = ["broker", msgspec.json.encode(config).decode(), "--with-parent"]
    with subprocess.Popen(
        [sys.executable, "-c", ASKED_TO_STOP_WHILE_READING, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait() == 0
    assert [json.loads(line)["recovering"] for line in lines] == ["log"]
