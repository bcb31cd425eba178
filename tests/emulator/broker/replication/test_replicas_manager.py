"""A broker that follows a controller: its id, its start, its roles, its sync-state set."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.replication.broker_metadata import IDENTITY, TEMPORARY
from rocketmq_emulator.broker.replication.replicas_manager import LogReport, State
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.errors.call_errors import NoAnswer
from rocketmq_emulator.facts import BrokerRoleChanged, RoleNotGranted
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.bodies.controller import SyncStateSet
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.requests.controller import (
    GetMetaDataReply,
    NotifyBrokerRoleChangedRequest,
    RegisterBrokerToControllerReply,
)
from tests.support.broker.role_rigs import CONTROLLER, FollowingBroker
from tests.support.controller.controllers import SET, ControllerBench, a_set

NEXT_ID = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
APPLY = RequestCode.CONTROLLER_APPLY_BROKER_ID
REGISTER = RequestCode.CONTROLLER_REGISTER_BROKER
ELECT = RequestCode.CONTROLLER_ELECT_MASTER
METADATA = RequestCode.CONTROLLER_GET_METADATA_INFO
REPLICA_INFO = RequestCode.CONTROLLER_GET_REPLICA_INFO
ALTER = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
HEARTBEAT = RequestCode.BROKER_HEARTBEAT


def a_pair() -> tuple[ControllerBench, FollowingBroker, FollowingBroker]:
    """A controller, its master 1 and its slave 2; both have started."""
    bench = ControllerBench()
    master, slave = FollowingBroker(bench, 1), FollowingBroker(bench, 2)
    assert master.start()
    assert slave.start()
    for broker in (master, slave):
        broker.asked.clear()
        broker.roles.done.clear()
    return bench, master, slave


def notice(master: int, epoch: int, **more) -> NotifyBrokerRoleChangedRequest:
    header = NotifyBrokerRoleChangedRequest(
        master_broker_id=master, master_address=f"10.0.0.{master}:10911", master_epoch=epoch
    )
    for name, value in more.items():
        setattr(header, name, value)
    return header


# The start ------------------------------------------------------------------------------


def test_the_first_broker_of_a_name_gets_the_id_1_and_elects_itself() -> None:
    broker = FollowingBroker(ControllerBench())
    assert broker.roles.is_fenced
    assert broker.start()
    assert broker.asked == [METADATA, NEXT_ID, APPLY, REGISTER, HEARTBEAT, ELECT]
    assert broker.roles.done == [("id", 1), ("set", [1]), ("to master", 1)]
    assert broker.manager.state is State.RUNNING
    assert not broker.roles.is_fenced
    assert broker.facts == [BrokerRoleChanged("master", 1, "10.0.0.1:10911", 1)]


def test_the_next_broker_gets_the_id_2_and_is_the_slave_of_the_living_master() -> None:
    bench = ControllerBench()
    FollowingBroker(bench, 1).start()
    broker = FollowingBroker(bench, 2)
    assert broker.start()
    assert broker.asked == [METADATA, NEXT_ID, APPLY, REGISTER, HEARTBEAT]
    assert broker.roles.done == [("id", 2), ("to slave", "10.0.0.1:10911", 1, 2)]


def test_r53_the_identity_is_a_text_with_three_fields_and_the_temporary_file_is_empty() -> None:
    broker = FollowingBroker(ControllerBench())
    broker.start()
    assert broker.disk.read(IDENTITY) == b"C#broker-a#1"
    assert broker.disk.read(TEMPORARY) == b""


def test_a_broker_that_has_its_identity_applies_for_no_id_again() -> None:
    bench, _, slave = a_pair()
    again = FollowingBroker(bench, 2, slave.disk)
    assert again.start()
    assert again.asked == [METADATA, REGISTER, HEARTBEAT]
    assert again.manager.broker_id == 2


def test_a_broker_that_ended_between_both_files_gets_the_id_that_it_applied_for() -> None:
    bench = ControllerBench()
    broker = FollowingBroker(bench)
    broker.answer = lambda call: (
        NoAnswer(CONTROLLER, "lost") if call.rpc.code == REGISTER else broker._of_bench(call)
    )
    assert not broker.start()
    disk = MemoryDisk()
    (applied,) = bench.controller.replicas.replica_info_table[SET].replicas.values()
    disk.replace(TEMPORARY, f"C#broker-a#1#{applied.check_code}".encode())
    again = FollowingBroker(bench, 1, disk)
    assert again.start()
    assert again.asked[:2] == [METADATA, APPLY]
    assert again.manager.broker_id == 1


@pytest.mark.parametrize("text", [b"D#broker-a#1", b"C#broker-b#1"])
def test_r53_a_store_of_another_broker_is_refused_and_the_broker_stays_fenced(text) -> None:
    bench, disk = ControllerBench(), MemoryDisk()
    disk.replace(IDENTITY, text)
    broker = FollowingBroker(bench, 1, disk)
    assert not broker.start()
    assert broker.asked == [METADATA]
    assert broker.roles.is_fenced
    (failed,) = broker.facts
    assert isinstance(failed, RoleNotGranted)
    assert "give it its own store" in failed.reason


@pytest.mark.parametrize("text", [b"", b"C#broker-a", b"C##1", b"C#broker-a#x"])
def test_a_file_that_is_no_identity_counts_as_none(text) -> None:
    disk = MemoryDisk()
    disk.replace(IDENTITY, text)
    broker = FollowingBroker(ControllerBench(), 1, disk)
    assert broker.start()
    assert NEXT_ID in broker.asked


def test_an_id_that_somebody_else_has_is_given_up_and_the_next_try_takes_another() -> None:
    bench, disk = ControllerBench(), MemoryDisk()
    FollowingBroker(bench, 1).start()
    disk.replace(TEMPORARY, b"C#broker-a#1#10.0.0.7:10911;5")
    broker = FollowingBroker(bench, 7, disk)
    assert broker.start()
    assert broker.asked[:4] == [METADATA, APPLY, NEXT_ID, APPLY]
    assert len(broker.pauses_ms) == 1
    assert 0 <= broker.pauses_ms[0] < 1_000
    assert broker.manager.broker_id == 2


def test_without_a_leader_three_looks_a_second_apart_fail_and_the_start_goes_on_later() -> None:
    broker = FollowingBroker(ControllerBench())
    broker.answer = lambda _call: Reply(GetMetaDataReply(controller_leader_address=""))
    assert not broker.start()
    assert broker.pauses_ms == [1_000] * 3
    assert broker.manager.state is State.INITIAL
    broker.answer = broker._of_bench
    assert broker.start()


def test_the_reason_of_failures_is_noted_when_it_changes() -> None:
    broker = FollowingBroker(ControllerBench())
    broker.answer = lambda call: NoAnswer(call.address, "silence")
    for _ in range(3):
        assert not broker.start()
    assert broker.facts == [RoleNotGranted("", "no controller names a leader")]


def test_a_start_goes_on_at_the_state_that_it_has_reached() -> None:
    broker = FollowingBroker(ControllerBench())
    broker.answer = lambda call: (
        Reply(code=2007) if call.rpc.code == ELECT else broker._of_bench(call)
    )
    assert not broker.start()
    assert broker.manager.state is State.REGISTER_TO_CONTROLLER_DONE
    assert broker.roles.is_fenced
    broker.asked.clear()
    broker.answer = broker._of_bench
    assert broker.start()
    assert broker.asked == [HEARTBEAT, ELECT]


def test_a_master_that_still_lives_answers_the_election_too() -> None:
    """R44: 2011 names the master, and counts as 0 does."""
    bench = a_set(1, 2)
    broker = FollowingBroker(bench, 2)
    broker.disk.replace(IDENTITY, b"C#broker-a#2")
    broker.answer = lambda call: (
        Reply(_nobody()) if call.rpc.code == REGISTER else broker._of_bench(call)
    )
    assert broker.start()
    assert broker.roles.done[-1] == ("to slave", "10.0.0.1:10911", 1, 2)


def _nobody() -> RegisterBrokerToControllerReply:
    return RegisterBrokerToControllerReply(cluster_name="C", broker_name=SET)


# Roles ----------------------------------------------------------------------------------


def test_r49_a_notice_changes_nothing_unless_its_epoch_is_larger() -> None:
    _, master, slave = a_pair()
    for broker in (master, slave):
        broker.manager.change_role(notice(2, 1), SyncStateSet(sync_state_set=[2]))
        broker.manager.change_role(notice(2, 0), SyncStateSet(sync_state_set=[2]))
        assert broker.roles.done == []


def test_a_notice_makes_a_slave_the_master_and_the_master_a_slave() -> None:
    _, master, slave = a_pair()
    for broker in (master, slave):
        header = notice(2, 2, sync_state_set_epoch=2)
        broker.manager.change_role(header, SyncStateSet(sync_state_set=[2]))
    assert master.roles.done == [("to slave", "10.0.0.2:10911", 2, 1)]
    assert slave.roles.done == [("set", [2]), ("to master", 2)]
    assert slave.manager.is_master
    assert not master.manager.is_master


def test_a_notice_without_a_master_or_before_the_id_is_known_changes_nothing() -> None:
    fresh = FollowingBroker(ControllerBench())
    fresh.manager.change_role(notice(1, 9), None)
    _, master, _ = a_pair()
    nobody = NotifyBrokerRoleChangedRequest(master_epoch=9)
    master.manager.change_role(nobody, None)
    assert fresh.roles.done == master.roles.done == []
    assert (fresh.manager.master_epoch, master.manager.master_epoch) == (0, 1)


def test_the_same_role_in_a_new_epoch_is_kept_in_its_short_form() -> None:
    _, master, slave = a_pair()
    for broker in (master, slave):
        broker.manager.change_role(notice(1, 5), SyncStateSet(sync_state_set=[1]))
    assert master.roles.done == [("still master", 5)]
    assert slave.roles.done == [("still slave", "10.0.0.1:10911", 5)]


def test_a_look_finds_the_master_that_was_elected_meanwhile() -> None:
    bench, master, slave = a_pair()
    bench.alter([1, 2])
    bench.controller.closed(master.peer, bench.now_ms)
    assert bench.replica_info()[0] == 2
    slave.sync_role()
    assert slave.asked == [REPLICA_INFO]
    assert slave.roles.done == [("set", [2]), ("to master", 2)]


def test_a_look_that_finds_a_larger_epoch_without_a_master_asks_for_an_election() -> None:
    bench, master, slave = a_pair()
    bench.controller.closed(master.peer, bench.now_ms)  # the slave is not in the set
    assert bench.replica_info()[:2] == (None, 4)
    slave.sync_role()
    assert slave.asked == [REPLICA_INFO, ELECT]
    assert slave.roles.done == []
    master.heartbeat()
    master.sync_role()
    assert master.asked == [REPLICA_INFO, ELECT]
    assert master.roles.done == [("set", [1]), ("still master", 5)]


def test_a_controller_that_forgot_the_name_is_told_of_this_broker_again() -> None:
    bench, master, _ = a_pair()
    bench.controller.reset(0)
    master.sync_role()
    assert master.asked == [REPLICA_INFO, REGISTER]
    assert master.pauses_ms == [2_000]


def test_without_controllers_a_running_master_stays_master() -> None:
    _, master, _ = a_pair()
    master.answer = lambda call: NoAnswer(call.address, "silence")
    master.sync_role()
    assert master.manager.is_master
    assert master.roles.done == []
    assert not master.roles.is_fenced


# Heartbeats and the set -----------------------------------------------------------------


def test_a_heartbeat_says_where_the_log_ends_and_how_long_its_silence_may_be() -> None:
    broker = FollowingBroker(
        ControllerBench(), controller_silence_ms_max=7_000, election_priority=5
    )
    broker.start()
    broker.roles.end = LogReport(3, 500, 400)
    sent = broker.manager.heartbeat()
    assert (sent.epoch, sent.max_offset, sent.confirm_offset) == (3, 500, 400)
    assert (sent.heartbeat_timeout_mills, sent.election_priority) == (7_000, 5)
    assert (sent.broker_id, sent.broker_addr) == (1, "10.0.0.1:10911")


def test_a_controller_without_a_connection_is_asked_nothing() -> None:
    broker = FollowingBroker(ControllerBench())
    assert broker.manager.reachable == (CONTROLLER,)
    broker.manager.looked_at(CONTROLLER, is_reachable=False)
    assert not broker.carry_out(broker.manager.find_leader())
    assert broker.asked == []


def test_a_master_reports_its_set_when_a_slave_has_to_leave_it_and_else_not() -> None:
    bench, master, _ = a_pair()
    master.roles.in_sync = {2}
    master.carry_out(master.manager.check_sync_state_set())
    assert bench.replica_info()[2:] == ([1, 2], 2)
    assert master.roles.done == [("set", [1, 2])]
    master.asked.clear()
    master.carry_out(master.manager.check_sync_state_set())
    assert master.asked == []
    master.roles.in_sync = set()
    master.carry_out(master.manager.check_sync_state_set())
    assert bench.replica_info()[2:] == ([1], 3)


def test_a_set_that_the_controller_refuses_is_not_taken() -> None:
    bench, master, _ = a_pair()
    assert bench.alter([1, 2]).code == ResponseCode.SUCCESS  # the set has the epoch 2 now
    master.roles.in_sync = {2}
    master.carry_out(master.manager.check_sync_state_set())
    assert master.asked == [ALTER]
    assert master.roles.done == []
    master.sync_role()
    assert master.roles.done == [("set", [1, 2])]


def test_a_slave_reports_no_set() -> None:
    _, _, slave = a_pair()
    slave.carry_out(slave.manager.check_sync_state_set())
    assert slave.asked == []
