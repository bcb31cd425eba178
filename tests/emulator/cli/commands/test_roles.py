"""``nameserver`` and ``broker`` as separate processes, configured in every way."""

from __future__ import annotations

import json
import socket
import time

import pytest

from rocketmq_emulator.cli.commands.roles import journal_file
from rocketmq_emulator.protocol.messages.records import encode_record
from tests.support.cli.command_line import environment, ready_line, rmqemu, started
from tests.support.free_ports import free_port


def test_a_name_server_and_a_broker_started_by_hand_make_a_cluster() -> None:
    with started("nameserver", "--listen", "127.0.0.1:0") as name_server:
        namesrv = ready_line(name_server)["address"]
        arguments = ("--name", "mine", "--listen", "127.0.0.1:0", "--namesrv", namesrv)
        with started("broker", *arguments) as broker:
            line = ready_line(broker)
            assert (line["role"], line["name"], line["pid"]) == ("broker", "mine", broker.pid)
            status = json.loads(rmqemu("status", "--json", "-n", namesrv).stdout)
    assert [(b["name"], b["address"]) for b in status["brokers"]] == [("mine", line["address"])]


def test_a_broker_tells_the_advertised_address_and_listens_on_another() -> None:
    with started("nameserver", "--listen", "127.0.0.1:0") as name_server:
        namesrv = ready_line(name_server)["address"]
        arguments = ("--listen", "127.0.0.1:0", "--advertise", "10.9.8.7:1", "--namesrv", namesrv)
        with started("broker", *arguments) as broker:
            listening = ready_line(broker)["address"]
            status = json.loads(rmqemu("status", "--json", "-n", namesrv).stdout)
    assert listening.startswith("127.0.0.1:")
    assert status["brokers"][0]["address"] == "10.9.8.7:1"


def test_a_rocketmq_users_own_conf_file_starts_a_broker(tmp_path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=theirs\nlistenPort=0\ndeleteWhen=04\nbrokerRole=ASYNC_MASTER\n")
    with started("broker", "-c", str(conf), "--set", "enablePropertyFilter=true") as broker:
        assert ready_line(broker)["name"] == "theirs"
        said = broker.stderr.readline().decode()
    assert said == "rmqemu: of no effect here, ignored: deleteWhen\n"


def test_a_name_server_elects_masters_by_the_controller_in_its_process(tmp_path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text(
        "enableControllerInNamesrv = true\nlistenPort = 0\ncontrollerDLegerSelfId = n0\n"
        f"controllerDLegerPeers = n0-127.0.0.1:{free_port()}\n"
    )
    journal = tmp_path / "journal.jsonl"
    with started("nameserver", "-c", str(conf), "--journal", str(journal)) as name_server:
        line = ready_line(name_server)
        assert line["role"] == "nameserver"
        settings = ("enableControllerMode=true", f"controllerAddr={line['controller']}")
        sets = [word for setting in settings for word in ("--set", setting)]
        more = ("--namesrv", line["address"], "--listen", "127.0.0.1:0", "--release", "5.3.3")
        with started("broker", "--name", "elected", *more, *sets) as broker:
            ready_line(broker)
            wait_until_registered("elected", line["address"])
    nodes = {json.loads(text)["node"] for text in journal.read_text().splitlines()}
    assert nodes == {"namesrv", "controller-n0"}


def wait_until_registered(name: str, namesrv: str) -> None:
    """A broker registers once a controller has made it the master."""
    until_s = time.monotonic() + 30
    while True:
        status = json.loads(rmqemu("status", "--json", "-n", namesrv).stdout)
        if [broker["name"] for broker in status["brokers"]] == [name]:
            return
        assert time.monotonic() < until_s, f"{name} was not registered"


def test_the_environment_configures_a_role(monkeypatch) -> None:
    monkeypatch.setattr(
        "tests.support.cli.command_line.environment", lambda: environment_with(name="from-env")
    )
    with started("broker", "--listen", "127.0.0.1:0") as broker:
        assert ready_line(broker)["name"] == "from-env"


@pytest.mark.parametrize("role", ["nameserver", "broker"])
def test_a_role_that_is_asked_to_shows_what_happens_as_objects(role) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--log", "--log-format", "json")
    with started(role, *arguments) as node:
        address = ready_line(node)["address"]
        shown = json.loads(node.stderr.readline())
    assert (shown["level"], shown["event"], shown["address"]) == ("info", "NodeStarted", address)


def environment_with(**settings: str) -> dict[str, str]:
    return environment(**{f"RMQEMU_{name.upper()}": value for name, value in settings.items()})


@pytest.mark.parametrize(
    ("arguments", "more", "complaint"),
    [
        (("--set", "listenPrt=1"), {}, "there is no setting 'listenPrt' here"),
        (("--config", "/nothing.toml"), {}, "/nothing.toml: No such file or directory"),
        (("-c", "/nothing.conf"), {}, "/nothing.conf: No such file or directory"),
        ((), {"RMQEMU_NMAE": "x"}, "the environment, RMQEMU_NMAE: there is no setting 'nmae'"),
        (
            (),
            {"RMQEMU_PERM": "8"},
            "RMQEMU_PERM: perm (brokerPermission) is between 0 and 7 (4 for read",
        ),
        (("--namesrv", "banana"), {}, "--namesrv: namesrv (namesrvAddr): an address looks like"),
        (("--namesrv", "127.0.0.1:"), {}, "not '127.0.0.1:'"),
        (("--advertise", "10.0.0.1:99999"), {}, "with a port up to 65535, not '10.0.0.1:99999'"),
        (("--advertise", "a:1", "--advertise", "b:1"), {}, "one address without NAMESRV=, not 2"),
        (
            ("--namesrv", "127.0.0.1:1", "--advertise", "127.0.0.1:2=a:1"),
            {},
            "--advertise: --namesrv: advertised_to = {'127.0.0.1:2': 'a:1'}: each NameServer",
        ),
        (("--release", "9.9.9"), {}, "--release: release: RocketMQ 9.9.9 is not known here"),
        (("--listen", "0.0.0.0:0"), {}, "0.0.0.0:0 needs a port, or --advertise"),
        (("--listen", "here"), {}, "an address looks like 127.0.0.1:9876, not 'here'"),
        (("--release", "five"), {}, "five"),
    ],
)
def test_a_broker_that_cannot_be_is_refused_in_one_line(arguments, more, complaint) -> None:
    done = rmqemu("broker", *arguments, **more)
    text = done.stderr.decode()
    assert done.returncode == 2
    assert complaint in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("role", ["nameserver", "broker"])
def test_an_address_that_is_taken_or_not_of_this_machine_is_one_line(role) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        lines = {
            address: f"{address} is in use: stop the process that uses it, or choose another port",
            "192.0.2.1:9876": "cannot listen on 192.0.2.1:9876: cannot assign requested address",
            "nowhere.invalid:9876": "nowhere.invalid",
        }
        for listen, complaint in lines.items():
            done = rmqemu(role, "--listen", listen)
            (line,) = done.stderr.decode().splitlines()
            assert done.returncode == 1
            assert line.startswith("rmqemu: ")
            assert complaint in line


def test_a_broker_whose_name_server_is_away_is_ready_and_says_so_once() -> None:
    arguments = ("--listen", "127.0.0.1:0", "--namesrv", "127.0.0.1:1")
    with started("broker", *arguments) as broker:
        assert ready_line(broker)["ready_s"] > 0
        said = broker.stderr.readline().decode()
    assert "the NameServer at 127.0.0.1:1 does not register this broker" in said
    assert "connection refused" in said
    assert "127.0.0.1:1" not in said.replace("at 127.0.0.1:1 ", "", 1)


def test_a_broker_on_a_damaged_store_says_on_stderr_what_is_lost(tmp_path) -> None:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    record = encode_record(
        b"orders",
        b"a message",
        b"",
        queue_id=0,
        queue_offset=0,
        position=0,
        born_ms=1,
        born_host=bytes(8),
        store_ms=1,
        store_host=bytes(8),
    )
    damaged = bytes(4) + record[4:]
    second = encode_record(
        b"orders",
        b"another",
        b"",
        queue_id=0,
        queue_offset=1,
        position=len(record),
        born_ms=1,
        born_host=bytes(8),
        store_ms=1,
        store_host=bytes(8),
    )
    (folder / f"{0:020d}").write_bytes((damaged + second).ljust(4096, b"\0"))
    with started("broker", "--listen", "127.0.0.1:0", "--store", str(tmp_path)) as broker:
        ready_line(broker)
        said = broker.stderr.readline().decode()
    assert "commitlog/00000000000000000000 is damaged at byte 0" in said
    assert "at least 2 messages" in said


def test_a_journal_is_a_file_in_a_folder_unless_a_file_is_named(tmp_path) -> None:
    existing = tmp_path / "facts"
    existing.touch()
    (tmp_path / "folder.jsonl").mkdir()
    for given, file in {
        "": "",
        f"{tmp_path}": f"{tmp_path}/broker-a.jsonl",
        f"{tmp_path}/new": f"{tmp_path}/new/broker-a.jsonl",
        f"{tmp_path}/one.jsonl": f"{tmp_path}/one.jsonl",
        f"{existing}": f"{existing}",
        "/dev/full": "/dev/full",
    }.items():
        assert journal_file(given, "broker-a") == file
