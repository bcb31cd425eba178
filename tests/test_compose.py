"""docker-compose.yml and the Dockerfile: their unchanged commands start clusters.

The tests need no container engine: they run a container's command as a process.  Addresses of
containers in the network become 127.0.0.2, published ports of the host are on 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rocketmq_emulator.cluster.control.client import ControlClient
from tests.support.cli.command_line import ROOT, ready_line, rmqemu, started
from tests.support.free_ports import free_cluster_port, free_port

FILE = ROOT / "docker-compose.yml"
NETWORK, HOST = "127.0.0.2", "127.0.0.1"
ADDRESS = re.compile(r"([a-z0-9.-]+):(\d+)")
SERVICES: dict = yaml.safe_load(FILE.read_text())["services"]


class Machine:
    """This machine in place of the containers: each port of a service becomes a free port here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: dict[tuple[str, str], int] = {}
        self._published: dict[str, tuple[str, str]] = {}
        for name, service in SERVICES.items():
            for published in service.get("ports", ()):
                _, outside, inside = published.split(":")
                self._published[outside] = (name, inside)

    def inside(self, service: str, port: str) -> str:
        return f"{NETWORK}:{self._port(service, port)}"

    def outside(self, port: str) -> str:
        return f"{HOST}:{self._port(*self._published[port])}"

    def command(self, service: str, words: list[str]) -> list[str]:
        """The command *words* of a container of *service*, with addresses of this machine."""

        def here(address: re.Match) -> str:
            host, port = address.groups()
            if host in SERVICES:
                return self.inside(host, port)
            if host == "0.0.0.0":
                return f"0.0.0.0:{self._port(service, port)}"
            is_own = words[0] == "CMD"  # a health check connects to its own container
            return self.inside(service, port) if is_own else self.outside(port)

        store = f"={self._folder / service}"
        return [ADDRESS.sub(here, word).replace("=/store", store) for word in words]

    def _port(self, service: str, port: str) -> int:
        if (service, port) not in self._ports:
            self._ports[service, port] = free_port()
        return self._ports[service, port]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("compose"))
    with contextlib.ExitStack() as stack:
        for name, service in SERVICES.items():
            command = machine.command(name, service["command"])
            ready_line(stack.enter_context(started(*command)))
        yield machine


def brokers_at(namesrv: str) -> dict[str, str]:
    status = json.loads(rmqemu("status", "--json", "-n", namesrv).stdout)
    return {broker["name"]: broker["address"] for broker in status["brokers"]}


def test_each_side_is_told_addresses_that_lead_to_the_brokers_from_there(machine) -> None:
    assert brokers_at(machine.inside("namesrv", "9876")) == {
        "broker-a": machine.inside("broker-a", "10911"),
        "broker-b": machine.inside("broker-b", "11011"),
    }
    assert brokers_at(machine.outside("9876")) == {
        "broker-a": machine.outside("10911"),
        "broker-b": machine.outside("11011"),
    }


def test_what_a_container_sends_an_application_on_the_host_consumes(machine) -> None:
    inside, host = machine.inside("namesrv", "9876"), machine.outside("9876")
    sent = rmqemu("produce", "--topic", "orders", "-n", inside, stdin=b"one\ntwo\n")
    assert sent.returncode == 0, sent.stderr
    consume = ("consume", "--topic", "orders", "--group", "billing", "--count", "2")
    got = rmqemu(*consume, "-n", host)
    assert sorted(line for line in (b"one", b"two") if line in got.stdout) == [b"one", b"two"]


def test_the_health_checks_succeed_while_the_cluster_runs(machine) -> None:
    for name, service in SERVICES.items():
        kind, program, *arguments = machine.command(name, service["healthcheck"]["test"])
        assert (kind, program) == ("CMD", "rmqemu")
        assert rmqemu(*arguments).returncode == 0, name


def test_every_port_that_is_advertised_to_the_host_is_published_on_it_alone() -> None:
    for name, service in SERVICES.items():
        published = service.get("ports", [])
        assert all(port.startswith("127.0.0.1:") for port in published)
        for argument in service["command"]:
            if argument.startswith("--advertise=") and HOST in argument:
                port = argument.rpartition(":")[2]
                assert f"127.0.0.1:{port}:{port}" in published, name


def test_every_service_builds_the_one_image() -> None:
    for service in SERVICES.values():
        assert (service["build"], service["pull_policy"]) == (".", "build")
        assert service["image"] == "rocketmq-emulator"


# The image -------------------------------------------------------------------------------


INSTRUCTIONS = [
    "FROM",
    "WORKDIR",
    "COPY",
    "RUN",
    "USER",
    "EXPOSE",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "CMD",
]


def lines_of_the_image() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with their arguments."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, arguments) for name, _, arguments in (line.partition(" ") for line in lines)]


def instructions(name: str) -> list[str]:
    return [arguments for found, arguments in lines_of_the_image() if found == name]


def test_an_engine_knows_each_instruction_and_the_first_one_names_the_base() -> None:
    names = [name for name, _ in lines_of_the_image()]
    assert names[0] == "FROM"
    assert set(names) <= set(INSTRUCTIONS)
    assert instructions("FROM") == ["python:3.11-slim"]


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert list(instructions("COPY")) == [". ."]
    assert all((ROOT / source).exists() for source in kept)


def test_a_container_without_a_command_is_a_cluster_that_the_host_reaches() -> None:
    (entry,), (command,), (health,) = map(instructions, ("ENTRYPOINT", "CMD", "HEALTHCHECK"))
    assert json.loads(entry) == ["rmqemu"]
    port = free_cluster_port()
    command = command.replace("0.0.0.0:9875", "0.0.0.0:0")
    with started(*json.loads(command), "--port", str(port)) as process:
        ready = ready_line(process)
        assert ready["namesrv"] == f"{HOST}:{port}"
        assert brokers_at(f"{HOST}:{port}") == ready["brokers"]
        assert all(address.startswith(f"{HOST}:") for address in ready["brokers"].values())
        check = json.loads(health.partition("CMD")[2])
        assert rmqemu(*check[1:-1], f"{HOST}:{port}").returncode == 0
        mapped = rmqemu("advertise", "broker-a=localhost:32801", "-n", f"{HOST}:{port}")
        assert mapped.returncode == 0, mapped.stderr
        control = ControlClient(ready["control"].removeprefix("http://"))
        control.reset()
        assert brokers_at(f"{HOST}:{port}")["broker-a"] == "localhost:32801"
        assert rmqemu(*check[1:-1], f"{HOST}:{port}").returncode == 0, "ports inside are others"
        killed = rmqemu("kill", "broker-b", "-n", f"{HOST}:{port}")
        assert killed.returncode == 0, killed.stderr


def test_who_listens_everywhere_is_asked_for_the_address_that_clients_use() -> None:
    done = rmqemu("up", "--listen", "0.0.0.0")
    assert done.returncode == 2
    assert done.stderr == (
        b"rmqemu: --listen 0.0.0.0 needs --advertise HOST: the address that clients use\n"
    )


def test_the_image_names_the_ports_that_a_cluster_of_that_command_listens_on() -> None:
    (ports,) = instructions("EXPOSE")
    assert ports.split() == ["9875", "9876", "10911", "11011"]
