"""What holds in a cluster, as ``status`` and the live view show it."""

from __future__ import annotations

import json

import pytest
import trio

from rocketmq_emulator.cli.screens.held_changes import rule_text
from rocketmq_emulator.cli.screens.live import ClusterWatch
from rocketmq_emulator.cluster.fault_values import Answer, ClockJump
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from tests.support.cli.in_process import commands

BUSY = ReplyRule(code="SEND_MESSAGE_V2", topic="orders", error_code="SYSTEM_BUSY", count=5)


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(ClusterSpec(brokers=1), control=0) as running:
        yield running


@pytest.fixture
def disturbed(cluster):
    cluster.begin_fault(ClockJump(node="broker-a", ms=500), 60_000)
    cluster.set_reply_rule("broker-a", BUSY)
    yield cluster
    cluster.end_faults()
    cluster.remove_reply_rule("broker-a")


def test_status_shows_faults_and_reply_rules_only_while_they_hold(cluster, disturbed) -> None:
    run = commands(NAMESRV_ADDR=cluster.namesrv)
    text = run("status").stdout
    assert "SEND_MESSAGE_V2 topic=orders: SYSTEM_BUSY" in text
    assert "clock_jump ms=500" in text
    held = json.loads(run("status", "--json").stdout)["holds"]
    assert [(each["name"], each["nodes"]) for each in held] == [
        ("fault 1", ["broker-a"]),
        ("rule 1", ["broker-a"]),
    ]
    assert held[1]["left"] == "5 times"
    cluster.end_faults()
    cluster.remove_reply_rule("broker-a")
    assert "holds" not in run("status").stdout


async def test_the_live_view_learns_of_them(disturbed) -> None:
    watch = ClusterWatch(disturbed)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        with trio.fail_after(60):
            while not watch.held:  # noqa: ASYNC110  # it is read in a thread
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert [each.effect for each in watch.held] == ["clock_jump ms=500", rule_text(BUSY)]


def test_the_rule_of_a_fault_is_shown_once(cluster) -> None:
    run = commands(NAMESRV_ADDR=cluster.namesrv)
    with cluster.under(Answer(node="broker-a", rule=BUSY)):
        (held,) = json.loads(run("status", "--json").stdout)["holds"]
    assert held["effect"] == f"answer {rule_text(BUSY)}, 5 times"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (ReplyRule(delay_ms=700), "any request: 700 ms late"),
        (
            ReplyRule(code="HEART_BEAT", probability=0.5, cut_connection=True),
            "HEART_BEAT 50% of them: its connection is closed",
        ),
        (
            ReplyRule(code=11, group="g", delay_ms=5, no_answer=True),
            "PULL_MESSAGE group=g: 5 ms late, no answer",
        ),
        (ReplyRule(error_code=4711), "any request: 4711"),
    ],
)
def test_a_rule_is_told_by_names(rule, text) -> None:
    assert rule_text(rule) == text
