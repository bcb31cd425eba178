"""A streaming query is killed many times, a broker once: the sink has each message once."""

from __future__ import annotations

import pytest

from rocketmq_emulator import ProcessCluster
from tests.support.pipeline.killed_query import KilledQuery
from tests.support.pipeline.source_topics import send_many

MESSAGES = 3_000


@pytest.mark.timeout(1_500)  # seconds; a quiet machine needs a twentieth of it
def test_after_three_kills_and_a_dead_broker_the_sink_has_each_message_once(
    spark_parts, tmp_path
) -> None:
    del spark_parts
    with ProcessCluster(brokers=2, store=str(tmp_path / "store")) as cluster:
        query = KilledQuery(cluster.namesrv, "orders", tmp_path)

        def broker_dies_and_comes_back() -> None:
            cluster.kill("broker-b")
            send_many(cluster.namesrv, "orders", MESSAGES - 2_000, start=2_000)
            cluster.start("broker-b")

        send_many(cluster.namesrv, "orders", 2_000)
        query.killed_when("offsets")
        query.killed_when("rows")
        query.killed_when("commits", meanwhile=broker_dies_and_comes_back)
        assert query.kills == 3
        before = query.batches_done()
        assert query.at_the_end() == {
            "rows": MESSAGES,
            "bodies": MESSAGES,
            "places": MESSAGES,
            "first": "000000",
            "last": f"{MESSAGES - 1:06d}",
            "lost": 0,
        }
        assert 0 < before < query.batches_done(), "the kills did not hit the middle of the read"
