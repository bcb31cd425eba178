"""Our pull consumers get the recorded answers from a real broker.

``RECORD=1`` overwrites the recording.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
import trio

from benchmarks.clusters import ROOT, Cluster, ClusterNotUp, running
from rocketmq_emulator.client import ClientProcess, Message, Producer
from tests.parity.pull_steps import RECORDING, Answers, answers_of
from tests.sdk.administration import create_topic
from tests.support.paths import GOLDEN

TOPIC = "orders"


@pytest.mark.parity
@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_our_pull_consumers_get_from_a_real_broker_what_is_recorded(release: str) -> None:
    script = str(ROOT / "benchmarks" / "real_cluster.py")
    command = [sys.executable, script, "--version", release, "--brokers", "1"]
    try:
        with running(command) as cluster:
            answers = trio.run(_answers, cluster, release)
    except ClusterNotUp as error:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {error}")
        pytest.skip(str(error))
    path = GOLDEN / f"{RECORDING}-{release}.jsonl"
    if os.environ.get("RECORD") == "1":
        lines = [json.dumps({"title": t, "answer": a}) + "\n" for t, a in answers.items()]
        path.write_text("".join(lines))
    lines = map(json.loads, path.read_text().splitlines())
    assert answers == {line["title"]: line["answer"] for line in lines}


async def _answers(cluster: Cluster, release: str) -> Answers:
    create_topic(cluster, TOPIC, queues=1, brokers=1)
    async with ClientProcess() as process:
        named = {"namesrv": cluster.namesrv, "release": release}
        async with Producer(process=process, group="first", **named) as producer:
            await producer.send(Message(TOPIC, b"first"))
        return await answers_of(process, cluster.namesrv, release, TOPIC)
