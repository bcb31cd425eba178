"""Traces that the official clients write to our broker, read as the life of a message."""

from __future__ import annotations

import time

import pytest
import trio

from benchmarks.clusters import Cluster
from rocketmq_emulator.admin.calls import NotFound, admin_over_tcp
from rocketmq_emulator.admin.message_traces import MessageLife, find_life
from tests.sdk.scenario import Scenario
from tests.sdk.sdk_process import SdkProcess

pytestmark = pytest.mark.sdk

TRACES_S_MAX = 30.0
STEPS = ["sent", "consumed", "consumed"]


async def life_now(namesrv: str, msg_id: str) -> MessageLife | None:
    async with admin_over_tcp(namesrv) as admin:
        try:
            return await find_life(admin, msg_id)
        except NotFound:  # the first trace creates the topic
            return None


def life_with_ends(cluster: Cluster, msg_id: str) -> MessageLife:
    """The message's life when all its steps have ended: clients send traces a moment later."""
    deadline = time.monotonic() + TRACES_S_MAX
    while True:
        life = trio.run(life_now, cluster.namesrv, msg_id)
        if life and [step.kind for step in life.steps if step.outcome] == STEPS:
            return life
        assert time.monotonic() < deadline, f"the traces are {life}"
        time.sleep(0.1)


@pytest.mark.parametrize("language", ["java", "go"])
def test_the_traces_of_a_message_are_its_life(
    language: str, scenario: Scenario, request: pytest.FixtureRequest
) -> None:
    process: SdkProcess = request.getfixturevalue(language)
    (message,) = scenario.messages(1, tags="TagA")
    (sent,) = scenario.producer(process, trace=True).send([message])
    consumer = scenario.consumer(process, refuse={message["keys"]: 1}, trace=True)
    consumer.wait_consumed(2)
    life = life_with_ends(scenario.cluster, sent["unique_id"])
    assert (life.topic, life.tags, life.keys) == (scenario.topic, "TagA", message["keys"])
    send, first, second = life.steps
    assert (send.ok, send.body_bytes) == (True, len(message["body"].encode()))
    assert send.group == f"producers-{scenario.topic}"
    assert [(step.ok, step.outcome, step.delivery) for step in (first, second)] == [
        (False, "failed", 1),
        (True, "success", 2),
    ]
    assert {first.group, second.group} == {scenario.group}
