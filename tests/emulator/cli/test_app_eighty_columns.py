"""In a terminal of 80 columns no line is broken by its edge: outputs and errors of commands."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cli.options.errors import folded
from rocketmq_emulator.cluster.fault_values import Answer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from tests.support.cli.command_line import RMQEMU
from tests.support.cli.in_process import commands
from tests.support.terminal import Terminal

WIDTH = 80
LONG = "a-group-whose-name-has-" + "many-" * 8 + "letters"
RULE = ReplyRule(code="GET_CONSUMER_LIST_BY_GROUP", group=LONG, error_code="SYSTEM_ERROR")


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(ClusterSpec(brokers=1), control=0) as running:
        run = commands(NAMESRV_ADDR=running.namesrv)
        run("topic", "create", "orders")
        run("consume", "--topic=orders", f"--group={LONG}", "--from=latest", "--timeout=0.1")
        running.begin_fault(Answer(node="broker-a", rule=RULE))
        yield running


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("status", 0),
        ("fault list", 0),
        ("fault list --words", 0),
        (f"group describe {LONG}", 0),
        ("topic create orders --perm x", 2),
        (f"group reset {LONG} --topic nowhere", 4),
        ("fault add busy --node broker-a --pool sent", 2),
        ("scenario list", 0),
        ("scenario check weather --set mebers=3", 2),  # no path, which may be wider than a line
        ("run a_broker_does_nothing_that_is_known", 2),
    ],
)
def test_no_line_is_broken_by_the_edge_of_a_terminal(cluster, line, code) -> None:
    where = {"NAMESRV_ADDR": cluster.namesrv}
    with Terminal([*RMQEMU, *line.split()], columns=WIDTH, rows=50, env=where) as terminal:
        assert terminal.wait_ended() == code, terminal.text
        assert terminal.wraps == 0, terminal.text


def test_an_error_in_a_pipe_is_one_line() -> None:
    done = commands()("run", "a_broker_does_nothing_that_is_known", code=2)
    (line,) = done.stderr.splitlines()
    assert len(line) > WIDTH


def test_a_line_is_folded_at_words_below_its_beginning() -> None:
    text = "rmqemu: " + "word " * 20 + "\n  " + "x" * 100
    lines = folded(text, WIDTH).splitlines()
    assert [len(line) <= WIDTH for line in lines] == [True, True, False]
    assert lines[1].startswith("    word")
    assert lines[2] == "  " + "x" * 100
    assert folded("short", WIDTH) == "short"
