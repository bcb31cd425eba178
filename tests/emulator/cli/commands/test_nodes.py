"""``nodes`` and the commands that change them, against a cluster in a thread of this process."""

from __future__ import annotations

import json
import socket
import threading

import pytest
import typer
from typer.testing import CliRunner

from rocketmq_emulator.cli.app import add_commands
from rocketmq_emulator.cli.commands.nodes import nodes_table, state_text
from rocketmq_emulator.cluster.node_view import NodeView
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(control=0) as running:
        yield running


@pytest.fixture
def rmqemu(cluster):
    app = typer.Typer()
    add_commands(app)
    runner = CliRunner(env={"NAMESRV_ADDR": cluster.namesrv, "RMQEMU_CONTROL": ""})

    def run(*arguments: str, code: int = 0, **more: str):
        done = runner.invoke(app, list(arguments), env=more)
        assert done.exit_code == code, done.output
        return done

    return run


def test_nodes_are_a_table_and_one_json_value(rmqemu, cluster) -> None:
    lines = rmqemu("nodes").stdout.strip().splitlines()
    assert lines[0].split() == ["node", "role", "state", "since", "address", "pid"]
    assert lines[1].split()[:3] == ["namesrv", "nameserver", "running"]
    found = json.loads(rmqemu("nodes", "--json").stdout)
    assert [node["name"] for node in found] == ["namesrv", "broker-a", "broker-b"]
    assert found[1]["address"] == cluster.brokers["broker-a"]


def test_several_nodes_are_killed_and_started_again(rmqemu, cluster) -> None:
    done = rmqemu("kill", "broker-a", "broker-b")
    assert done.stdout == "broker-a is dead\nbroker-b is dead\n"
    assert not cluster.is_running("broker-a")
    (view,) = [
        json.loads(line) for line in rmqemu("start", "broker-a", "--json").stdout.splitlines()
    ]
    assert view["state"] == "running"
    rmqemu("restart", "broker-b")
    rmqemu("stop", "broker-b")
    rmqemu("start", "broker-b")
    assert all(node.state == "running" for node in cluster.nodes)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ("kill", "broker-z"),
            4,
            "no node named 'broker-z'; there are broker-a, broker-b, namesrv",
        ),
        (("kill", "br\udcff"), 4, "no node named 'br"),  # a byte of Latin-1, as a shell passes it
        (("start", "broker-a"), 1, "broker-a is running already"),
        (("kill",), 2, "Missing argument"),
        (("kill", "broker-a", "--control", "banana"), 2, "banana"),
        (("nodes", "--control", "https://here:1"), 2, "http://HOST:PORT, not https://here:1"),
        (("nodes", "-n", "127.0.0.1:99999"), 2, "99999"),
        (("nodes", "--control", "127.0.0.1:1"), 3, "no control address answers at 127.0.0.1:1"),
        (("nodes", "-n", "127.0.0.1:1"), 3, "no NameServer answers at 127.0.0.1:1: start one"),
    ],
)
def test_wrong_use_is_one_clear_line(rmqemu, arguments, code, text) -> None:
    done = rmqemu(*arguments, code=code)
    assert text in done.stderr
    assert done.stdout == ""
    if code != 2:  # the parser formats its own errors
        assert len(done.stderr.splitlines()) == 1


def test_of_several_nodes_those_are_done_that_can_be(rmqemu, cluster) -> None:
    done = rmqemu("stop", "broker-z", "broker-a", "broker-a", code=4)
    assert done.stdout == "broker-a is stopped\n"
    assert done.stderr.splitlines()[1] == "rmqemu: broker-a is stopped already"
    cluster.start("broker-a")


def test_the_control_address_is_found_without_a_name_server_too(rmqemu, cluster) -> None:
    address = cluster.control.removeprefix("http://")
    rmqemu("kill", "namesrv")
    assert "no NameServer answers" in rmqemu("nodes", code=3).stderr
    rmqemu("start", "namesrv", RMQEMU_CONTROL=address)
    rmqemu("nodes")  # the restarted NameServer knows the control address again
    rmqemu("nodes", "--control", f"http://{address}/")
    rmqemu("nodes", "--control", address.rpartition(":")[2])


def test_who_answers_there_but_is_no_control_address_is_told_apart(rmqemu) -> None:
    with EmbeddedCluster(brokers=0) as other:
        done = rmqemu("nodes", "-n", other.namesrv, code=3)
        assert "has no control address: `rmqemu up` gives it one" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.listen(1)
        port = deaf.getsockname()[1]

        def answer() -> None:
            line, _ = deaf.accept()
            with line:
                line.recv(1000)
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        thread = threading.Thread(target=answer)
        thread.start()
        done = rmqemu("nodes", "--control", f"127.0.0.1:{port}", code=3)
        thread.join()
        assert "is no control address of `rmqemu up`" in done.stderr


def test_an_address_that_is_no_name_server_is_one_line(rmqemu, cluster) -> None:
    http = cluster.control.removeprefix("http://")
    broker = cluster.brokers["broker-a"]
    for command in ("nodes", "status"):
        done = rmqemu(command, "-n", http, code=3)
        assert done.stderr.startswith(f"rmqemu: no NameServer answers at {http}")
        assert len(done.stderr.splitlines()) == 1
    done = rmqemu("status", "-n", broker, code=3)
    assert done.stderr.startswith(f"rmqemu: the server at {broker} is no NameServer: is it a")


def test_a_cluster_that_ends_before_it_answers_is_told_apart(rmqemu) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        done = rmqemu("kill", "broker-a", "--control", address, code=3)
        thread.join()
    assert done.stderr == f"rmqemu: the control address at {address} ended before it answered\n"


def test_brokers_register_the_addresses_that_are_given(rmqemu, cluster) -> None:
    before = cluster.brokers
    mapped = {"broker-a": "localhost:32801", "broker-b": "127.0.0.1:32802"}
    done = rmqemu("advertise", *(f"{name}={address}" for name, address in mapped.items()))
    assert done.stdout == "".join(f"{n} is registered at {a}\n" for n, a in mapped.items())
    assert cluster.brokers == mapped
    rmqemu("advertise", *(f"{name}={address}" for name, address in before.items()))
    done = rmqemu("advertise", "broker-a", code=2)
    assert done.stderr == (
        "rmqemu: 'broker-a' is no NODE=HOST:PORT, as broker-a=localhost:32801\n"
    )
    assert rmqemu("advertise", "broker-a=here", code=2).stderr.startswith("rmqemu: broker-a: ")
    assert rmqemu("advertise", "broker-c=a:1", code=4).stderr.startswith(
        "rmqemu: there is no node"
    )
    assert cluster.brokers == before


def test_the_way_a_node_ended_is_shown() -> None:
    node = NodeView("broker-a", "broker", "127.0.0.1:1", None, "dead", 0, signal=9)
    assert state_text(node) == "dead (signal 9)"
    failed = NodeView("broker-a", "broker", "127.0.0.1:1", None, "dead", 0, exit_code=1)
    assert state_text(failed) == "dead (exit code 1)"
    assert nodes_table([node, failed]).row_count == 2
