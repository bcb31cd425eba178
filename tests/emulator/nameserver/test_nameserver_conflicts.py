"""Brokers that claim one place in the route: the last registration has it, and both live on.

Upstream: RouteInfoManager.registerBroker, which compares nothing but the state versions (5.x).
"""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import BrokerRegistered
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import ClusterInfo
from rocketmq_emulator.protocol.codes import RequestCode
from tests.support.nameserver.name_servers import (
    RELEASES,
    NameServerBench,
    a_peer,
    addresses,
    topics,
)

each_release = pytest.mark.parametrize("release", RELEASES)
ONE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911"


@each_release
@pytest.mark.parametrize("broker_id", [0, 1])
def test_of_two_brokers_with_one_name_and_id_the_route_has_the_last_that_registered(
    release: str, broker_id: int
) -> None:
    bench, peers = NameServerBench(release), {ONE: a_peer(), OTHER: a_peer()}
    if broker_id:
        bench.register(a_peer(), address="10.0.0.9:10911")
    for address in (ONE, OTHER, ONE, OTHER):
        assert bench.register(peers[address], broker_id=broker_id, address=address).code == 0
        assert addresses(bench.route("T"))["broker-a"][broker_id] == address
    noted = [fact for fact in bench.noted(BrokerRegistered) if fact.broker_id == broker_id]
    assert [fact.address for fact in noted] == [ONE, OTHER, ONE, OTHER]


@each_release
def test_when_the_other_one_leaves_the_route_keeps_the_last_that_registered(release: str) -> None:
    bench, one, other = NameServerBench(release), a_peer(), a_peer()
    bench.register(one, address=ONE)
    bench.register(other, address=OTHER)
    bench.server.closed(one, 1_000)
    assert addresses(bench.route("T")) == {"broker-a": {0: OTHER}}
    bench.server.closed(other, 2_000)
    assert bench.route("T") is None


@each_release
def test_topics_of_two_masters_with_one_name_are_those_of_both(release: str) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer(), address=ONE, serves=topics("T", "U"))
    bench.register(a_peer(), address=OTHER, serves=topics("U", "V"))
    assert [bench.route(name) is not None for name in "TUV"] == [True, True, True]


@pytest.mark.parametrize(("release", "master"), [("4.9.7", ONE), ("5.3.3", None)])
def test_a_slave_with_another_clusters_name_joins_its_broker_name_but_5_x_names_no_master(
    release: str, master: str | None
) -> None:
    """Upstream: since 5.0 living brokers are known by the cluster and the address."""
    bench, peer = NameServerBench(release), a_peer()
    bench.register(a_peer(), address=ONE)
    reply = bench.register(peer, broker_id=1, address=OTHER, cluster="foreign")
    assert reply.header.master_addr == master
    route = bench.route("T")
    assert addresses(route) == {"broker-a": {0: ONE, 1: OTHER}}
    assert [broker.cluster for broker in route.broker_datas] == ["C"]
    info = bench.invoke(RequestCode.GET_BROKER_CLUSTER_INFO)
    listed = decode_body(info.body, ClusterInfo).cluster_addr_table
    assert listed == {"C": ["broker-a"], "foreign": ["broker-a"]}
    bench.server.closed(peer, 1_000)
    assert addresses(bench.route("T")) == {"broker-a": {0: ONE}}
