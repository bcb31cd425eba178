"""A reset NameServer keeps its live brokers, and forgets topics, keys and settings."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import NameServerReset
from rocketmq_emulator.net.results import Refusal
from tests.support.nameserver.name_servers import RELEASES, NameServerBench, a_peer


@pytest.mark.parametrize("release", RELEASES)
def test_a_reset_forgets_topics_keys_and_settings_and_no_broker(release) -> None:
    bench = NameServerBench(release)
    fresh = NameServerBench(release)
    server = bench.server
    bench.register(a_peer())
    assert server.routes.topics.topic_queue_table
    server.kv_config.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")
    server.settings.set_listen_address("127.0.0.1:4711")
    server.settings.update({"orderMessageEnable": "true", "serverWorkerThreads": "99"})
    server.settings.update({"listenPort": "1", "bindAddress": "10.0.0.1"})
    server.reset(1_000_000)
    assert server.routes.topics.topic_queue_table == {}
    assert server.routes.topics.topic_queue_mapping_table == {}
    assert server.kv_config.of("ORDER_TOPIC_CONFIG") is None
    changed = {"listenPort": "4711", "bindAddress": "127.0.0.1"}
    assert server.settings.properties() == fresh.server.settings.properties() | changed
    assert server.routes.expire(1_000_001) == []
    assert [live.broker for live in server.routes.live.broker_live_table.values()] == ["broker-a"]
    assert isinstance(bench.facts[-1], NameServerReset)
    again = NameServerBench(release, bench.disk)
    assert again.server.kv_config.of("ORDER_TOPIC_CONFIG") is None


def test_a_reset_makes_room_again_for_keys() -> None:
    bench = NameServerBench(kv_entries_max=1)
    kv = bench.server.kv_config
    kv.put("n", "one", "1")
    with pytest.raises(Refusal):
        kv.put("n", "two", "2")
    bench.server.reset(0)
    kv.put("n", "two", "2")
