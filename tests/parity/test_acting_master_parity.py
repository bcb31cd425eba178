"""A slave acts for a master of the other kind, which takes back what was done meanwhile."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import ROOT, Cluster, running
from benchmarks.real_cluster import free_ports
from benchmarks.stream import NoSuccess, Stream
from rocketmq_emulator import Message
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.requests.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.settings.releases import Release
from rocketmq_emulator.sync import Producer
from tests.parity.real_slave import FILE_BYTES, real_slave
from tests.support.cli.command_line import ready_line, started

pytestmark = pytest.mark.parity
RELEASE = "5.3.3"
PAIR = ("enableSlaveActingMaster=true", "totalReplicas=2", "slaveReadEnable=true")
OF_SLAVE = dict(setting.split("=") for setting in PAIR)
TOPIC, GROUP, AT_SLAVE = "acted", "readers", 7
COPY_S_MAX, ACT_S_MAX = 120, 20


def words(*settings: str) -> list[str]:
    files = f"mappedFileSizeCommitLog={FILE_BYTES}"
    return [word for setting in (*PAIR, files, *settings) for word in ("--set", setting)]


REAL = (
    *(sys.executable, str(ROOT / "benchmarks" / "real_cluster.py")),
    *("--brokers", "1", "--version", RELEASE, *words()),
)


def test_a_real_master_takes_the_offsets_that_our_acting_slave_got(tmp_path: Path) -> None:
    with running(REAL) as cluster, our_slave(cluster, tmp_path) as slave:
        (master,) = cluster.brokers.values()
        send_some(cluster)
        create_group(master)
        commit(master, 3)
        wait_until(lambda: committed(slave) == 3, COPY_S_MAX)
        post(cluster, "broker-a", "kill")
        wait_until(lambda: "ActingMasterBegan" in kinds(tmp_path), ACT_S_MAX)
        commit(slave, AT_SLAVE)
        post(cluster, "broker-a", "start")
        # It accepts connections before it takes them, and registers after that.
        wait_until(lambda: committed(master) == AT_SLAVE, ACT_S_MAX)
        wait_until(lambda: "ActingMasterEnded" in kinds(tmp_path), ACT_S_MAX)


def test_our_master_takes_the_offsets_that_a_real_acting_slave_got(tmp_path: Path) -> None:
    ours = (sys.executable, "-m", "rocketmq_emulator.cli", "up", "--brokers", "1", "--port", "0")
    with running([*ours, "--release", RELEASE, *words()]) as cluster:
        (master,) = cluster.brokers.values()
        send_some(cluster)
        create_group(master)
        commit(master, 3)
        with real_slave(cluster, RELEASE, tmp_path, OF_SLAVE) as slave:
            wait_until(lambda: committed(slave) == 3, COPY_S_MAX)
            assert not is_active(slave)
            post(cluster, "broker-a", "kill")
            wait_until(lambda: is_active(slave), ACT_S_MAX)
            commit(slave, AT_SLAVE)
            post(cluster, "broker-a", "start")
            assert committed(master) == AT_SLAVE
            wait_until(lambda: not is_active(slave), ACT_S_MAX)


def is_active(address: str) -> bool:
    figures = ask(address, catalog.GET_BROKER_RUNTIME_INFO, Header())
    return decode_body(figures.body, KVTable).table["brokerActive"] == "true"


@contextlib.contextmanager
def our_slave(cluster: Cluster, folder: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_ports(4) + 2}"
    role = ("brokerRole=SLAVE", "brokerId=1", "brokerName=broker-a", f"release={RELEASE}")
    arguments = ("broker", "--listen", address, "--namesrv", cluster.namesrv, *words(*role))
    with started(*arguments, "--journal", str(folder / "slave.jsonl")) as process:
        ready_line(process)
        yield address


def send_some(cluster: Cluster) -> None:
    with Producer(namesrv=cluster.namesrv, group="writer", send_timeout_ms=20_000) as producer:
        for number in range(20):
            producer.send(Message(TOPIC, b"%d" % number))


def kinds(folder: Path) -> list[str]:
    lines = (folder / "slave.jsonl").read_bytes().splitlines()
    return [json.loads(line).get("fact", {}).get("kind", "") for line in lines]


def post(cluster: Cluster, node: str, verb: str) -> None:
    url = f"{cluster.control}/nodes/{node}/{verb}"
    asked = urllib.request.Request(url, b"", method="POST")  # noqa: S310  # on loopback
    urllib.request.urlopen(asked, timeout=300).close()  # noqa: S310


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.2)


def ask(address: str, rpc: Any, header: Any, body: bytes = b"") -> Any:
    with Stream(address) as stream:
        return stream.ask(rpc, header, body)


def create_group(address: str) -> None:
    body = encode_body(SubscriptionGroupConfig(group_name=GROUP), Release.parse(RELEASE))
    ask(address, catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Header(), body)


def commit(address: str, offset: int) -> None:
    header = UpdateConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset
    )
    ask(address, catalog.UPDATE_CONSUMER_OFFSET, header)


def committed(address: str) -> int | None:
    header = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=0)
    try:
        return int(ask(address, catalog.QUERY_CONSUMER_OFFSET, header).decode(OffsetReply).offset)
    except (NoSuccess, OSError):
        return None  # it does not listen yet, or knows no offset
