"""Bodies as real brokers write them, and as real clients read them."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.nameserver.request_processors import ClientRequestProcessor
from rocketmq_emulator.net.results import Call
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import TopicRouteData
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.requests.nameserver import GetRouteInfoRequest
from tests.support import golden_data
from tests.support.nameserver.name_servers import (
    RELEASES,
    V1,
    V2,
    NameServerBench,
    a_peer,
    addresses,
    table_of,
    topics,
)

each_release = pytest.mark.parametrize("release", RELEASES)
LINES = {"4.9.7": "4.9", "5.3.3": "5.3"}
WHO = {
    "brokerName": "b",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "C",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
}


def golden(kind: str) -> list:
    return [
        pytest.param(release, case, id=f"{release}-{case['id']}")
        for release, line in LINES.items()
        for case in golden_data.cases("bodies.jsonl", kind, line)
    ]


@pytest.mark.parametrize(("release", "case"), golden("body_RegisterBrokerBody"))
@pytest.mark.parametrize("compressed", [False, True])
def test_what_a_real_broker_registers_is_in_the_tables(release, case, compressed) -> None:
    out = case["out"]
    body = bytes.fromhex(out["compressed"]) if compressed else out["json"].encode()
    crc = str(out["compressed_crc32" if compressed else "json_crc32"])
    bench = NameServerBench(release)
    # 5.x compresses the body, but sends compressed=false.
    fields = {**WHO, "bodyCrc32": crc, "compressed": "false"}
    reply = bench.invoke_with(RequestCode.REGISTER_BROKER, a_peer(), 0, body, **fields)
    wrapper = case["in"]["fields"]["topicConfigSerializeWrapper"]
    configs = dict(wrapper["topicConfigTable"]["map"])
    table = bench.server.routes.topics.topic_queue_table
    torn_apart = compressed and any(" " in topic for topic in configs)
    lonely = release == "5.3.3" and len(configs) == 1
    if torn_apart or lonely:
        assert (reply.code, table) == (1, {})
        return
    assert reply.code == 0
    assert set(table) == set(configs)
    for topic, config in configs.items():
        queue = table[topic]["b"]
        flag = 0 if compressed else config["topicSysFlag"]  # the compressed form omits it
        assert (queue.read_queue_nums, queue.write_queue_nums) == (
            config["readQueueNums"],
            config["writeQueueNums"],
        )
        assert (queue.perm, queue.topic_sys_flag) == (config["perm"], flag)


@pytest.mark.parametrize(("release", "case"), golden("body_TopicRouteData"))
def test_routes_are_written_as_the_real_one_writes_them_in_both_forms(release, case) -> None:
    route = decode_body(case["out"]["json"].encode(), TopicRouteData)
    server = NameServerBench(release).server
    processor = ClientRequestProcessor(server)
    for version, accepts, form in (
        (server.release.version, None, "standard_json"),
        (121, True, "standard_json"),
        (121, None, "json"),
    ):
        request = GetRouteInfoRequest(topic="T", accept_standard_json_only=accepts)
        call = Call(RemotingCommand(code=105, version=version), request, a_peer(), 0)
        assert processor.encode(call, route).decode() == case["out"][form]


def test_a_client_that_has_no_version_gets_the_shape_of_4_9() -> None:
    bench = NameServerBench("5.3.3")
    bench.register(a_peer())
    fields = ext_of(None, {"topic": "T"})
    bodies = {v: bench.invoke(105, version=v, ext=fields).body.decode() for v in (1, 121, 479)}
    assert "enableActingMaster" not in bodies[1]
    assert '{0:"10.0.0.1:10911"}' in bodies[1]
    assert '{0:"10.0.0.1:10911"}' in bodies[121]
    assert '"enableActingMaster":false' in bodies[121]
    assert json.loads(bodies[479])["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.1:10911"}
    assert " " not in bodies[479], "some clients split the text at commas"


def test_old_releases_write_old_routes() -> None:
    bench = NameServerBench("4.7.0")
    bench.register(a_peer())
    body = bench.invoke(105, version=479, ext=ext_of(None, {"topic": "T"})).body
    assert b'{0:"10.0.0.1:10911"}' in body
    assert b'"topicSynFlag":0' in body
    assert b"topicSysFlag" not in body


@each_release
def test_a_registration_without_a_body_is_an_empty_table(release) -> None:
    bench = NameServerBench(release)
    assert bench.invoke_with(RequestCode.REGISTER_BROKER, a_peer(), **WHO).code == 0
    assert bench.server.routes.topics.topic_queue_table == {}
    assert list(bench.server.routes.brokers.broker_addr_table) == ["b"]


@each_release
def test_a_very_old_broker_sends_its_topics_alone(release) -> None:
    bench = NameServerBench(release)
    config = {"topicName": "T", "readQueueNums": 1, "writeQueueNums": 2, "perm": 6}
    table = {"T": config, "U": {**config, "topicName": "U"}}
    body = json.dumps({"topicConfigTable": table, "dataVersion": {"counter": 1, "timestamp": 1}})
    reply = bench.invoke(
        RequestCode.REGISTER_BROKER,
        a_peer(),
        version=36,
        body=body.encode(),
        ext=ext_of(None, WHO),
    )
    assert reply.code == 0
    assert bench.route("T").queue_datas[0].write_queue_nums == 2


@each_release
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"\x78\xda\x00", zlib.compress(b"\x7f\xff\xff\xff")]
)
def test_a_body_that_is_none_is_refused_and_changes_nothing(release, body) -> None:
    bench = NameServerBench(release)
    before = bench.tables()
    assert bench.invoke_with(RequestCode.REGISTER_BROKER, a_peer(), 0, body, **WHO).code == 1
    assert bench.tables() == before


@each_release
def test_a_registration_is_answered_with_the_ordered_topics(release) -> None:
    bench = NameServerBench(release)
    assert bench.register(a_peer()).body == b""
    bench.put_kv("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    assert table_of(bench.register(a_peer())) == {"T": "broker-a:4"}
    silent = NameServerBench(release, return_order_topic_config_to_broker=False)
    silent.put_kv("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    assert silent.register(a_peer()).body == b""


@each_release
@given(order=st.permutations(range(4)))
def test_the_last_registration_of_each_broker_is_what_counts(release, order) -> None:
    bench = NameServerBench(release)
    peers = [a_peer() for _ in range(4)]
    for version in (V1, V2):
        for number in order:
            bench.register(
                peers[number],
                broker=f"b{number}",
                address=f"10.0.0.{number}:10911",
                serves=topics("T", "U", queues=number + version.counter),
                version=version,
            )
    route = bench.route("T")
    assert len(addresses(route)) == 4
    assert {q.broker_name: q.read_queue_nums for q in route.queue_datas} == {
        f"b{number}": number + 2 for number in range(4)
    }
