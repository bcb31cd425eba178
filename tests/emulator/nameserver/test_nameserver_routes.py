"""The rules that differ by release, and the corners of the tables."""

from __future__ import annotations

import msgspec
import pytest
from name_servers import RELEASES, V1, V2, World, a_peer, addresses, json_of, perms, topics

from emulator.facts import BrokerRegistered, WritePermChanged
from protocol.bodies.body import decode_body
from protocol.bodies.routes import (
    ClusterInfo,
    GetBrokerMemberGroupReply,
    QueueData,
    TopicList,
    TopicRouteData,
)
from protocol.bodies.topics import DataVersion
from protocol.codes import RequestCode
from protocol.fields import fields_of

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


def unregister(world: World, **of) -> int:
    return world.ask_with(RequestCode.UNREGISTER_BROKER, **who(**of)).code


def ask_version(world: World, version: DataVersion, now_ms: int = 0):
    body = json_of(version, world.release)
    return world.ask_with(RequestCode.QUERY_DATA_VERSION, None, now_ms, body, **who())


def lists(world: World, code: int, **fields: str) -> list[str]:
    return decode_body(world.ask_with(code, **fields).body, TopicList).topic_list


@each_release
def test_the_last_replica_takes_topics_and_cluster_with_it(release) -> None:
    world = World(release)
    world.register(a_peer(), address=MASTER)
    world.register(a_peer(), broker_id=1, address=SLAVE)
    before_anybody = World(release).tables()
    assert unregister(world) == 0
    assert addresses(world.route("T")) == {"broker-a": {1: SLAVE}}
    assert unregister(world, address=SLAVE, broker_id=1) == 0
    assert world.tables() == before_anybody
    assert unregister(world) == 0, "unregistering a stranger is no error"


@pytest.mark.parametrize(
    ("release", "left"), [("4.9.7", {1: SLAVE}), ("5.0.0", {1: SLAVE}), ("5.3.3", {0: MASTER})]
)
def test_unregistering_goes_by_id_up_to_5_0_and_by_address_from_5_1(release, left) -> None:
    world = World(release)
    world.register(a_peer(), address=MASTER)
    world.register(a_peer(), broker_id=1, address=SLAVE)
    unregister(world, address=SLAVE, broker_id=0)
    assert addresses(world.route("T")) == {"broker-a": left}


@each_release
def test_a_query_of_versions_tells_whether_to_register(release) -> None:
    world = World(release)
    stranger = ask_version(world, V1)
    assert (stranger.header.changed, stranger.body) == (True, b"")
    world.register(a_peer())
    same, other = ask_version(world, V1), ask_version(world, V2)
    assert (same.header.changed, other.header.changed) == (False, True)
    assert decode_body(other.body, DataVersion) == V1
    assert (b"stateVersion" in other.body) == (release == "5.3.3")


@pytest.mark.parametrize(("release", "alive"), [("4.9.7", False), ("5.3.3", True)])
def test_a_query_with_a_changed_version_counts_as_heartbeat_only_on_5_x(release, alive) -> None:
    world = World(release)
    world.register(a_peer(), now_ms=0)
    ask_version(world, V2, now_ms=100_000)
    world.server.scan(130_000)
    assert (world.route("T") is not None) == alive
    world.register(a_peer(), now_ms=200_000)
    ask_version(world, V1, now_ms=300_000)
    world.server.scan(330_000)
    assert world.route("T") is not None


def test_a_state_that_4_9_does_not_know_makes_no_difference_to_it() -> None:
    moved_on = msgspec.structs.replace(V1, state_version=7)
    for release, changed in (("4.9.7", False), ("5.3.3", True)):
        world = World(release)
        world.register(a_peer(), version=V1)
        reply = world.ask_with(
            RequestCode.QUERY_DATA_VERSION, None, 0, json_of(moved_on, world.release), **who()
        )
        assert reply.header.changed == changed


def test_a_heartbeat_keeps_a_5_x_broker_alive_and_succeeds_for_unknown_ones() -> None:
    world = World("5.3.3")
    assert world.ask_with(RequestCode.BROKER_HEARTBEAT, **who()).code == 0
    world.register(a_peer(), now_ms=0, heartbeatTimeoutMillis="10000")
    world.ask_with(RequestCode.BROKER_HEARTBEAT, None, 9_000, **who())
    assert world.server.scan(19_000) == []
    assert len(world.server.scan(19_001)) == 1


def test_topics_come_from_the_master_and_on_5_x_from_a_prime_slave() -> None:
    four, five = World("4.9.7"), World("5.3.3")
    for world, served in ((four, False), (five, True)):
        world.register(a_peer(), broker_id=2, address=SLAVE, **ACTING)
        assert (world.route("T") is not None) == served
    assert perms(five.route("T")) == {"broker-a": 4}, "who may act as master only reads"
    not_prime = World("5.3.3")
    not_prime.register(a_peer(), broker_id=2, address=SLAVE)
    assert not_prime.route("T") is None, "a broker too old to say enableActingMaster is no prime"


def test_without_its_master_an_acting_group_loses_w_and_shows_a_master_on_wish() -> None:
    for supports, shown in ((False, {1: SLAVE}), (True, {0: SLAVE})):
        world, master = World("5.3.3", support_acting_master=supports), a_peer()
        world.register(master, address=MASTER, **ACTING)
        world.register(a_peer(), broker_id=1, address=SLAVE, **ACTING)
        assert addresses(world.route("T")) == {"broker-a": {0: MASTER, 1: SLAVE}}
        world.server.closed(master, 1_000)
        assert perms(world.route("T")) == {"broker-a": 4}
        assert addresses(world.route("T")) == {"broker-a": shown}
        assert world.server.routes.brokers.broker_addr_table["broker-a"].addresses == {1: SLAVE}


def test_an_older_state_does_not_take_an_id_from_a_living_holder() -> None:
    late = msgspec.structs.replace(V1, state_version=5)
    world = World("5.3.3")
    world.register(a_peer(), address=MASTER, version=late)
    reply = world.register(a_peer(), address=OTHER, version=V2)
    assert (reply.code, reply.header.master_addr) == (0, None)
    assert addresses(world.route("T")) == {"broker-a": {0: MASTER}}
    world.register(a_peer(), address=OTHER, version=late)
    assert addresses(world.route("T")) == {"broker-a": {0: OTHER}}, "otherwise the last one wins"


def test_5_x_adds_a_topic_it_does_not_know_even_at_the_same_version() -> None:
    for release, known in (("4.9.7", False), ("5.3.3", True)):
        world, peer = World(release), a_peer()
        world.register(peer, serves=topics("T", "U"))
        world.register(peer, serves=topics("T", "U", "V"), version=V1)
        assert (world.route("V") is not None) == known


def test_unlisted_topics_are_removed_only_if_the_setting_is_on() -> None:
    world, peer = World("5.3.3", delete_topic_with_broker_registration=True), a_peer()
    world.register(peer, serves=topics("T", "U"))
    world.register(peer, serves=topics("U", "V"), version=V2)
    assert [world.route(name) is not None for name in "TUV"] == [False, True, True]


def test_the_smallest_id_is_announced_when_it_changes_and_announcing_is_on() -> None:
    world = World("5.3.3", notify_min_broker_id_changed=True)
    master, slave = a_peer(), a_peer()
    world.register(slave, broker_id=1, address=SLAVE, **ACTING)
    assert world.pushed == [], "a first registration changes nothing"
    world.register(master, address=MASTER, **ACTING)
    world.server.closed(master, 1_000)
    (came, gone) = world.pushed
    assert came[:2] == (slave, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE) == gone[:2]
    assert fields_of(came[2]) == {
        "minBrokerId": "0",
        "brokerName": "broker-a",
        "minBrokerAddr": MASTER,
        "haBrokerAddr": "10.0.0.1:10912",
    }
    assert fields_of(gone[2]) == {
        "minBrokerId": "1",
        "brokerName": "broker-a",
        "minBrokerAddr": SLAVE,
        "offlineBrokerAddr": MASTER,
    }


def test_a_client_in_a_zone_sees_its_zone_and_masterless_brokers() -> None:
    world = World("5.3.3")
    world.register(a_peer(), broker="east", address=MASTER, __ZONE_NAME="East")
    world.register(a_peer(), broker="west", address=SLAVE, __ZONE_NAME="West")
    zone = {"__ZONE_MODE": "true", "__ZONE_NAME": "EAST"}
    reply = world.route_reply("T", **zone)
    seen = decode_body(reply.body, TopicRouteData)
    assert list(addresses(seen)) == ["east"]
    assert list(perms(seen)) == ["east"]
    assert len(addresses(world.route("T"))) == 2, "others see all of it"


@each_release
def test_filter_servers_of_a_broker_are_in_the_route_until_it_names_none(release) -> None:
    world, peer = World(release), a_peer()
    world.register(peer, filter_servers=("10.0.0.9:1",))
    assert world.route("T").filter_server_table == {MASTER: ["10.0.0.9:1"]}
    world.register(peer)
    assert world.route("T").filter_server_table == {}


@each_release
def test_lists_name_topics_clusters_brokers_and_units(release) -> None:
    world = World(release)
    flags = {**topics("plain"), **topics("unit", flag=1), **topics("sub", flag=2)}
    world.register(a_peer(), serves={**flags, **topics("both", flag=3)})
    world.register(a_peer(), broker="broker-b", cluster="D", address=SLAVE)
    everything = ["plain", "unit", "sub", "both", "T", "U"]
    assert lists(world, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == everything
    assert lists(world, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="D") == ["T", "U"]
    assert lists(world, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="nowhere") == []
    assert lists(world, RequestCode.GET_UNIT_TOPIC_LIST) == ["unit", "both"]
    assert lists(world, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["sub", "both"]
    assert lists(world, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]
    reply = world.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    system = decode_body(reply.body, TopicList)
    assert system.topic_list == ["C", "broker-a", "D", "broker-b"]
    assert system.broker_addr == MASTER


def test_5_x_refuses_lists_of_topics_where_they_are_switched_off() -> None:
    world = World("5.3.3", enable_all_topic_list=False, enable_topic_list=False)
    for code, fields in ((206, {}), (224, {"cluster": "C"}), (311, {}), (312, {}), (313, {})):
        reply = world.ask_with(code, **fields)
        assert (reply.code, reply.remark) == (1, "disable")


@each_release
def test_cluster_info_has_bare_numbers_as_keys_whoever_asks(release) -> None:
    world = World(release)
    world.register(a_peer())
    reply = world.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert b'"brokerAddrs":{0:"10.0.0.1:10911"}' in reply.body
    info = decode_body(reply.body, ClusterInfo)
    assert info.cluster_addr_table == {"C": ["broker-a"]}
    assert info.broker_addr_table["broker-a"].broker_addrs == {0: MASTER}


def test_the_member_group_of_a_broker_name_or_of_nobody() -> None:
    world = World("5.3.3")
    world.register(a_peer())
    for broker, expected in (("broker-a", {0: MASTER}), ("nobody", {})):
        reply = world.ask_with(901, clusterName="C", brokerName=broker)
        group = decode_body(reply.body, GetBrokerMemberGroupReply).broker_member_group
        assert (group.cluster, group.broker_name, group.broker_addrs) == ("C", broker, expected)


@each_release
def test_a_topic_can_be_deleted_everywhere_or_in_one_cluster(release) -> None:
    world = World(release)
    world.register(a_peer())
    world.register(a_peer(), broker="broker-b", cluster="D", address=SLAVE)
    delete = RequestCode.DELETE_TOPIC_IN_NAMESRV
    world.ask_with(delete, topic="T", clusterName="C")
    assert list(addresses(world.route("T"))) == ["broker-b"]
    world.ask_with(delete, topic="T", clusterName="nowhere")
    assert world.route("T") is not None
    assert world.ask_with(delete, topic="T").code == 0
    assert world.route("T") is None
    assert world.ask_with(delete, topic="T").code == 0


def test_a_topic_can_be_registered_until_a_queue_names_a_stranger() -> None:
    world = World("5.3.3")
    world.register(a_peer())
    known = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
    strange = msgspec.structs.replace(known, broker_name="stranger")
    for topic, queues, there in (("V", [known, strange], True), ("W", [strange, known], False)):
        body = json_of(TopicRouteData(queue_datas=queues), world.release)
        assert world.ask_with(217, None, 0, body, topic=topic).code == 0
        assert (world.route(topic) is not None) == there


def test_full_tables_refuse_newcomers_and_serve_the_others() -> None:
    world = World("4.9.7", brokers_max=1, topics_max=3)
    peer = a_peer()
    world.register(peer)
    before = world.tables()
    for refused in (
        {"broker": "broker-b", "address": SLAVE},
        {"cluster": "D"},
        {"broker_id": 1, "address": SLAVE},
        {"serves": topics("T", "U", "V", "W"), "version": V2},
    ):
        assert world.register(a_peer(), **refused).code == 1
        assert world.tables() == before
    assert world.register(peer, serves=topics("T", "U", "V"), version=V2).code == 0


def test_a_5_x_name_server_set_to_wait_refuses_routes_after_its_start() -> None:
    world = World("5.3.3", need_wait_for_service=True)
    world.register(a_peer())
    early = world.ask_with(RequestCode.GET_ROUTEINFO_BY_TOPIC, None, 44_999, topic="T")
    assert (early.code, early.remark) == (1, "name server not ready")
    late = world.ask_with(RequestCode.GET_ROUTEINFO_BY_TOPIC, None, 45_000, topic="T")
    assert late.code == 0


def test_registrations_and_switched_permissions_are_noted() -> None:
    world, peer = World(), a_peer()
    world.register(peer)
    world.register(peer)
    world.ask_with(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    first, again = world.noted(BrokerRegistered)
    assert (first.first, again.first, first.topic_count) == (True, False, 2)
    assert world.noted(WritePermChanged) == [WritePermChanged("broker-a", 2, writable=False)]
