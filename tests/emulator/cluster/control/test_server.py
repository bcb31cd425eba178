"""The thread of a control address: it imports nothing before the first client, and ends."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import threading

import pytest

from rocketmq_emulator.cluster.control.server import ControlServer
from rocketmq_emulator.net.transport import AddressInUse
from tests.support.cluster.fake_cluster import FakeCluster


def status_of(server: ControlServer) -> int:
    connection = http.client.HTTPConnection(server.address, timeout=30)
    connection.request("GET", "/nodes")
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_it_answers_until_it_is_closed() -> None:
    threads = threading.active_count()
    server = ControlServer(FakeCluster(), 0)
    assert server.url == f"http://{server.address}"
    assert [status_of(server), status_of(server)] == [200, 200]
    server.close()
    assert not server._thread.is_alive()
    with pytest.raises(ConnectionRefusedError):
        status_of(server)
    assert threading.active_count() <= threads + 1  # trio keeps an idle worker for a while


def test_one_that_nobody_has_used_ends_too() -> None:
    server = ControlServer(FakeCluster(), 0)
    server.close()
    assert not server._thread.is_alive()


def test_one_closes_while_a_client_is_connected() -> None:
    server = ControlServer(FakeCluster(), 0)
    assert status_of(server) == 200
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as line:
        line.sendall(b"GET")
        server.close()
        with contextlib.suppress(ConnectionResetError):
            assert line.recv(1) == b""
    assert not server._thread.is_alive()


def test_nothing_is_loaded_for_a_control_address_that_nobody_uses() -> None:
    code = (
        "import sys\nfrom rocketmq_emulator.cluster.worlds.processes import ProcessCluster\n"
        "with ProcessCluster(brokers=0, control=0): print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert not {b"trio", b"h11", b"http"} & set(loaded.stdout.split())


def test_a_port_in_use_is_told_from_one_that_is_not_allowed() -> None:
    server = ControlServer(FakeCluster(), 0)
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(AddressInUse, match=f"127.0.0.1:{port} is in use"):
        ControlServer(FakeCluster(), port)
    server.close()
