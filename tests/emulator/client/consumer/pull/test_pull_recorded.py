"""Our pull consumers get the same from our broker as from a real one (tests/parity)."""

from __future__ import annotations

import json

import pytest

from tests.parity.pull_steps import RECORDING, answers_of
from tests.support.client.whole_cluster import in_cluster
from tests.support.paths import GOLDEN


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_pulls_polls_and_offsets_are_those_of_a_real_broker(release) -> None:
    async def main(cluster):
        async with cluster.process() as process:
            return await answers_of(process, cluster.namesrv, release, "orders")

    answers = json.loads(json.dumps(in_cluster(main, release=release, orders=1)))
    lines = (GOLDEN / f"{RECORDING}-{release}.jsonl").read_text().splitlines()
    recorded = {line["title"]: line["answer"] for line in map(json.loads, lines)}
    assert answers.keys() == recorded.keys()
    different = {t: (recorded[t], a) for t, a in answers.items() if a != recorded[t]}
    assert different == {}
