"""Any request is answered or refused; a refused one changes nothing."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import EXTENSION_CODES
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from tests.support.nameserver.name_servers import RELEASES, NameServerBench, a_peer, topics

BROKER = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "C",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
    "topic": "T",
    "namespace": "N",
    "key": "k",
    "value": "v",
    "cluster": "C",
}
KEYS = (
    *BROKER,
    "bodyCrc32",
    "compressed",
    "acceptStandardJsonOnly",
    "heartbeatTimeoutMillis",
    "enableActingMaster",
    "__ZONE_MODE",
    "__ZONE_NAME",
)
VALUES = st.one_of(
    st.text(max_size=8), st.integers(-(2**65), 2**65).map(str), st.sampled_from(["true", "0", ""])
)
RAW_VALUES = st.one_of(VALUES, st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats())
ANY_FIELDS = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), RAW_VALUES, max_size=8),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4).map(lambda some: BROKER | some),
)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["topicConfigSerializeWrapper", "topicConfigTable", "dataVersion", "T", "perm"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
BODIES = st.one_of(
    st.just(b""),
    st.binary(max_size=40),
    JSONS.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40).map(zlib.compress),
)
CODES = [
    rpc.code
    for rpc in catalog.CALLS
    if "nameserver" in rpc.answered_by and rpc.code not in EXTENSION_CODES
]


def ext_text(fields: dict) -> bytes:
    return json.dumps(fields).encode()


@settings(max_examples=400, deadline=None)
@given(
    release=st.sampled_from(RELEASES),
    code=st.sampled_from(CODES),
    fields=ANY_FIELDS,
    body=BODIES,
    version=st.sampled_from([0, 1, 36, 121, 407, 479, 2**31 - 1]),
)
def test_whatever_is_asked_is_answered_or_refused(release, code, fields, body, version) -> None:
    bench = NameServerBench(release, brokers_max=3, topics_max=8, kv_entries_max=4)
    bench.register(a_peer())
    before = bench.tables()
    command = RemotingCommand(code=code, version=version, body=body)
    command.ext = ext_of(None, {}) if not fields else type(command.ext)(ext_text(fields))
    reply = bench.take(command)
    assert (reply is None) == (code not in bench.handlers)
    if reply is not None and reply.code not in (0, 22):
        assert bench.tables() == before or reply.remark == "register broker failed"
    if reply is not None and reply.header is not None:
        ext_of(reply.header)


@settings(max_examples=60, deadline=None)
@given(
    release=st.sampled_from(RELEASES),
    registrations=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 9), st.booleans()),
        max_size=40,
    ),
)
def test_no_number_of_brokers_outgrows_the_limits(release, registrations) -> None:
    bench = NameServerBench(release, brokers_max=3, topics_max=5)
    for name, broker_id, topic, single in registrations:
        names = [f"T{topic}"] if single else [f"T{topic}", f"T{topic + 1}"]
        bench.register(
            a_peer(),
            broker=f"b{name}",
            broker_id=broker_id,
            cluster=f"C{name}",
            address=f"10.0.{name}.{broker_id}:10911",
            serves=topics(*names),
        )
    routes = bench.server.routes
    assert len(routes.brokers.broker_addr_table) <= 3
    assert len(routes.brokers.cluster_addr_table) <= 3
    assert len(routes.live.broker_live_table) <= 3
    assert len(routes.topics.topic_queue_table) <= 5


@pytest.mark.parametrize("release", RELEASES)
@given(
    events=st.lists(
        st.tuples(st.sampled_from(["register", "close", "unregister"]), st.integers(0, 3)),
        max_size=30,
    )
)
@settings(max_examples=60, deadline=None)
def test_tables_agree_with_each_other_after_any_story(release, events) -> None:
    bench = NameServerBench(release)
    peers = {number: a_peer() for number in range(4)}
    for what, number in events:
        broker = {"broker": f"b{number // 2}", "broker_id": number % 2}
        address = f"10.0.0.{number}:10911"
        if what == "register":
            bench.register(peers[number], address=address, **broker)
        elif what == "close":
            bench.server.closed(peers[number], 0)
        else:
            fields = {
                "brokerName": broker["broker"],
                "brokerId": str(broker["broker_id"]),
                "brokerAddr": address,
                "clusterName": "C",
            }
            assert bench.invoke_with(104, **fields) == Reply()
    routes = bench.server.routes
    living = {(live.broker, live.broker_id) for live in routes.live.broker_live_table.values()}
    known = routes.brokers.broker_addr_table
    assert living == {(name, number) for name in known for number in known[name].addresses}
    serving = {name for queues in routes.topics.topic_queue_table.values() for name in queues}
    assert serving <= set(known) == set(routes.brokers.in_cluster("C"))
