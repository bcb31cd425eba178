"""Edge cases of registrations: the first release of a rule, facts, and replies."""

from __future__ import annotations

from contextlib import nullcontext

import msgspec
import pytest

from rocketmq_emulator.facts import BrokerExpired, BrokerUnregistered
from rocketmq_emulator.nameserver.state.registration import BrokerRegistration
from rocketmq_emulator.nameserver.state.routes import SmallestIdChanged
from rocketmq_emulator.nameserver.state.tables import Replicas
from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.bodies.topics import TopicQueueMappingInfo
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.messages.names import AUTO_CREATE_TOPIC_KEY_TOPIC
from rocketmq_emulator.protocol.requests.nameserver import RegisterBrokerReply
from tests.support.nameserver.name_servers import (
    V1,
    V2,
    NameServerBench,
    a_peer,
    addresses,
    perms,
    topics,
)

MASTER, SLAVE, THIRD = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
ACTING = {"enableActingMaster": "true"}


def unregister(bench: NameServerBench, address: str, broker_id: int, cluster: str = "C") -> None:
    fields = {"brokerName": "broker-a", "brokerAddr": address, "clusterName": cluster}
    reply = bench.invoke_with(RequestCode.UNREGISTER_BROKER, **fields, brokerId=str(broker_id))
    assert reply.code == 0


@pytest.mark.parametrize(("release", "left"), [("5.0.0", {1: SLAVE}), ("5.1.0", {0: MASTER})])
def test_from_5_1_0_on_an_address_is_unregistered_whatever_its_id(release, left) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer(), address=MASTER)
    bench.register(a_peer(), broker_id=1, address=SLAVE)
    unregister(bench, SLAVE, 0)
    assert addresses(bench.route("T")) == {"broker-a": left}


@pytest.mark.parametrize(("release", "known"), [("4.9.8", 1), ("5.0.0", 2)])
def test_from_5_0_0_on_one_address_in_two_clusters_is_two_brokers(release, known) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer())
    bench.register(a_peer(), broker="broker-b", cluster="D")
    assert len(bench.server.routes.live.broker_live_table) == known


@pytest.mark.parametrize("release", ["4.9.8", "5.0.0"])
def test_from_5_0_0_on_a_new_broker_with_one_topic_is_refused(release) -> None:
    bench = NameServerBench(release)
    reply = bench.register(a_peer(), serves=topics("T"))
    if release == "4.9.8":
        assert reply.code == 0
    else:
        assert (reply.code, reply.remark) == (1, "register broker failed")
        assert reply.header == RegisterBrokerReply()
    assert (bench.route("T") is not None) is (release == "4.9.8")
    assert bench.register(a_peer(), broker="broker-b", serves={}).code == 0, "no topics: accepted"


@pytest.mark.parametrize(("release", "holder"), [("4.9.8", THIRD), ("5.0.0", MASTER)])
def test_from_5_0_0_on_an_older_state_does_not_take_an_id(release, holder) -> None:
    bench = NameServerBench(release)
    late = msgspec.structs.replace(V1, state_version=5)
    bench.register(a_peer(), address=MASTER, version=late)
    bench.register(a_peer(), broker="broker-b", address=THIRD)
    bench.register(a_peer(), address=THIRD, version=V2)
    assert addresses(bench.route("T"))["broker-a"] == {0: holder}
    # An ignored broker is not live either: its next registration is that of a new one.
    alive = [key.address for key in bench.server.routes.live.broker_live_table]
    assert (THIRD in alive) is (release == "4.9.8")


def test_the_same_broker_may_register_with_an_older_state() -> None:
    bench, peer = NameServerBench("5.3.3"), a_peer()
    bench.register(peer, version=msgspec.structs.replace(V1, state_version=5))
    bench.register(peer, serves=topics("T", "V"), version=V2)
    assert bench.route("V") is not None


@pytest.mark.parametrize(("release", "known"), [("4.9.8", False), ("5.0.0", True)])
def test_from_5_0_0_on_a_missing_topic_is_taken_though_the_version_is_known(
    release, known
) -> None:
    bench, peer = NameServerBench(release), a_peer()
    bench.register(peer)
    bench.register(peer, serves=topics("T", "U", "V"), version=V1)
    assert (bench.route("V") is not None) is known


def test_a_known_topic_is_overwritten_only_with_a_new_version() -> None:
    bench, peer = NameServerBench("5.3.3"), a_peer()
    bench.register(peer)
    for version, perm in ((V1, 6), (V2, 4)):
        bench.register(peer, serves=topics("T", "U", perm=4), version=version)
        assert perms(bench.route("T")) == {"broker-a": perm}


def test_a_queue_of_a_route_has_all_that_its_broker_said_of_it() -> None:
    bench = NameServerBench("5.3.3")
    config = msgspec.structs.replace(
        topics("T", flag=3)["T"], read_queue_nums=5, write_queue_nums=2, perm=4
    )
    bench.register(a_peer(), serves={"T": config, **topics("U")})
    route = bench.route("T")
    assert route is not None
    (queue,) = route.queue_datas
    assert (queue.read_queue_nums, queue.write_queue_nums, queue.perm) == (5, 2, 4)
    assert queue.topic_sys_flag == 3


def test_only_a_slave_that_acts_loses_w_in_what_it_registers() -> None:
    for broker_id, acting, perm in ((0, ACTING, 6), (2, ACTING, 4)):
        bench = NameServerBench("5.3.3")
        bench.register(a_peer(), broker_id=broker_id, **acting)
        assert perms(bench.route("T")) == {"broker-a": perm}
    bench = NameServerBench("5.3.3")
    bench.register(a_peer(), broker_id=2, enableActingMaster="false")
    assert perms(bench.route("T")) == {"broker-a": 6}


def test_a_slave_that_is_not_the_first_of_its_name_brings_no_topics() -> None:
    bench = NameServerBench("5.3.3")
    bench.register(a_peer(), broker_id=1, address=SLAVE, **ACTING)
    bench.register(a_peer(), broker_id=2, address=THIRD, serves=topics("V", "W"), **ACTING)
    assert bench.route("V") is None


def test_a_topic_of_a_static_kind_is_not_removed_because_it_is_unlisted() -> None:
    for setting, left in ((False, True), (True, False)):
        bench = NameServerBench("5.3.3", delete_topic_with_broker_registration=setting)
        bench.register(a_peer(), broker="broker-b", address=SLAVE)
        peer = a_peer()
        bench.register(peer)
        bench.register(peer, serves=topics("U", "V"), version=V2)
        route = bench.route("T")
        assert set(perms(route)) == ({"broker-a", "broker-b"} if left else {"broker-b"})


def test_static_topics_have_the_limit_of_topics() -> None:
    bench = NameServerBench("5.3.3", topics_max=1)
    for mapped, fits in ((("A",), True), (("A", "B"), False)):
        given = BrokerRegistration(
            cluster="C",
            broker="broker-a",
            broker_id=0,
            address=MASTER,
            ha_address=MASTER,
            mappings={name: TopicQueueMappingInfo() for name in mapped},
        )
        with nullcontext() if fits else pytest.raises(Refusal, match="no room for 1 more topics"):
            bench.server.routes.register(given, a_peer(), 0)


def test_a_slave_is_answered_the_addresses_of_its_living_master() -> None:
    bench, master = NameServerBench("4.9.7"), a_peer()
    seen = bench.register(a_peer(), broker_id=1, address=SLAVE).header
    assert (seen.master_addr, seen.ha_server_addr) == (None, None)
    seen = bench.register(master, address=MASTER).header
    assert (seen.master_addr, seen.ha_server_addr) == (None, None)
    seen = bench.register(a_peer(), broker_id=1, address=SLAVE).header
    assert (seen.master_addr, seen.ha_server_addr) == (MASTER, "10.0.0.1:10912")


def test_facts_say_who_left_and_how() -> None:
    bench, peer = NameServerBench("5.3.3"), a_peer()
    bench.register(peer, address=MASTER)
    bench.register(a_peer(), broker_id=1, address=SLAVE)
    unregister(bench, SLAVE, 1)
    bench.server.closed(peer, 5)
    assert bench.noted(BrokerUnregistered) == [
        BrokerUnregistered("broker-a", 1, SLAVE, "asked"),
        BrokerUnregistered("broker-a", 0, MASTER, "channel closed"),
    ]


def test_who_expires_is_closed_and_its_silence_is_told() -> None:
    bench = NameServerBench("5.3.3", broker_silence_ms_max=60_000)
    silent, loud = a_peer(), a_peer()
    bench.register(silent, now_ms=10, address=MASTER)
    bench.register(loud, now_ms=50, broker="broker-b", address=SLAVE)
    assert bench.server.scan(60_010) == []
    assert bench.server.scan(60_030) == [silent]
    assert bench.noted(BrokerExpired) == [BrokerExpired("broker-a", MASTER, 60_020)]
    assert set(perms(bench.route("T"))) == {"broker-b"}


def test_a_broker_may_say_how_long_its_silence_may_be() -> None:
    bench, peer = NameServerBench("5.3.3"), a_peer()
    bench.register(peer, heartbeatTimeoutMillis="0")
    assert bench.server.scan(1) == [peer], "0 ms allow no silence"


def test_the_loss_of_a_slave_changes_no_permission_and_is_not_announced() -> None:
    bench = NameServerBench("5.3.3", notify_min_broker_id_changed=True)
    slave = a_peer()
    bench.register(a_peer(), address=MASTER, **ACTING)
    bench.register(slave, broker_id=1, address=SLAVE, **ACTING)
    bench.server.closed(slave, 1)
    assert perms(bench.route("T")) == {"broker-a": 6}
    assert bench.notices == []


def test_who_registers_again_with_the_smallest_id_is_not_announced() -> None:
    bench, master = NameServerBench("5.3.3", notify_min_broker_id_changed=True), a_peer()
    bench.register(a_peer(), broker_id=1, address=SLAVE, **ACTING)
    bench.register(master, address=MASTER, **ACTING)
    assert len(bench.notices) == 1
    bench.register(master, address=MASTER, **ACTING)
    assert len(bench.notices) == 1


def test_without_acting_the_loss_of_a_master_is_not_announced() -> None:
    bench = NameServerBench("5.3.3", notify_min_broker_id_changed=True)
    master = a_peer()
    bench.register(master, address=MASTER)
    bench.register(a_peer(), broker_id=1, address=SLAVE)
    bench.server.closed(master, 1)
    assert (perms(bench.route("T")), bench.notices) == ({"broker-a": 6}, [])


def test_all_replicas_learn_who_left_and_the_others_who_came() -> None:
    three = Replicas("C", "broker-a", {0: MASTER, 1: SLAVE, 2: THIRD})
    assert SmallestIdChanged(three).addresses_to_notify() == [SLAVE, THIRD]
    gone = SmallestIdChanged(three, gone_address="10.0.0.9:10911")
    assert gone.addresses_to_notify() == [MASTER, SLAVE, THIRD]
    alone = Replicas("C", "broker-a", {1: SLAVE})
    assert SmallestIdChanged(alone).addresses_to_notify() == [SLAVE]


def test_a_topic_that_may_be_inherited_from_loses_that_with_the_return_of_w() -> None:
    bench = NameServerBench()
    bench.register(a_peer(), serves=topics(AUTO_CREATE_TOPIC_KEY_TOPIC, perm=7))
    for code, perm in (
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, 5),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, 6),
    ):
        bench.invoke_with(code, brokerName="broker-a")
        assert perms(bench.route(AUTO_CREATE_TOPIC_KEY_TOPIC)) == {"broker-a": perm}


def test_a_broker_that_leaves_by_its_connection_leaves_its_own_cluster() -> None:
    for release in ("4.9.7", "5.3.3"):
        bench, peer = NameServerBench(release), a_peer()
        bench.register(peer)
        bench.register(a_peer(), broker="broker-b", cluster="D", address=SLAVE)
        bench.server.closed(peer, 1)
        assert list(bench.server.routes.brokers.cluster_addr_table) == ["D"]
        assert set(perms(bench.route("T"))) == {"broker-b"}
