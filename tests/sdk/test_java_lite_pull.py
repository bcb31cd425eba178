"""The official lite pull consumer gets from our broker what ours got from a real broker.

The answers were recorded by tests/parity; ``STORY_CLUSTER=real`` asks a real broker again.
"""

from __future__ import annotations

import json

import pytest

from tests.sdk.administration import create_topic
from tests.sdk.scenario import Scenario
from tests.sdk.sdk_process import SdkProcess
from tests.support.paths import GOLDEN

pytestmark = pytest.mark.sdk

RECORDED = GOLDEN / "pulls-4.9.7.jsonl"
STORED = 25  # as many as the only queue of the recording had


def recorded(title: str) -> object:
    """A recorded answer as the Java program writes it: messages are shown as their offsets."""
    lines = map(json.loads, RECORDED.read_text().splitlines())
    (answer,) = (line["answer"]["answer"] for line in lines if line["title"] == title)
    if isinstance(answer, list):
        return [offset for offset, _ in answer]
    return "refused" if isinstance(answer, str) else answer


def test_polls_seeks_and_commits_are_those_of_a_real_broker(
    java: SdkProcess, scenario: Scenario
) -> None:
    topic = f"{scenario.topic}-one-queue"
    create_topic(scenario.cluster, topic, queues=1, brokers=1)
    messages = [{**message, "topic": topic} for message in scenario.messages(STORED)]
    scenario.producer(java).send(messages)
    answers = java.invoke("lite story", topic=topic, group=scenario.group)
    assert answers.pop("nothing of a paused queue") == []
    assert len(answers) == 8, "fastjson leaves out the null answer of a seek"
    assert answers == {title: recorded(title) for title in answers}
