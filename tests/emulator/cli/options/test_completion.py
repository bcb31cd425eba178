"""What a shell completes: names of the cluster and of scenarios, soon, and never an error."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace

import pytest
import typer

from rocketmq_emulator.cli.app import application
from rocketmq_emulator.cli.options.completion import (
    WAIT_S_MAX,
    complete_group,
    complete_node,
    complete_scenario,
    complete_topic,
    within_time,
)
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder
from rocketmq_emulator.settings.releases import KNOWN_RELEASES
from tests.support.cli.in_process import commands


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(control=0) as running:
        yield running


@pytest.fixture(scope="module")
def context(cluster):
    control = cluster.control.removeprefix("http://")
    return SimpleNamespace(params={"control": control, "namesrv": cluster.namesrv})


NOWHERE = SimpleNamespace(params={"control": "127.0.0.1:1", "namesrv": "127.0.0.1:1"})


def completed(monkeypatch, capsys, line: str) -> list[str]:
    """What bash is given for *line*, whose last word is completed."""
    words = line.split(" ")
    monkeypatch.setenv("_RMQEMU_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit):
        typer.main.get_command(application(words[1])).main(
            [], prog_name="rmqemu", standalone_mode=False
        )
    return capsys.readouterr().out.split()


def test_nodes_are_completed_also_after_another_one(context) -> None:
    assert complete_node(context, "") == ["broker-a", "broker-b", "namesrv"]
    assert complete_node(context, "n") == ["namesrv"]
    assert complete_node(context, "broker-a+br") == ["broker-a+broker-a", "broker-a+broker-b"]


def test_topics_and_groups_of_all_brokers_are_completed(cluster, context) -> None:
    run = commands(NAMESRV_ADDR=cluster.namesrv)
    run("topic", "create", "orders")
    run("consume", "--topic=orders", "--group=billing", "--from=latest", "--timeout=0.1")
    assert complete_topic(context, "or") == ["orders"]
    assert complete_group(context, "") == ["billing"]


def test_the_cluster_s_names_follow_the_address_on_the_line(cluster, monkeypatch, capsys) -> None:
    line = f"rmqemu kill --control {cluster.control} broker-"
    assert completed(monkeypatch, capsys, line) == ["broker-a", "broker-b"]


def test_scenarios_are_those_of_the_library_and_files_of_this_folder(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.toml").touch()
    (tmp_path / "mine.py").touch()
    (tmp_path / "mine.txt").touch()
    listed = {each.name for each in in_folder(LIBRARY)}
    assert listed <= {*complete_scenario(NOWHERE, "")}
    (tmp_path / "own.py").write_text("@scenario\nasync def hangs(run):\n    pass\n")
    assert complete_scenario(NOWHERE, "own.py:") == ["own.py:hangs"]
    assert complete_scenario(NOWHERE, "mi") == ["mine.py", "mine/"]
    assert complete_scenario(NOWHERE, "mine/") == ["mine/a.toml"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rmqemu run broker_d", ["broker_dies"]),
        ("rmqemu run x --world e", ["embedded"]),
        ("rmqemu up --release 5.3", [each for each in KNOWN_RELEASES if each[:3] == "5.3"]),
        ("rmqemu fault add slow_link --distribution p", ["pareto"]),
        ("rmqemu topic create x --perm r", ["r", "rw"]),
        ("rmqemu scenario show x --as t", ["timeline", "toml"]),
        ("rmqemu fault add clock", ["clock_jump", "clock_drift"]),
    ],
)
def test_choices_are_completed(monkeypatch, capsys, line, words) -> None:
    assert completed(monkeypatch, capsys, line) == words


def test_a_server_that_never_answers_is_left_soon_and_gives_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        context = SimpleNamespace(params={"control": where, "namesrv": where})
        began_s = time.monotonic()
        assert complete_node(context, "") == []
        assert complete_topic(context, "") == []
    assert time.monotonic() - began_s < 2 * WAIT_S_MAX + 5


def test_no_error_reaches_the_shell() -> None:
    def look(ctx, incomplete):
        raise RuntimeError("a bug")

    threads = threading.active_count()
    assert within_time(look)(NOWHERE, "") == []
    assert complete_node(NOWHERE, "") == complete_group(NOWHERE, "") == []
    assert complete_node(SimpleNamespace(params={}), "")[:0] == []
    assert threading.active_count() <= threads + 1
