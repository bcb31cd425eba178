"""The log of a node's process on standard error, and a node whose standard error is closed."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import trio

from rocketmq_emulator.client import Message, Producer
from rocketmq_emulator.facts.logs import LogFormat, LogSettings
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig

ANY_PORT = "127.0.0.1:0"
PROGRAM = """
import sys
from rocketmq_emulator.processes import node
code = node.main()
print("structlog" in sys.modules)
sys.exit(code)
"""


class ServingNode:
    """A node that serves; ``ended`` stops it and returns its output."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address

    def ended(self) -> tuple[bool, list[str]]:
        """Stop the node; returns whether it loaded structlog, and its log lines."""
        self.process.send_signal(signal.SIGTERM)
        out, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return out.strip() == "True", errors.splitlines()


@contextmanager
def node(config: BrokerConfig | NameServerConfig, *options: str) -> Iterator[ServingNode]:
    role = "broker" if isinstance(config, BrokerConfig) else "nameserver"
    arguments = [sys.executable, "-c", PROGRAM, role, msgspec.json.encode(config).decode()]
    process = subprocess.Popen(
        [*arguments, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield ServingNode(process, ready["address"])
        finally:
            process.kill()


def a_free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


async def send(namesrv: str) -> None:
    async with Producer(namesrv=namesrv, group="shop") as producer:
        await producer.send(Message("orders", b"an order"))


def test_nodes_that_serve_and_have_nothing_to_say_never_load_structlog() -> None:
    with node(NameServerConfig(listen_address=ANY_PORT)) as name_server:
        config = BrokerConfig(listen_address=ANY_PORT, namesrv=(name_server.address,))
        with node(config) as broker:
            trio.run(send, name_server.address)
            assert broker.ended() == (False, [])
        assert name_server.ended() == (False, [])


def test_a_registration_that_fails_is_shown_at_once() -> None:
    nowhere = a_free_address()
    with node(BrokerConfig(listen_address=ANY_PORT, namesrv=(nowhere,))) as broker:
        is_loaded, lines = broker.ended()
    assert is_loaded
    assert "[warning  ] broker-a   RegistrationFailing" in lines[0]
    assert f"the NameServer at {nowhere} does not register this broker" in lines[0]
    assert "tried again within 0.2 s; check that a NameServer listens there" in lines[0]
    assert len(lines) == 1


def test_a_node_that_is_asked_to_shows_what_happens_as_objects() -> None:
    log = LogSettings("info", LogFormat.JSON)
    config = BrokerConfig(listen_address=ANY_PORT)
    with node(config, "--log", msgspec.json.encode(log).decode()) as broker:
        _, lines = broker.ended()
    shown = [json.loads(line) for line in lines]
    assert [line["event"] for line in shown] == [
        "NodeStarted",
        "StartedWithoutNameServer",
        "NodeStopped",
    ]
    assert shown[1]["message"].startswith("no NameServer is given")


def test_a_node_whose_standard_error_is_closed_serves_all_the_same() -> None:
    broker = BrokerConfig(listen_address=ANY_PORT, namesrv=(a_free_address(),))
    config = msgspec.json.encode(broker).decode()
    command = f"exec {sys.executable} -m rocketmq_emulator.processes.node broker '{config}' 2>&-"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert json.loads(line)["ready"]
