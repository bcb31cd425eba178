"""``up``: one line when ready, no process left at the end, and errors that name the remedy."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time

import pytest
import trio

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.cli.commands.up import ControlPortOption, StopSignals
from tests.support.cli.command_line import RMQEMU, ready_line, rmqemu, started, wait_gone


def test_in_a_pipe_it_says_in_one_json_line_where_everything_listens() -> None:
    with started("up", "--brokers", "2", "--port", "0") as up:
        line = ready_line(up)
        keys = ["namesrv", "brokers", "controllers", "nodes", "control", "pids", "ready_s"]
        assert list(line) == keys
        assert line["controllers"] == {}
        assert list(line["nodes"]) == ["namesrv", "broker-a", "broker-b"]
        assert [node["pid"] for node in line["nodes"].values()] == line["pids"]
        assert line["nodes"]["broker-a"] == {
            "role": "broker",
            "address": line["brokers"]["broker-a"],
            "pid": line["pids"][1],
        }
        assert list(line["brokers"]) == ["broker-a", "broker-b"]
        assert len(line["pids"]) == 3
        for address in (line["namesrv"], *line["brokers"].values()):
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), 5).close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_stops_all_of_it_in_order(number) -> None:
    with started("up", "--brokers", "1", "--port", "0") as up:
        pids = ready_line(up)["pids"]
        up.send_signal(number)
        assert up.wait(30) == 0
        wait_gone(pids)


def test_a_signal_that_something_swallowed_is_remembered() -> None:
    heard: list[str] = []
    with StopSignals() as asked:
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        heard.append("the second time nothing is raised")
        asked.check()
        heard.append("and it goes on")
    assert heard == ["the second time nothing is raised"]


def test_when_up_itself_is_killed_no_orphan_outlives_it() -> None:
    with started("up", "--brokers", "1", "--port", "0") as up:
        pids = ready_line(up)["pids"]
        up.kill()
        wait_gone(pids)
        assert up.wait(30) == -signal.SIGKILL


def test_a_node_that_dies_is_named_and_the_others_go_on() -> None:
    with started("up", "--brokers", "2", "--port", "0") as up:
        line = ready_line(up)
        os.kill(line["nodes"]["broker-b"]["pid"], signal.SIGKILL)
        said = up.stderr.readline().decode()
        assert said.startswith("rmqemu: broker-b was killed by signal 9; the others go on")
        (broker,) = json.loads(rmqemu("status", "--json", "-n", line["namesrv"]).stdout)["brokers"]
        assert broker["name"] == "broker-a"
        assert up.poll() is None
        up.send_signal(signal.SIGTERM)
        assert up.communicate(timeout=30) == (b"", b"")
        assert up.returncode == 0
        wait_gone(line["pids"])


def test_a_node_that_was_killed_is_started_again_by_the_command_that_it_names() -> None:
    with started("up", "--brokers", "1", "--port", "0") as up:
        line = ready_line(up)
        os.kill(line["nodes"]["broker-a"]["pid"], signal.SIGKILL)
        command = up.stderr.readline().decode().rpartition(" with: rmqemu ")[2].split()
        assert command[:2] == ["start", "broker-a"]
        done = rmqemu(*command)
        assert done.returncode == 0, done.stderr
        (broker,) = json.loads(rmqemu("status", "--json", "-n", line["namesrv"]).stdout)["brokers"]
        assert not broker["problem"]


def test_with_acting_master_a_slave_is_in_routes_as_the_master_while_that_is_away() -> None:
    options = ("--brokers", "1", "--slaves", "1", "--release", "5.3.3")
    with started("up", "--port=0", *options, "--acting-master") as up:
        line = ready_line(up)
        os.kill(line["nodes"]["broker-a"]["pid"], signal.SIGKILL)
        until_s = time.monotonic() + 20
        slave = {0: line["nodes"]["broker-a-1"]["address"]}
        while (found := trio.run(addresses_in_route, line["namesrv"])) != slave:
            assert time.monotonic() < until_s, found
            time.sleep(0.1)


async def addresses_in_route(namesrv: str) -> dict[int, str]:
    async with admin_over_tcp(namesrv) as admin:
        (broker,) = (await admin.route("TBW102")).broker_datas
        return broker.broker_addrs


def test_a_control_port_that_was_asked_for_and_is_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        text = said_one_line(rmqemu("up", "--brokers=0", "--port=0", "--control", port), 1)
    assert f"127.0.0.1:{port} is in use" in text


def test_without_a_control_address_there_is_none() -> None:
    with started("up", "--brokers=0", "--port=0", "--control=none") as up:
        assert ready_line(up)["control"] == ""


@pytest.mark.parametrize(
    ("text", "port", "wish"),
    [
        ("", 9876, ControlPortOption(9875, or_any=True)),
        ("", 0, ControlPortOption(0, or_any=True)),
        ("9000", 9876, ControlPortOption(9000)),
        ("0", 9876, ControlPortOption(0)),
        ("none", 9876, ControlPortOption(None)),
        ("0.0.0.0:9000", 9876, ControlPortOption(9000, host="0.0.0.0")),
    ],
)
def test_the_control_port_is_the_one_below_the_name_server_s_or_what_is_asked(
    text, port, wish
) -> None:
    assert ControlPortOption.parse(text, port) == wish


def test_it_stays_when_its_last_node_dies_for_nodes_can_be_started_again() -> None:
    with started("up", "--brokers", "0", "--port", "0") as up:
        os.kill(ready_line(up)["pids"][0], signal.SIGKILL)
        assert up.stderr.readline().startswith(b"rmqemu: namesrv was killed by signal 9;")
        assert up.poll() is None


def test_with_exit_on_death_a_node_that_dies_ends_it_all_with_an_error() -> None:
    with started("up", "--brokers", "1", "--port", "0", "--exit-on-death") as up:
        line = ready_line(up)
        os.kill(line["pids"][-1], signal.SIGKILL)
        _, errors = up.communicate(timeout=30)
        assert up.returncode == 1
        assert errors.decode() == "rmqemu: broker-a was killed by signal 9\n"
        wait_gone(line["pids"])


@pytest.mark.parametrize("how", [(), ("--embedded",)], ids=["processes", "embedded"])
def test_with_exit_with_parent_it_ends_when_the_suite_that_started_it_is_killed(how) -> None:
    program = "import signal, subprocess, sys; subprocess.Popen(sys.argv[1:]); signal.pause()"
    suite = (sys.executable, "-c", program, *RMQEMU)
    arguments = ("up", "--brokers=1", "--port=0", "--exit-with-parent", *how)
    with started(*arguments, command=suite) as parent:
        pids = ready_line(parent)["pids"]
        parent.kill()
        wait_gone(pids)


def test_without_exit_with_parent_it_goes_on_when_its_parent_ends() -> None:
    program = "import subprocess, sys; subprocess.Popen(sys.argv[1:])"
    suite = (sys.executable, "-c", program, *RMQEMU)
    with started("up", "--embedded", "--port=0", command=suite) as parent:
        line = ready_line(parent)
        (pid,) = line["pids"]
        try:
            assert parent.wait(30) == 0
            done = rmqemu("status", "--json", "-n", line["namesrv"])
            assert len(json.loads(done.stdout)["brokers"]) == 2
        finally:
            os.kill(pid, signal.SIGTERM)
        wait_gone([pid])


def test_embedded_it_is_one_process() -> None:
    with started("up", "--embedded", "--port", "0") as up:
        line = ready_line(up)
        assert line["pids"] == [up.pid]
        assert list(line["brokers"]) == ["broker-a", "broker-b"]


def test_facts_go_to_the_folder_that_was_asked_for_and_log_renders_them(tmp_path) -> None:
    with started("up", "-v", "--brokers=1", "--port=0", f"--journal={tmp_path}") as up:
        ready_line(up)
        said = up.stderr.readline().decode()
        assert "NodeStarted" in said
        assert "namesrv" in said
    facts = (tmp_path / "broker-a.jsonl").read_bytes().splitlines()
    assert json.loads(facts[0])["fact"]["kind"] == "NodeStarted"
    assert json.loads(facts[-1])["node"] == "broker-a"


def said_one_line(done, code: int) -> str:
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert text.startswith("rmqemu: ")
    assert len(text.splitlines()) == 1, text
    return text


def test_a_port_in_use_is_one_line_that_says_what_to_do() -> None:
    with contextlib.ExitStack() as stack:
        port = 65_535
        while port > 60_000:  # too high to leave room for brokers above it
            taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = taken.getsockname()[1]
        text = said_one_line(rmqemu("up", "--brokers", "0", "--port", str(port)), 1)
    assert f"127.0.0.1:{port} is in use: stop the process that uses it" in text


@pytest.mark.parametrize("how", [(), ("--embedded",)], ids=["processes", "embedded"])
def test_an_unwritable_store_is_one_line_that_says_what_to_do(how) -> None:
    text = said_one_line(rmqemu("up", "--port=0", "--store=/proc/nothing", *how), 1)
    assert "cannot write to the store directory /proc/nothing/namesrv" in text
    assert "choose a folder that this user may write to" in text


def test_a_store_of_another_cluster_that_still_runs_is_left_alone(tmp_path) -> None:
    with started("up", "--brokers=0", "--port=0", f"--store={tmp_path}") as up:
        pid = ready_line(up)["pids"][0]
        text = said_one_line(rmqemu("up", "--brokers=0", "--port=0", f"--store={tmp_path}"), 1)
    assert f"is in use by process {pid}: stop that process, or choose another folder" in text


def test_a_full_disk_is_one_line_on_each_side_and_the_broker_goes_on(tmp_path) -> None:
    limited = ("sh", "-c", 'ulimit -f 200; exec "$@"', "sh", *RMQEMU)
    with started("up", "--brokers=1", "--port=0", f"--store={tmp_path}", command=limited) as up:
        namesrv = ready_line(up)["namesrv"]
        done = rmqemu("produce", "--topic", "orders", "-n", namesrv, stdin=b"a line\n")
        assert "the broker's disk is full" in said_one_line(done, 1)
        complaint = up.stderr.readline().decode()
        assert up.poll() is None
    assert "[error    ] broker-a   StoreRefused " in complaint
    assert "reason='no room for " in complaint
    assert complaint.endswith("advice='free some room, or choose a folder on another disk'\n")


def test_messages_survive_the_kill_of_their_broker_in_a_temporary_store() -> None:
    with started("up", "--brokers=1", "--port=0") as up:
        line = ready_line(up)
        where = ("-n", line["namesrv"])
        control = ("--control", line["control"].removeprefix("http://"))
        rmqemu("produce", "--topic=orders", *where, stdin=b"one\ntwo\n")
        assert rmqemu("kill", "broker-a", *control).returncode == 0
        assert rmqemu("start", "broker-a", *control).returncode == 0
        done = rmqemu("consume", "--topic=orders", "--count=2", *where)
        assert sorted(done.stdout.split()) == [b"one", b"two"]
        up.send_signal(signal.SIGTERM)
        assert up.communicate(timeout=30) == (b"", b"")


def test_a_temporary_store_is_removed_at_the_end_and_after_kill_9_by_the_next_up(tmp_path) -> None:
    def folders() -> list[str]:
        return [folder.name for folder in tmp_path.iterdir()]

    up_options = ("env", f"TMPDIR={tmp_path}", *RMQEMU)
    with started("up", "--brokers=1", "--port=0", command=up_options) as up:
        pids = ready_line(up)["pids"]
        (killed,) = folders()
        up.kill()
        wait_gone(pids)
    with started("up", "--brokers=1", "--port=0", command=up_options) as up:
        ready_line(up)
        (used,) = folders()
        with started("up", "--brokers=0", "--port=0", command=up_options) as beside:
            ready_line(beside)
            assert used in folders()  # an owner that runs keeps its own
    assert killed != used
    assert folders() == []


def test_with_store_none_messages_are_in_memory(tmp_path) -> None:
    in_folder = ("env", f"TMPDIR={tmp_path}", *RMQEMU)
    with started("up", "--brokers=1", "--port=0", "--store=none", command=in_folder) as up:
        ready_line(up)
        assert not list(tmp_path.iterdir())


def test_at_its_end_it_names_the_folders_that_it_keeps(tmp_path) -> None:
    store, journal = tmp_path / "store", tmp_path / "facts"
    options = ("--brokers=0", "--port=0", f"--store={store}", f"--journal={journal}")
    with started("up", *options) as up:
        ready_line(up)
        up.send_signal(signal.SIGTERM)
        _, said = up.communicate(timeout=30)
    assert said.decode().splitlines() == [
        f"rmqemu: kept in {store}: messages, topics and offsets",
        f"rmqemu: kept in {journal}: facts; see rmqemu report, judge, explain",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--set", "brokerNme=x"),
            "no setting 'brokerNme' here; did you mean brokerName?",
        ),
        (("--set", "brokerName=x"), "every broker needs its own"),
        (("--set", "perm=9"), "perm (brokerPermission) is between 0 and 7"),
        (("--brokers", "99"), "0 to 26 brokers"),
        (("--release", "next"), "next"),
        (("--control", "banana"), "--control banana: a port from 0"),
        (("--acting-master",), "--acting-master needs slaves that can act"),
        (("--acting-master", "--slaves", "1", "--release", "4.9.7"), "needs release 5.0.0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(arguments, complaint) -> None:
    assert complaint in said_one_line(rmqemu("up", "--port=0", *arguments), 2)


def test_a_setting_reaches_every_broker_under_either_name() -> None:
    with started("up", "--port=0", "--set", "defaultTopicQueueNums=3", "--set", "region=x") as up:
        namesrv = ready_line(up)["namesrv"]
        done = rmqemu("produce", "--topic", "made", "-n", namesrv, stdin=b"a line\n")
        assert done.returncode == 0, done.stderr
        topics = json.loads(rmqemu("topic", "list", "--json", "-n", namesrv).stdout)
    queues_a_broker = {topic["queues"] / len(topic["brokers"]) for topic in topics}
    assert queues_a_broker == {3}


def test_a_file_where_the_folder_of_the_journal_should_be_is_named(tmp_path) -> None:
    (file := tmp_path / "file").write_text("")
    text = said_one_line(rmqemu("up", "--port=0", f"--journal={file}"), 2)
    assert text == f"rmqemu: --journal {file} is not a folder\n"
