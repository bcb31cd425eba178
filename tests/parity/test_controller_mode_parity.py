"""A broker of ours beside a real one, under a real controller: slave, then master, then slave."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.real_cluster import HOST, Server, fetched_jars, free_ports, launched
from benchmarks.stream import Stream
from rocketmq_emulator.errors.call_errors import SendError
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.controller import EpochEntryCache, SyncStateSet
from rocketmq_emulator.protocol.requests.controller import (
    GetReplicaInfoReply,
    GetReplicaInfoRequest,
)
from tests.parity.test_replication_parity import assert_copied, send, wait_until_it_accepts
from tests.support.cli.command_line import ready_line, started

pytestmark = pytest.mark.parity
RELEASE = "5.3.3"
FILE_BYTES = 8 * 1024 * 1024
STEP_S_MAX = 120  # a broker is missed for 10 s, and registers every 30 s; JVMs start slowly
OUR_ID, REAL_ID = 2, 1


class Group:
    """A real NameServer and a real controller; and a real broker that a test kills and starts."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        ports = {role: free_ports(4) + 2 for role in ("namesrv", "controller", "broker")}
        self.namesrv = f"{HOST}:{ports['namesrv']}"
        self.controller = f"{HOST}:{ports['controller']}"
        settings: dict[str, dict[str, object]] = {
            "namesrv": {"listenPort": ports["namesrv"], "bindAddress": HOST},
            "controller": {
                "listenPort": ports["controller"] + 1,
                "bindAddress": HOST,
                "controllerDLegerGroup": "controllers",
                "controllerDLegerPeers": f"n0-{self.controller}",
                "controllerDLegerSelfId": "n0",
                "controllerStorePath": home / "controller" / "store",
                "mappedFileSize": 16 << 20,
            },
            "broker": {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": -1,
                "brokerRole": "SLAVE",
                "enableControllerMode": "true",
                "controllerAddr": self.controller,
                "listenPort": ports["broker"],
                "haListenPort": ports["broker"] + 1,
                "brokerIP1": HOST,
                "brokerIP2": HOST,
                "namesrvAddr": self.namesrv,
                "storePathRootDir": home / "broker" / "store",
                "storePathCommitLog": home / "broker" / "store" / "commitlog",
                "autoCreateTopicEnable": "true",
                "mappedFileSizeCommitLog": FILE_BYTES,
            },
        }
        self._servers = {
            role: Server(role, role, ports[role], "400m", given)
            for role, given in settings.items()
        }
        self.broker = self._servers["broker"].address

    def start(self, role: str) -> None:
        server = self._servers[role]
        self._running[role] = launched(server, fetched_jars(RELEASE), self._home)
        wait_until_it_accepts(server.address)

    def kill(self, role: str) -> None:
        process = self._running.pop(role)
        process.kill()
        process.wait()

    def end(self) -> None:
        for role in list(self._running):
            self.kill(role)

    def state(self) -> tuple[int | None, set[int]]:
        """The master's id, and the sync-state set, as the controller knows them."""
        with Stream(self.controller) as stream:
            request = GetReplicaInfoRequest(broker_name="broker-a")
            reply = stream.ask(catalog.CONTROLLER_GET_REPLICA_INFO, request)
        if reply.code:
            return None, set()
        in_sync = decode_body(reply.body, SyncStateSet)
        return reply.decode(GetReplicaInfoReply).master_broker_id, set(in_sync.sync_state_set)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    found = Group(tmp_path)
    try:
        for role in ("namesrv", "controller", "broker"):
            found.start(role)
        yield found
    finally:
        found.end()


@contextlib.contextmanager
def our_broker(group: Group, store: Path, port: int) -> Iterator[str]:
    settings = {
        "brokerName": "broker-a",
        "release": RELEASE,
        "enableControllerMode": "true",
        "controllerAddr": group.controller,
    }
    sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    address = f"{HOST}:{port}"
    arguments = ("--listen", address, "--namesrv", group.namesrv, "--store", str(store), *sets)
    with started("broker", *arguments) as process:
        ready_line(process)
        yield address


def wait_until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    until_s = time.monotonic() + STEP_S_MAX
    while not is_so():
        assert time.monotonic() < until_s, what()
        time.sleep(0.5)


def sent(group: Group, count: int) -> list[int]:
    """Send *count* messages as soon as the new master is known everywhere."""
    until_s = time.monotonic() + STEP_S_MAX
    while True:
        try:
            return send(group.namesrv, count)
        except SendError:
            assert time.monotonic() < until_s
            time.sleep(1)


def epochs(address: str) -> list[tuple[int, int]]:
    """The epochs of a broker's log, with their starts."""
    with Stream(address) as stream:
        body = stream.ask(catalog.GET_BROKER_EPOCH_CACHE, None).body
    return [
        (each.epoch, each.start_offset) for each in decode_body(body, EpochEntryCache).epoch_list
    ]


def test_our_broker_and_a_real_one_take_turns_as_master(group: Group, tmp_path: Path) -> None:
    wait_until(lambda: group.state() == (REAL_ID, {REAL_ID}), group.state)
    positions = sent(group, 100)
    port = free_ports(4) + 2
    with our_broker(group, tmp_path / "ours", port) as ours:
        wait_until(lambda: group.state() == (REAL_ID, {REAL_ID, OUR_ID}), group.state)
        assert_copied(group.broker, ours, positions)
        assert epochs(ours) == epochs(group.broker)
        group.kill("broker")
        wait_until(lambda: group.state()[0] == OUR_ID, group.state)
        positions += sent(group, 50)
        group.start("broker")
        wait_until(lambda: group.state() == (OUR_ID, {REAL_ID, OUR_ID}), group.state)
        assert_copied(ours, group.broker, positions)
        assert epochs(group.broker) == epochs(ours)
    wait_until(lambda: group.state()[0] == REAL_ID, group.state)
    positions += sent(group, 20)
    with our_broker(group, tmp_path / "ours", port) as ours:
        wait_until(lambda: group.state() == (REAL_ID, {REAL_ID, OUR_ID}), group.state)
        assert_copied(group.broker, ours, positions)
        assert epochs(ours)[-1] == epochs(group.broker)[-1]
