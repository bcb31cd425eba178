"""The numbered invariants of the controller, R41 to R49, those of one controller alone."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    BrokerIdApplied,
    ElectionFailed,
    MasterElected,
    ReplicaGone,
    SyncStateSetChanged,
)
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.controller import ElectMasterBody, SyncStateSet
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.requests.controller import NotifyBrokerRoleChangedRequest
from rocketmq_emulator.settings.setting_rules import SettingRefused
from tests.support.controller.controllers import SET, ControllerBench, a_peer, a_set, address_of


def test_r41_the_next_id_is_1_and_then_one_more_than_was_granted() -> None:
    bench = ControllerBench()
    assert bench.next_id() == 1
    assert [bench.apply(number).code for number in (1, 2)] == [0, 0]
    assert bench.next_id() == 3
    assert [fact.broker_id for fact in bench.noted(BrokerIdApplied)] == [1, 2]


def test_r41_an_id_is_granted_again_to_the_same_check_code_only() -> None:
    bench = ControllerBench()
    assert bench.apply(1, "10.0.0.1:10911;1").code == 0
    assert bench.apply(1, "10.0.0.1:10911;1").code == 0
    refused = bench.apply(1, "10.0.0.2:10911;1")
    assert (refused.code, refused.header.broker_name) == (2014, SET)
    assert refused.remark == "Fail to apply brokerId: 1 in broker-set: broker-a"
    assert bench.next_id() == 2, "the second grant was the same id"


def test_r42_an_unknown_name_begins_with_id_1() -> None:
    refused = ControllerBench().apply(2)
    assert refused.code == 2014
    assert "but broker try to apply brokerId: 2" in refused.remark


def test_r42_an_unknown_name_or_id_must_apply_before_it_registers() -> None:
    bench = ControllerBench()
    assert bench.register(1).code == 2010
    bench.apply(1)
    assert bench.register(1).code == 0
    assert bench.register(2).code == 2010


def test_r42_the_replicas_of_an_unknown_name_do_not_exist() -> None:
    reply = ControllerBench().invoke(RequestCode.CONTROLLER_GET_REPLICA_INFO, brokerName="x")
    assert (reply.code, reply.remark) == (2008, "Broker metadata is not existed")


def test_r43_the_first_asking_broker_of_a_fresh_set_is_its_first_master() -> None:
    bench = ControllerBench()
    bench.apply(1)
    bench.apply(2)
    reply = bench.elect(2)
    body = decode_body(reply.body, ElectMasterBody)
    assert (reply.code, reply.header.master_broker_id) == (0, 2)
    assert reply.header.master_address == address_of(2)
    assert (reply.header.master_epoch, reply.header.sync_state_set_epoch) == (1, 1)
    assert body.sync_state_set == [2]
    assert body.broker_member_group.broker_addrs == {1: address_of(1), 2: address_of(2)}
    assert bench.replica_info() == (2, 1, [2], 1)
    assert bench.noted(MasterElected) == [MasterElected(SET, 2, 1, 1)]


@pytest.mark.parametrize("asking", [1, 2])
def test_r44_a_living_master_stays_and_is_named(asking) -> None:
    bench = a_set(1, 2, in_sync=(1, 2))
    reply = bench.elect(asking)
    assert (reply.code, reply.header.master_broker_id) == (2011, 1)
    assert (reply.header.master_epoch, reply.header.sync_state_set_epoch) == (1, 2)
    assert decode_body(reply.body, ElectMasterBody).sync_state_set == [1, 2]
    assert bench.replica_info() == (1, 1, [1, 2], 2)
    assert not bench.pushed


def test_r45_a_closed_master_is_replaced_from_the_set_at_once() -> None:
    bench = a_set(1, 2, in_sync=(1, 2))
    bench.close(1)
    assert bench.replica_info() == (2, 2, [2], 3)
    ((address, header, body),) = bench.pushed
    assert address == address_of(2)
    assert header == NotifyBrokerRoleChangedRequest(
        master_broker_id=2,
        master_address=address_of(2),
        master_epoch=2,
        sync_state_set_epoch=3,
    )
    assert decode_body(body, SyncStateSet) == SyncStateSet(
        sync_state_set=[2], sync_state_set_epoch=3
    )
    assert [fact.reason for fact in bench.noted(ReplicaGone)] == ["channel closed"]


def test_r45_a_master_alone_in_its_set_leaves_no_master_and_three_epochs() -> None:
    bench = a_set(1, 2)
    bench.close(1)
    assert bench.replica_info() == (None, 4, [1], 1)
    assert not bench.pushed
    assert [fact.master_epoch for fact in bench.noted(ElectionFailed)] == [2, 3, 4]
    assert bench.elect(2).code == 2012, "id 2 may miss messages"
    bench.run_to(30_000, beating=(2,))
    assert bench.replica_info() == (None, 4, [1], 1), "nothing tries again by itself"


def test_r45_the_member_of_the_set_is_master_again_when_it_is_back() -> None:
    bench = a_set(1, 2)
    bench.close(1)
    bench.heartbeat(1)
    assert bench.elect(1).code == 0
    assert bench.replica_info() == (1, 5, [1], 2)


def test_r45_an_unclean_election_takes_a_broker_outside_of_the_set() -> None:
    bench = a_set(1, 2, elect_unclean_master=True)
    bench.close(1)
    assert bench.replica_info() == (2, 2, [2], 2)


def test_r46_a_silent_master_is_replaced_after_its_timeout_and_one_scan() -> None:
    bench = a_set(1, 2, in_sync=(1, 2))
    bench.run_to(10_000, beating=(2,))
    assert bench.replica_info()[0] == 1
    bench.run_to(15_000, beating=(2,))
    assert bench.replica_info() == (2, 2, [2], 3)
    assert [fact.reason for fact in bench.noted(ReplicaGone)] == ["silent"]


def test_a_release_without_jraft_refuses_such_a_controller() -> None:
    with pytest.raises(SettingRefused, match=r"jRaft needs the release 5\.2\.0 or a later one"):
        a_set(1, controller_type="jRaft", release="5.1.4")


def test_the_largest_end_that_a_broker_reported_counts_although_its_log_was_truncated() -> None:
    """DefaultBrokerHeartbeatManager.onBrokerHeartbeat."""
    bench = a_set(1, 2, 3, in_sync=(1, 2, 3))
    bench.heartbeat(2, maxOffset=2_000)
    bench.heartbeat(2, maxOffset=500)
    bench.heartbeat(3, maxOffset=1_000)
    bench.close(1)
    assert bench.replica_info()[0] == 2


def test_a_controller_of_jraft_notices_closed_connections_only() -> None:
    bench = a_set(1, 2, in_sync=(1, 2), controller_type="jRaft")
    bench.run_to(60_000, beating=(2,))
    assert bench.replica_info()[0] == 1, "it is silent for a minute"
    bench.close(1)
    assert bench.replica_info()[0] == 2


def test_r46_the_connection_of_a_silent_broker_is_closed() -> None:
    bench = a_set(1, 2)
    silent = bench.peers[2]
    bench.run_to(10_000, beating=(1,))
    assert bench.controller.scan_brokers(10_001) == [silent]


def test_r47_each_wrong_report_of_a_sync_state_set_has_its_own_code() -> None:
    bench = a_set(1, 2, 3, in_sync=(1, 2))
    bench.close(3)
    right = {"master": 1, "epoch": 1, "set_epoch": 2}
    for wrong, ids, code in (
        ({"epoch": 9}, [1], 2000),
        ({"set_epoch": 9}, [1], 2001),
        ({"master": 2}, [1], 2002),
        ({}, [1, 9], 2003),
        ({}, [1, 3], 2006),
        ({}, [2, 1], 2013),
        ({}, [2], 2013),
        ({"name": "unknown"}, [1], 2013),
        ({"master": 2, "epoch": 9}, [1], 2002),
        ({"epoch": 9, "set_epoch": 9}, [1], 2000),
        ({"master": 2, "epoch": 9, "set_epoch": 9}, [1, 2], 2013),
    ):
        reply = bench.alter(ids, **(right | wrong))
        assert (reply.code, reply.header.new_sync_state_set_epoch) == (code, 0), (wrong, ids)
    assert bench.replica_info() == (1, 1, [1, 2], 2), "nothing has changed"


def test_r47_a_right_report_is_the_new_set() -> None:
    bench = a_set(1, 2)
    reply = bench.alter([2, 1])
    assert (reply.code, reply.header.new_sync_state_set_epoch) == (0, 2)
    assert decode_body(reply.body, SyncStateSet) == SyncStateSet(
        sync_state_set=[1, 2], sync_state_set_epoch=2
    )
    assert bench.noted(SyncStateSetChanged) == [SyncStateSetChanged(SET, (1, 2), 2)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_registered_broker_learns_the_living_master_and_the_set(number) -> None:
    bench = a_set(1, 2, in_sync=(1, 2))
    reply = bench.register(number)
    assert (reply.header.master_broker_id, reply.header.master_address) == (1, address_of(1))
    assert decode_body(reply.body, SyncStateSet).sync_state_set == [1, 2]
    bench.now_ms = 10_001
    assert bench.register(number).header.master_broker_id is None, "nobody is alive"


def test_every_living_broker_of_the_set_is_notified_of_a_designated_master() -> None:
    bench = a_set(1, 2, 3, in_sync=(1, 2))
    assert bench.elect(3, designate=True).code == 2012, "it is not in the set"
    reply = bench.elect(2, designate=True)
    assert (reply.code, reply.header.master_broker_id, reply.header.master_epoch) == (0, 2, 2)
    assert [address for address, _, _ in bench.pushed] == [address_of(n) for n in (1, 2, 3)]


def test_no_broker_is_notified_if_the_setting_is_off() -> None:
    bench = a_set(1, 2, in_sync=(1, 2), notify_role_changed=False)
    bench.close(1)
    assert bench.replica_info()[0] == 2
    assert not bench.pushed


def test_a_master_that_died_while_no_controller_ran_is_replaced_by_the_scan() -> None:
    bench = a_set(1, 2, in_sync=(1, 2)).restarted()
    assert bench.replica_info() == (1, 1, [1, 2], 2)
    bench.run_to(5_000, beating=(2,))
    assert bench.replica_info() == (2, 2, [2], 3)


def test_a_broker_that_connected_again_dies_with_its_first_connection() -> None:
    """As in upstream, whose entry keeps the channel of the first heartbeat."""
    bench = a_set(1, 2, in_sync=(1, 2))
    bench.heartbeat(1, a_peer())
    bench.close(1)
    assert bench.replica_info()[0] == 2
