"""The numbered invariants of the NameServer."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import BrokerExpired, BrokerUnregistered
from rocketmq_emulator.protocol.codes import RequestCode
from tests.support.nameserver.name_servers import (
    RELEASES,
    V1,
    V2,
    NameServerBench,
    a_peer,
    addresses,
    perms,
    topics,
)

each_release = pytest.mark.parametrize("release", RELEASES)
MASTER, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"
WIPE, ADD = RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER


@each_release
def test_invariant_01_the_route_of_an_unregistered_topic_is_17_without_a_body(release) -> None:
    reply = NameServerBench(release).route_reply("nobody")
    assert (reply.code, reply.body) == (17, b"")
    assert reply.remark.startswith(
        "No topic route info in name server for the topic: nobody\nSee "
    )


@each_release
def test_invariant_02_a_registered_topic_is_in_the_very_next_route(release) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer(), address=MASTER)
    route = bench.route("T")
    assert addresses(route) == {"broker-a": {0: MASTER}}
    assert [(q.read_queue_nums, q.write_queue_nums, q.perm) for q in route.queue_datas] == [
        (4, 4, 6)
    ]


@each_release
def test_invariant_03_the_end_of_its_connection_removes_a_broker_at_once(release) -> None:
    bench, old, new = NameServerBench(release), a_peer(), a_peer()
    bench.register(old, now_ms=0)
    bench.register(new, now_ms=30_000)
    bench.server.closed(old, 31_000)
    assert bench.route("T") is not None, "an older connection may close"
    bench.server.closed(new, 32_000)
    assert bench.route("T") is None
    assert [fact.reason for fact in bench.noted(BrokerUnregistered)] == ["channel closed"]


@pytest.mark.parametrize(("release", "at_most_ms"), [("4.9.7", 130_000), ("5.3.3", 125_000)])
def test_invariant_04_a_silent_broker_is_gone_after_its_time_and_one_scan(
    release, at_most_ms
) -> None:
    bench, peer = NameServerBench(release), a_peer()
    bench.register(peer, now_ms=0)
    closed_at = {}
    for now_ms in range(5_000, 200_000, bench.server.scan_interval_ms):
        for silent in bench.server.scan(now_ms):
            closed_at[silent] = now_ms
        assert (bench.route("T") is None) == (peer in closed_at)
    assert 120_000 < closed_at[peer] <= at_most_ms
    (fact,) = bench.noted(BrokerExpired)
    assert fact == BrokerExpired("broker-a", MASTER, closed_at[peer])


def test_scans_are_every_10_seconds_on_4_9_and_every_5_on_5_x_from_the_fifth_on() -> None:
    four, five = NameServerBench("4.9.7").server, NameServerBench("5.3.3").server
    assert (four.settings.config.scan_first_ms, four.scan_interval_ms) == (5_000, 10_000)
    assert (five.settings.config.scan_first_ms, five.scan_interval_ms) == (5_000, 5_000)


@each_release
def test_invariant_05_the_loss_of_the_master_leaves_the_queues_as_they_were(release) -> None:
    bench, master, slave = NameServerBench(release), a_peer(), a_peer()
    bench.register(master, address=MASTER)
    bench.register(slave, broker_id=1, address=SLAVE)
    bench.server.closed(master, 1_000)
    route = bench.route("T")
    assert addresses(route) == {"broker-a": {1: SLAVE}}
    assert perms(route) == {"broker-a": 6}


@each_release
def test_invariant_06_only_a_slave_is_answered_its_living_master(release) -> None:
    bench, master, slave = NameServerBench(release), a_peer(), a_peer()
    alone = bench.register(slave, broker_id=1, address=SLAVE).header
    of_master = bench.register(master, address=MASTER).header
    of_slave = bench.register(slave, broker_id=1, address=SLAVE).header
    bench.server.closed(master, 1_000)
    orphaned = bench.register(slave, broker_id=1, address=SLAVE).header
    assert (of_slave.master_addr, of_slave.ha_server_addr) == (MASTER, "10.0.0.1:10912")
    for nothing in (alone, of_master, orphaned):
        assert (nothing.master_addr, nothing.ha_server_addr) == (None, None)


@each_release
def test_invariant_07_a_promoted_slave_keeps_only_id_0(release) -> None:
    bench, peer = NameServerBench(release), a_peer()
    bench.register(a_peer(), address=MASTER)
    bench.register(peer, broker_id=1, address=SLAVE)
    bench.register(peer, broker_id=0, address=SLAVE, version=V2)
    assert addresses(bench.route("T")) == {"broker-a": {0: SLAVE}}


@each_release
def test_invariant_08_an_unchanged_version_does_not_bring_back_a_wiped_w(release) -> None:
    bench, peer = NameServerBench(release), a_peer()
    bench.register(peer)
    bench.invoke_with(WIPE, brokerName="broker-a")
    bench.register(peer, version=V1)
    assert perms(bench.route("T")) == {"broker-a": 4}
    bench.register(peer, version=V2)
    assert perms(bench.route("T")) == {"broker-a": 6}


@each_release
def test_invariant_09_wipe_and_add_count_topics_and_set_4_and_exactly_6(release) -> None:
    bench = NameServerBench(release)
    bench.register(a_peer(), serves={**topics("T", "U"), **topics("TBW102", perm=7)})
    bench.register(a_peer(), broker="broker-b", address=SLAVE)
    wiped = bench.invoke_with(WIPE, brokerName="broker-a").header
    assert wiped.wipe_topic_count == 3
    assert perms(bench.route("T")) == {"broker-a": 4, "broker-b": 6}
    assert perms(bench.route("TBW102")) == {"broker-a": 5}
    assert bench.invoke_with(ADD, brokerName="broker-a").header.add_topic_count == 3
    assert perms(bench.route("T")) == {"broker-a": 6, "broker-b": 6}
    assert perms(bench.route("TBW102")) == {"broker-a": 6}
    assert bench.invoke_with(WIPE, brokerName="stranger").header.wipe_topic_count == 0


@each_release
def test_invariant_10_a_registration_that_omits_a_topic_does_not_remove_it(release) -> None:
    bench, peer = NameServerBench(release), a_peer()
    bench.register(peer, serves=topics("T", "U"))
    bench.register(peer, serves=topics("U", "V"), version=V2)
    assert [bench.route(name) is not None for name in "TUV"] == [True, True, True]


@pytest.mark.parametrize(("release", "code"), [("4.9.7", 0), ("5.3.3", 1)])
def test_invariant_11_an_unknown_broker_with_a_single_topic_is_refused_by_5_x(
    release, code
) -> None:
    bench = NameServerBench(release)
    assert bench.register(a_peer(), serves=topics("T")).code == code
    assert (bench.route("T") is None) == bool(code)
    assert bench.register(a_peer(), serves=topics("T", "U")).code == 0
    assert bench.register(a_peer(), serves=topics("V"), version=V2).code == 0
    assert bench.route("V") is not None


@each_release
def test_invariant_12_the_order_config_shows_only_where_it_is_switched_on(release) -> None:
    for enabled, shown in ((False, None), (True, "broker-a:4")):
        bench = NameServerBench(release, order_message_enable=enabled)
        bench.register(a_peer())
        bench.put_kv("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
        assert bench.route("T").order_topic_conf == shown
        assert bench.route("U").order_topic_conf is None


@each_release
def test_invariant_13_a_wrong_checksum_changes_nothing(release) -> None:
    bench = NameServerBench(release)
    before = bench.tables()
    reply = bench.register(a_peer(), bodyCrc32="12345")
    assert (reply.code, reply.remark) == (1, "crc32 not match")
    assert bench.tables() == before
    assert bench.register(a_peer(), crc=False).code == 0, "0 means no checksum"


@each_release
def test_invariant_14_key_values_survive_a_restart_and_routes_do_not(release) -> None:
    bench = NameServerBench(release)
    get = {"namespace": "N", "key": "k"}
    missing = bench.invoke_with(RequestCode.GET_KV_CONFIG, **get)
    assert (missing.code, missing.remark) == (22, "No config item, Namespace: N Key: k")
    bench.register(a_peer())
    bench.put_kv("N", "k", "值")
    again = bench.restarted()
    assert again.invoke_with(RequestCode.GET_KV_CONFIG, **get).header.value == "值"
    assert again.route("T") is None


def test_invariant_15_an_unknown_code_is_not_answered_on_4_9_and_answered_3_on_5_x() -> None:
    for code in (9_999, RequestCode.SEND_MESSAGE_V2):
        assert NameServerBench("4.9.7").invoke(code) is None
        assert NameServerBench("5.3.3").invoke(code).code == 3
    assert NameServerBench("4.9.7").server.unknown_is_silent
    assert not NameServerBench("5.3.3").server.unknown_is_silent


@pytest.mark.parametrize("code", [217, 901, 904])
def test_what_came_with_5_x_is_unknown_to_4_9(code) -> None:
    assert code not in NameServerBench("4.9.7").handlers
    assert code in NameServerBench("5.3.3").handlers
