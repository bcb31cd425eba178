"""The official clients under ``rmqemu judge``: the rules they break, as far as servers see it.

A judge watches the cluster while a client sends messages back, shares queues with a member
that starts and stops, and consumes in order.  With ``JUDGE_S=75`` it watches for longer: the
members are then stable, and passes, heartbeats and locks are repeated.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.clusters import Cluster
from tests.sdk.scenario import Scenario
from tests.sdk.sdk_process import SdkProcess

pytestmark = pytest.mark.sdk

JUDGE_S = float(os.environ.get("JUDGE_S", "2"))
END_S_MAX = 30.0
LANGUAGES = {"java": "JAVA", "go": "GO"}
# Go 2.1.2, consumer/push_consumer.go: SuspendTimeoutMillis: 20 * time.Second; Java has 15 s.
BROKEN = {"java": set(), "go": {"held_pulls"}}


class AJudge:
    """A process of ``rmqemu judge``; it gets the facts of every node once this is constructed."""

    def __init__(self, cluster: Cluster) -> None:
        command = [
            sys.executable,
            "-m",
            "rocketmq_emulator.cli",
            "judge",
            "--namesrv",
            cluster.namesrv,
        ]
        self._process = subprocess.Popen(
            [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert line.startswith("judging the clients"), line

    def verdict(self) -> dict[str, Any]:
        """End the judge as Ctrl-C does; return its verdict."""
        self._process.send_signal(signal.SIGINT)
        output, _ = self._process.communicate(timeout=END_S_MAX)
        found: dict[str, Any] = json.loads(output)
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def a_judge(cluster: Cluster) -> Iterator[AJudge]:
    if os.environ.get("STORY_CLUSTER", "ours") != "ours":
        pytest.skip("a real RocketMQ notes no facts")
    judge = AJudge(cluster)
    yield judge
    judge.stop()


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_official_client_breaks_no_rules_but_those_known(
    a_judge: AJudge, scenario: Scenario, language: str, request: pytest.FixtureRequest
) -> None:
    process: SdkProcess = request.getfixturevalue(language)
    refused = scenario.messages(1)[0]["keys"]
    one = scenario.consumer(process, "one", refuse={refused: 0})
    other_group = {"group": f"{scenario.group}-in-order", "orderly": True}
    in_order = scenario.consumer(process, "in order", **other_group)
    producer = scenario.producer(process)
    one.wait_assigned(8)
    producer.send(scenario.messages(24))
    one.wait_consumed(24)
    two = scenario.consumer(process, "two")
    two.wait_assigned(4)
    time.sleep(JUDGE_S)
    producer.send(scenario.messages(24, start=24))
    in_order.wait_consumed(48)
    two.stop()
    one.stop()
    in_order.stop()
    verdict = a_judge.verdict()
    ours = [c for c in verdict["clients"] if scenario.group in str(c["groups"])]
    assert {client["language"] for client in ours} == {LANGUAGES[language]}
    broken = [rule for rule in verdict["broken"] if rule["client"] in {c["client"] for c in ours}]
    assert {rule["monitor"] for rule in broken} == BROKEN[language], broken
    expected = {"pulls_go_on", "given_back_before_committed", "locked_pulls", "members_unregister"}
    assert expected <= set(verdict["judged"])
