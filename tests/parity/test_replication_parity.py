"""A slave of ours copies a real master, and a real slave copies a master of ours."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.clusters import ROOT, Cluster, running
from benchmarks.real_cluster import free_ports
from benchmarks.stream import Stream
from rocketmq_emulator import Message
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.messages.message_ids import position_of
from rocketmq_emulator.protocol.requests.offsets import GetMaxOffsetRequest, OffsetReply
from rocketmq_emulator.protocol.requests.pulling import ViewMessageRequest
from rocketmq_emulator.sync import Producer
from tests.parity.real_slave import FILE_BYTES, real_slave
from tests.support.cli.command_line import ready_line, started

pytestmark = [pytest.mark.parity, pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])]
REAL = (sys.executable, str(ROOT / "benchmarks" / "real_cluster.py"), "--brokers", "1")
TOPIC, QUEUES, COUNT = "copied", 4, 400
COPY_S_MAX = 90  # a slave learns its master when it registers again, every 30 s


def send(namesrv: str, count: int) -> list[int]:
    """Send *count* messages of different sizes; returns their positions in the log."""
    with Producer(namesrv=namesrv, group="writer", send_timeout_ms=20_000) as producer:
        results = [
            producer.send(Message(TOPIC, b"%d " % number * (1 + number % 90)))
            for number in range(count)
        ]
    return [position_of(result.offset_msg_id) for result in results]


def counts(address: str) -> list[int]:
    """The next offset of each queue of the topic at the broker."""
    with Stream(address) as stream:
        requests = (GetMaxOffsetRequest(topic=TOPIC, queue_id=n) for n in range(QUEUES))
        answers = [stream.ask(catalog.GET_MAX_OFFSET, request) for request in requests]
    return [answer.decode(OffsetReply).offset for answer in answers]


def assert_copied(master: str, slave: str, positions: list[int]) -> None:
    """The slave gets all messages, at the same places and with the same bytes."""
    until_s = time.monotonic() + COPY_S_MAX
    while sum(counts(slave)) < len(positions):
        assert time.monotonic() < until_s, (counts(master), counts(slave))
        time.sleep(0.2)
    assert counts(slave) == counts(master)
    with Stream(master) as of_master, Stream(slave) as of_slave:
        for position in positions:
            request = ViewMessageRequest(offset=position)
            stored = of_master.ask(catalog.VIEW_MESSAGE_BY_ID, request).body
            copied = of_slave.ask(catalog.VIEW_MESSAGE_BY_ID, request).body
            assert copied == stored, f"position {position}"


def test_our_slave_copies_a_real_master(release: str) -> None:
    files = ("--set", f"mappedFileSizeCommitLog={FILE_BYTES}")
    with running([*REAL, "--version", release, *files]) as cluster:
        (master,) = cluster.brokers.values()
        positions = send(cluster.namesrv, COUNT // 2)
        with our_slave(cluster, release) as slave:
            positions += send(cluster.namesrv, COUNT // 2)
            assert_copied(master, slave, positions)


@contextlib.contextmanager
def our_slave(cluster: Cluster, release: str) -> Iterator[str]:
    port = free_ports(4) + 2
    role = ("brokerRole=SLAVE", "brokerId=1", "brokerName=broker-a", f"release={release}")
    sets = [word for setting in role for word in ("--set", setting)]
    address = f"127.0.0.1:{port}"
    arguments = ("broker", "--listen", address, "--namesrv", cluster.namesrv, *sets)
    with started(*arguments) as process:
        ready_line(process)
        yield address


def test_a_real_slave_copies_our_master(release: str, tmp_path: Path) -> None:
    ours = (sys.executable, "-m", "rocketmq_emulator.cli", "up", "--brokers", "1", "--port", "0")
    with running([*ours, "--release", release]) as cluster:
        positions = send(cluster.namesrv, COUNT // 2)
        with real_slave(cluster, release, tmp_path) as slave:
            wait_until_it_accepts(slave)
            positions += send(cluster.namesrv, COUNT // 2)
            assert_copied(cluster.brokers["broker-a"], slave, positions)


def wait_until_it_accepts(address: str) -> None:
    until_s = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError), Stream(address):
            return
        assert time.monotonic() < until_s, f"{address} does not listen"
        time.sleep(0.2)
