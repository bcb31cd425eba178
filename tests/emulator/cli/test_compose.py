"""docker-compose.yml: it parses, and its very commands make a cluster.

There need be no container engine: a container's command is run as a process here, with
its addresses and its volume mapped to this machine.
"""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

import pytest
import yaml
from command_line import ROOT, ready_line, rmqemu, started

FILE = ROOT / "docker-compose.yml"


@pytest.fixture(scope="module")
def services() -> dict:
    return yaml.safe_load(FILE.read_text())["services"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def here(command: list[str], ports: dict[str, int], folder: Path) -> list[str]:
    """The command of a container, for this machine."""
    text = "\n".join(command).replace("=/store", f"={folder}")
    for host in ("0.0.0.0", "127.0.0.1", "namesrv"):  # names to be replaced
        for inside, outside in ports.items():
            text = text.replace(f"{host}:{inside}", f"127.0.0.1:{outside}")
    return text.split("\n")


def test_the_commands_of_the_services_make_a_cluster(services, tmp_path) -> None:
    ports = {port: free_port() for port in ("9876", "10911", "11011")}
    with contextlib.ExitStack() as stack:
        for name, service in services.items():
            command = here(service["command"], ports, tmp_path / name)
            ready_line(stack.enter_context(started(*command)))
        namesrv = f"127.0.0.1:{ports['9876']}"
        status = json.loads(rmqemu("status", "--json", "-n", namesrv).stdout)
    brokers = {broker["name"]: broker["address"] for broker in status["brokers"]}
    assert brokers == {
        "broker-a": f"127.0.0.1:{ports['10911']}",
        "broker-b": f"127.0.0.1:{ports['11011']}",
    }


def test_every_port_that_is_advertised_is_published_and_stays_on_this_machine(services) -> None:
    for name, service in services.items():
        published = service["ports"]
        assert all(port.startswith("127.0.0.1:") for port in published)
        for argument in service["command"]:
            option, _, address = argument.partition("=")
            if option == "--advertise":
                port = address.rpartition(":")[2]
                assert f"127.0.0.1:{port}:{port}" in published, name


def test_the_image_runs_the_command_line_and_one_service_builds_it(services) -> None:
    assert 'ENTRYPOINT ["rmqemu"]' in (ROOT / "Dockerfile").read_text()
    assert [name for name, service in services.items() if "build" in service] == ["namesrv"]
    assert len({service["image"] for service in services.values()}) == 1
