"""Route rules that differ by release, and limits of the tables."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.facts import BrokerRegistered, WritePermChanged
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import (
    ClusterInfo,
    GetBrokerMemberGroupReply,
    QueueData,
    TopicList,
    TopicRouteData,
)
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.fields import fields_of
from tests.support.nameserver.name_servers import (
    RELEASES,
    V1,
    V2,
    NameServerBench,
    a_peer,
    addresses,
    json_of,
    perms,
    topics,
)

each_release = pytest.mark.parametrize("release", RELEASES)
MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
ACTING = {"enableActingMaster": "true"}


def who(address: str = MASTER, broker_id: int = 0, broker: str = "broker-a") -> dict[str, str]:
    return {
        "brokerName": broker,
        "brokerAddr": address,
        "clusterName": "C",
        "brokerId": str(broker_id),
    }


def unregister(bench: NameServerBench, **of) -> int:
    return bench.invoke_with(RequestCode.UNREGISTER_BROKER, **who(**of)).code


def ask_version(bench: NameServerBench, version: DataVersion, now_ms: int = 0):
    body = json_of(version, bench.release)
    return bench.invoke_with(RequestCode.QUERY_DATA_VERSION, None, now_ms, body, **who())


def lists(bench: NameServerBench, code: int, **fields: str) -> list[str]:
    return decode_body(bench.invoke_with(code, **fields).body, TopicList).topic_list


@each_release
def test_the_last_replica_takes_topics_and_cluster_with_it(release) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer(), address=MASTER)
    bench.register(a_peer(), broker_id=1, address=SLAVE)
    before_anybody = NameServerBench(release).tables()
    assert unregister(bench) == 0
    assert addresses(bench.route("T")) == {"broker-a": {1: SLAVE}}
    assert unregister(bench, address=SLAVE, broker_id=1) == 0
    assert bench.tables() == before_anybody
    assert unregister(bench) == 0, "an unknown broker is no error"


@pytest.mark.parametrize(
    ("release", "left"), [("4.9.7", {1: SLAVE}), ("5.0.0", {1: SLAVE}), ("5.3.3", {0: MASTER})]
)
def test_unregistering_goes_by_id_up_to_5_0_and_by_address_from_5_1(release, left) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer(), address=MASTER)
    bench.register(a_peer(), broker_id=1, address=SLAVE)
    unregister(bench, address=SLAVE, broker_id=0)
    assert addresses(bench.route("T")) == {"broker-a": left}


@each_release
def test_a_query_of_versions_answers_whether_to_register(release) -> None:
    bench = NameServerBench(release)
    stranger = ask_version(bench, V1)
    assert (stranger.header.changed, stranger.body) == (True, b"")
    bench.register(a_peer())
    same, other = ask_version(bench, V1), ask_version(bench, V2)
    assert (same.header.changed, other.header.changed) == (False, True)
    assert decode_body(other.body, DataVersion) == V1
    assert (b"stateVersion" in other.body) == (release == "5.3.3")


@pytest.mark.parametrize(("release", "alive"), [("4.9.7", False), ("5.3.3", True)])
def test_a_query_with_a_changed_version_counts_as_heartbeat_only_on_5_x(release, alive) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer(), now_ms=0)
    ask_version(bench, V2, now_ms=100_000)
    bench.server.scan(130_000)
    assert (bench.route("T") is not None) == alive
    bench.register(a_peer(), now_ms=200_000)
    ask_version(bench, V1, now_ms=300_000)
    bench.server.scan(330_000)
    assert bench.route("T") is not None


def test_a_state_that_4_9_does_not_know_makes_no_difference_to_it() -> None:
    moved_on = msgspec.structs.replace(V1, state_version=7)
    for release, changed in (("4.9.7", False), ("5.3.3", True)):
        bench = NameServerBench(release)
        bench.register(a_peer(), version=V1)
        reply = bench.invoke_with(
            RequestCode.QUERY_DATA_VERSION, None, 0, json_of(moved_on, bench.release), **who()
        )
        assert reply.header.changed == changed


def test_r35_a_heartbeat_keeps_a_5_x_broker_alive_and_succeeds_for_unknown_ones() -> None:
    bench = NameServerBench("5.3.3")
    assert bench.invoke_with(RequestCode.BROKER_HEARTBEAT, **who()).code == 0
    bench.register(a_peer(), now_ms=0, heartbeatTimeoutMillis="10000")
    bench.invoke_with(RequestCode.BROKER_HEARTBEAT, None, 9_000, **who())
    assert bench.server.scan(19_000) == []
    assert len(bench.server.scan(19_001)) == 1


def test_r32_topics_come_from_the_master_and_on_5_x_from_a_prime_slave() -> None:
    four, five = NameServerBench("4.9.7"), NameServerBench("5.3.3")
    for bench, served in ((four, False), (five, True)):
        bench.register(a_peer(), broker_id=2, address=SLAVE, **ACTING)
        assert (bench.route("T") is not None) == served
    assert perms(five.route("T")) == {"broker-a": 4}, "an acting master is read-only"
    not_prime = NameServerBench("5.3.3")
    not_prime.register(a_peer(), broker_id=2, address=SLAVE)
    assert not_prime.route("T") is None, "a broker without enableActingMaster is no prime slave"


def test_without_its_master_an_acting_group_loses_w_and_shows_a_master_on_wish() -> None:
    for supports, shown in ((False, {1: SLAVE}), (True, {0: SLAVE})):
        bench, master = NameServerBench("5.3.3", support_acting_master=supports), a_peer()
        bench.register(master, address=MASTER, **ACTING)
        bench.register(a_peer(), broker_id=1, address=SLAVE, **ACTING)
        assert addresses(bench.route("T")) == {"broker-a": {0: MASTER, 1: SLAVE}}
        bench.server.closed(master, 1_000)
        assert perms(bench.route("T")) == {"broker-a": 4}
        assert addresses(bench.route("T")) == {"broker-a": shown}
        assert bench.server.routes.brokers.broker_addr_table["broker-a"].addresses == {1: SLAVE}


def test_an_older_state_does_not_take_an_id_from_a_registered_broker() -> None:
    late = msgspec.structs.replace(V1, state_version=5)
    bench = NameServerBench("5.3.3")
    bench.register(a_peer(), address=MASTER, version=late)
    reply = bench.register(a_peer(), address=OTHER, version=V2)
    assert (reply.code, reply.header.master_addr) == (0, None)
    assert addresses(bench.route("T")) == {"broker-a": {0: MASTER}}
    bench.register(a_peer(), address=OTHER, version=late)
    assert addresses(bench.route("T")) == {"broker-a": {0: OTHER}}, "at equal states the last wins"


def test_5_x_adds_a_topic_it_does_not_know_even_at_the_same_version() -> None:
    for release, known in (("4.9.7", False), ("5.3.3", True)):
        bench, peer = NameServerBench(release), a_peer()
        bench.register(peer, serves=topics("T", "U"))
        bench.register(peer, serves=topics("T", "U", "V"), version=V1)
        assert (bench.route("V") is not None) == known


def test_unlisted_topics_are_removed_only_if_the_setting_is_on() -> None:
    bench, peer = NameServerBench("5.3.3", delete_topic_with_broker_registration=True), a_peer()
    bench.register(peer, serves=topics("T", "U"))
    bench.register(peer, serves=topics("U", "V"), version=V2)
    assert [bench.route(name) is not None for name in "TUV"] == [False, True, True]


def test_r34_the_smallest_id_is_announced_when_it_changes_and_announcing_is_on() -> None:
    bench = NameServerBench("5.3.3", notify_min_broker_id_changed=True)
    master, slave = a_peer(), a_peer()
    bench.register(slave, broker_id=1, address=SLAVE, **ACTING)
    assert bench.notices == [], "a first registration is not announced"
    bench.register(master, address=MASTER, **ACTING)
    bench.server.closed(master, 1_000)
    (came, gone) = bench.notices
    assert came[0] == SLAVE == gone[0]
    assert fields_of(came[1]) == {
        "minBrokerId": "0",
        "minBrokerAddr": MASTER,
        "haBrokerAddr": "10.0.0.1:10912",
    }
    assert fields_of(gone[1]) == {
        "minBrokerId": "1",
        "minBrokerAddr": SLAVE,
        "offlineBrokerAddr": MASTER,
    }


def test_a_client_in_a_zone_sees_its_zone_and_masterless_brokers() -> None:
    bench = NameServerBench("5.3.3")
    bench.register(a_peer(), broker="east", address=MASTER, __ZONE_NAME="East")
    bench.register(a_peer(), broker="west", address=SLAVE, __ZONE_NAME="West")
    zone = {"__ZONE_MODE": "true", "__ZONE_NAME": "EAST"}
    reply = bench.route_reply("T", **zone)
    seen = decode_body(reply.body, TopicRouteData)
    assert list(addresses(seen)) == ["east"]
    assert list(perms(seen)) == ["east"]
    assert len(addresses(bench.route("T"))) == 2, "without a zone all are seen"


@each_release
def test_filter_servers_of_a_broker_are_in_the_route_until_it_names_none(release) -> None:
    bench, peer = NameServerBench(release), a_peer()
    bench.register(peer, filter_servers=("10.0.0.9:1",))
    assert bench.route("T").filter_server_table == {MASTER: ["10.0.0.9:1"]}
    bench.register(peer)
    assert bench.route("T").filter_server_table == {}


@each_release
def test_lists_name_topics_clusters_brokers_and_units(release) -> None:
    bench = NameServerBench(release)
    flags = {**topics("plain"), **topics("unit", flag=1), **topics("sub", flag=2)}
    bench.register(a_peer(), serves={**flags, **topics("both", flag=3)})
    bench.register(a_peer(), broker="broker-b", cluster="D", address=SLAVE)
    everything = ["plain", "unit", "sub", "both", "T", "U"]
    assert lists(bench, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == everything
    assert lists(bench, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="D") == ["T", "U"]
    assert lists(bench, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="nowhere") == []
    assert lists(bench, RequestCode.GET_UNIT_TOPIC_LIST) == ["unit", "both"]
    assert lists(bench, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["sub", "both"]
    assert lists(bench, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]
    reply = bench.invoke(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    system = decode_body(reply.body, TopicList)
    assert system.topic_list == ["C", "broker-a", "D", "broker-b"]
    assert system.broker_addr == MASTER


def test_5_x_refuses_lists_of_topics_where_they_are_switched_off() -> None:
    bench = NameServerBench("5.3.3", enable_all_topic_list=False, enable_topic_list=False)
    for code, fields in ((206, {}), (224, {"cluster": "C"}), (311, {}), (312, {}), (313, {})):
        reply = bench.invoke_with(code, **fields)
        assert (reply.code, reply.remark) == (1, "disable")


@each_release
def test_cluster_info_has_bare_numbers_as_keys_for_every_client(release) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer())
    reply = bench.invoke(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert b'"brokerAddrs":{0:"10.0.0.1:10911"}' in reply.body
    info = decode_body(reply.body, ClusterInfo)
    assert info.cluster_addr_table == {"C": ["broker-a"]}
    assert info.broker_addr_table["broker-a"].broker_addrs == {0: MASTER}


def test_r35_the_member_group_of_a_known_and_an_unknown_broker_name() -> None:
    bench = NameServerBench("5.3.3")
    bench.register(a_peer())
    for broker, expected in (("broker-a", {0: MASTER}), ("nobody", {})):
        reply = bench.invoke_with(901, clusterName="C", brokerName=broker)
        group = decode_body(reply.body, GetBrokerMemberGroupReply).broker_member_group
        assert (group.cluster, group.broker_name, group.broker_addrs) == ("C", broker, expected)


@each_release
def test_a_topic_can_be_deleted_everywhere_or_in_one_cluster(release) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer())
    bench.register(a_peer(), broker="broker-b", cluster="D", address=SLAVE)
    delete = RequestCode.DELETE_TOPIC_IN_NAMESRV
    bench.invoke_with(delete, topic="T", clusterName="C")
    assert list(addresses(bench.route("T"))) == ["broker-b"]
    bench.invoke_with(delete, topic="T", clusterName="nowhere")
    assert bench.route("T") is not None
    assert bench.invoke_with(delete, topic="T").code == 0
    assert bench.route("T") is None
    assert bench.invoke_with(delete, topic="T").code == 0


def test_a_topic_can_be_registered_until_a_queue_names_an_unknown_broker() -> None:
    bench = NameServerBench("5.3.3")
    bench.register(a_peer())
    known = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
    strange = msgspec.structs.replace(known, broker_name="stranger")
    for topic, queues, there in (("V", [known, strange], True), ("W", [strange, known], False)):
        body = json_of(TopicRouteData(queue_datas=queues), bench.release)
        assert bench.invoke_with(217, None, 0, body, topic=topic).code == 0
        assert (bench.route(topic) is not None) == there


def test_full_tables_refuse_new_entries_and_serve_the_others() -> None:
    bench = NameServerBench("4.9.7", brokers_max=1, topics_max=3)
    peer = a_peer()
    bench.register(peer)
    before = bench.tables()
    for refused in (
        {"broker": "broker-b", "address": SLAVE},
        {"cluster": "D"},
        {"broker_id": 1, "address": SLAVE},
        {"serves": topics("T", "U", "V", "W"), "version": V2},
    ):
        assert bench.register(a_peer(), **refused).code == 1
        assert bench.tables() == before
    assert bench.register(peer, serves=topics("T", "U", "V"), version=V2).code == 0


def test_a_5_x_name_server_set_to_wait_refuses_routes_after_its_start() -> None:
    bench = NameServerBench("5.3.3", need_wait_for_service=True)
    bench.register(a_peer())
    early = bench.invoke_with(RequestCode.GET_ROUTEINFO_BY_TOPIC, None, 44_999, topic="T")
    assert (early.code, early.remark) == (1, "name server not ready")
    late = bench.invoke_with(RequestCode.GET_ROUTEINFO_BY_TOPIC, None, 45_000, topic="T")
    assert late.code == 0


def test_registrations_and_switched_permissions_are_noted() -> None:
    bench, peer = NameServerBench(), a_peer()
    bench.register(peer)
    bench.register(peer)
    bench.invoke_with(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    first, again = bench.noted(BrokerRegistered)
    assert (first.first, again.first, first.topic_count) == (True, False, 2)
    assert bench.noted(WritePermChanged) == [WritePermChanged("broker-a", 2, writable=False)]
