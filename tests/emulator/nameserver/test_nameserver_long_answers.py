"""Answers of a NameServer with whole tables are built in slices."""

from __future__ import annotations

import pytest

from rocketmq_emulator.nameserver import request_processors
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.routes import KVTable, TopicList
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.settings.config import NameServerConfig
from tests.support.nameserver.name_servers import RELEASES, NameServerBench, a_peer

TOPICS = [f"t{number:05}" for number in range(request_processors.SLICE_NAMES + 10)]
LISTS = {
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {},
    RequestCode.GET_TOPICS_BY_CLUSTER: {"cluster": "C"},
    RequestCode.GET_UNIT_TOPIC_LIST: {},
}


@pytest.mark.parametrize("code", LISTS)
def test_a_long_list_of_topics_is_told_in_slices(code: int) -> None:
    bench = NameServerBench()
    table = {name: TopicConfig(topic_name=name, topic_sys_flag=1) for name in TOPICS}
    bench.register(a_peer(), serves=table)
    reply = bench.invoke_with(code, **LISTS[code])
    assert reply is not None
    assert bench.slices > 1
    assert decode_unlimited_body(reply.body, TopicList).topic_list == TOPICS


@pytest.mark.parametrize("release", RELEASES)
def test_many_brokers_are_told_in_slices(release: str) -> None:
    bench = NameServerBench(release)
    count = request_processors.SLICE_BROKERS + 10
    for number in range(count):
        bench.register(
            a_peer(), broker=f"b{number}", address=f"10.0.0.1:{number}", cluster=f"c{number}"
        )
    reply = bench.invoke(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert reply is not None
    assert bench.slices > 2
    assert reply.body.count(b'"brokerAddrs":{0:') == count
    assert reply.body.count(b'"c%d":["b%d"]' % (count - 1, count - 1)) == 1


def test_a_key_value_costs_the_same_whatever_else_there_is(monkeypatch) -> None:
    bench = NameServerBench()
    for number in range(200):
        bench.put_kv("n", f"k{number}", "v")
    written: list[str] = []
    plain = type(bench.server.kv_config)

    def counted(text: str) -> bool:
        written.append(text)
        return True

    monkeypatch.setattr(
        "rocketmq_emulator.protocol.java.java_json_writer._needs_no_escape", counted
    )
    bench.put_kv("n", "new", "v")
    assert written == ["n", "new", "v"]
    assert plain(bench.disk, NameServerConfig().kv_entries_max).get("n", "k7") == "v"
    reply = bench.invoke_with(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="n")
    assert reply is not None
    assert len(decode_unlimited_body(reply.body, KVTable).table) == 201


def test_properties_of_megabytes_are_refused_unread() -> None:
    class Unread(bytes):
        def decode(self, *_: str) -> str:
            raise AssertionError("8 MB were made a text, which takes a NameServer 100 ms")

    bench = NameServerBench()
    reply = bench.invoke(RequestCode.UPDATE_NAMESRV_CONFIG, body=Unread(b"a=b\n" * 2_000_000))
    assert reply is not None
    assert (reply.code, reply.remark) == (
        1,
        "8000000 characters of properties: the limit is 65536",
    )
