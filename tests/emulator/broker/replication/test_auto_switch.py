"""A broker whose role a controller changes: who is in sync, what is confirmed, and both ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import (
    EpochNotKept,
    LogTruncated,
    SlaveCaughtUp,
    SlaveFellBehind,
    SyncStateSetCheckEnded,
)
from rocketmq_emulator.protocol.auto_switch import (
    LogEpoch,
    encode_master_handshake,
    encode_slave_report,
    encode_transfer,
)
from tests.support.broker.store_makers import NOW, TinyDisk
from tests.support.broker.switch_rigs import Switcher, introduced, joined, led

# Role changes -------------------------------------------------------------------------


def test_a_broker_without_a_role_takes_no_puts() -> None:
    broker = Switcher()
    with pytest.raises(PutRefused) as refused:
        broker.put()
    assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE


def test_a_new_master_writes_down_its_epoch_and_where_it_begins() -> None:
    broker = Switcher().lead(1)
    end = broker.put().size
    broker.lead(4)
    assert broker.ha.epochs == (LogEpoch(1, 0, end), LogEpoch(4, end))
    assert broker.ha.last_epoch == 4


def test_an_old_epoch_is_refused_and_changes_nothing() -> None:
    broker = Switcher().lead(5)
    _, transport = introduced(broker, 0)
    assert not broker.ha.change_to_master(4)
    assert not broker.ha.change_to_slave(None, 4, 1)
    assert not broker.ha.change_to_master_when_last_role_is_master(4)
    assert not broker.ha.change_to_slave_when_master_not_change(4)
    assert broker.ha.change_to_slave_when_master_not_change(5)
    assert transport.is_open
    assert broker.put()


def test_a_new_master_of_an_old_epoch_takes_puts_in_the_last_one_of_its_log() -> None:
    disk = TinyDisk()
    before = Switcher(disk).lead(5)
    end = before.put(b"before").size
    broker = Switcher(disk)
    broker.ha.set_sync_state_set({1})
    assert not broker.ha.change_to_master(4)
    assert broker.facts_of(EpochNotKept) == [EpochNotKept(4, end, 5, 0)]
    broker.put(b"after")
    assert broker.bodies() == [b"before", b"after"]
    assert [each.epoch for each in broker.ha.epochs] == [5]


def test_a_broker_that_copies_a_master_ends_that_when_it_leads_in_an_old_epoch() -> None:
    slave = Switcher(own_id=2).lead(5)
    slave.put()
    slave.follow(5)
    transport = slave.connect()
    assert not slave.ha.change_to_master(4)
    assert not transport.is_open
    assert slave.put()


def test_an_election_after_which_nothing_was_stored_leaves_the_old_epoch_only() -> None:
    broker = Switcher().lead(1)
    broker.put()
    broker.lead(2)
    broker.lead(3)
    assert [each.epoch for each in broker.ha.epochs] == [1, 2]
    assert len(broker.facts_of(EpochNotKept)) == 1


def test_the_same_epoch_again_begins_again() -> None:
    broker = Switcher().lead(1)
    end = broker.put().size
    broker.lead(2)
    broker.put()
    broker.lead(2)
    assert broker.ha.epochs == (LogEpoch(1, 0, 2 * end), LogEpoch(2, 2 * end))


def test_a_role_change_closes_the_connections_of_slaves() -> None:
    broker = Switcher().lead(1)
    _, first = introduced(broker, 0)
    broker.lead(2)
    assert not first.is_open
    _, second = introduced(broker, 0)
    broker.follow(3)
    assert not second.is_open
    assert broker.ha.connections == []


def test_a_new_master_cuts_the_half_message_at_the_end_of_its_log_and_later_epochs() -> None:
    master = Switcher(MemoryDisk()).lead(1)
    end = master.put().size
    master.put()
    slave = Switcher(MemoryDisk(), own_id=2).follow(1)
    slave.store.copy().append(0, master.log_bytes()[: end + 20])
    slave.ha.epoch_file.append(1, 0)
    slave.ha.epoch_file.append(2, end)
    slave.lead(3)
    assert slave.store.log.end_position == end
    assert slave.ha.epochs == (LogEpoch(1, 0, end), LogEpoch(3, end))
    assert len(slave.facts_of(LogTruncated)) == 1
    assert slave.put().queue_offset == 1


def test_epochs_of_dropped_files_are_dropped_too() -> None:
    broker = Switcher(TinyDisk(1024)).lead(1)
    for epoch in range(2, 6):
        for _ in range(10):
            broker.put()
        broker.lead(epoch)
    broker.put()
    broker.store.drop_expired(NOW + 100 * 24 * 3_600_000)
    min_position = broker.store.log.min_position
    assert broker.ha.epochs[0].end >= min_position > broker.ha.epochs[0].start
    assert broker.ha.epochs[0].epoch > 1


def test_a_broker_that_ends_closes_all_and_asks_for_nothing() -> None:
    master, end = led(2)
    _, of_slave = introduced(master, end)
    master.ha.close()
    assert not of_slave.is_open
    assert master.wanted == []
    assert not master.facts_of(SlaveFellBehind)
    slave = Switcher(own_id=2).follow(1)
    to_master = slave.connect()
    slave.ha.close()
    assert not to_master.is_open
    assert not slave.ha.client.is_open


# Both ends ----------------------------------------------------------------------------


def test_a_slave_copies_its_master_byte_by_byte() -> None:
    master = Switcher(TinyDisk(1024)).lead(1)
    for number in range(60):
        master.put(b"%d" % number, queue_id=number % 2)
    slave = Switcher(TinyDisk(1024), time=master.time, own_id=2).follow(1)
    _, carry = joined(master, slave)
    carry()
    master.time.advance(6_000)
    carry()
    assert slave.log_bytes() == master.log_bytes()
    assert [slave.bodies(each) for each in (0, 1)] == [master.bodies(each) for each in (0, 1)]
    assert slave.ha.epochs == master.ha.epochs
    assert master.wanted[-1] == {1, 2}


def test_a_master_that_comes_back_as_a_slave_loses_what_was_not_copied() -> None:
    old = Switcher(MemoryDisk(), own_id=1).lead(1)
    new = Switcher(MemoryDisk(), time=old.time, own_id=2).follow(1)
    _, carry = joined(old, new)
    carry()
    old.put(b"copied")
    old.time.advance(6_000)
    carry()
    old.put(b"lost")
    new.lead(2)
    new.put(b"new")
    old.follow(2)
    _, carry = joined(new, old)
    carry()
    old.time.advance(6_000)
    carry()
    assert old.bodies() == new.bodies() == [b"copied", b"new"]
    assert old.log_bytes() == new.log_bytes()
    (cut,) = old.facts_of(LogTruncated)
    assert isinstance(cut, LogTruncated)
    assert cut.message_count == 1
    assert old.ha.epochs == new.ha.epochs


# A reset ------------------------------------------------------------------------------


def reset(broker: Switcher) -> None:
    broker.store.reset((), NOW)
    broker.ha.restart()


def carried(master: Switcher, slave: Switcher) -> None:
    """Join both, until the slave has reported and has got what it lacks."""
    _, carry = joined(master, slave)
    carry()
    master.time.advance(6_000)
    carry()


def test_after_a_reset_of_both_a_slave_copies_the_new_log() -> None:
    slave = Switcher(own_id=2).follow(1)
    master, _ = led(2, time=slave.time)
    carried(master, slave)
    for broker in (master, slave):
        reset(broker)
    master.put(b"after")
    carried(master, slave)
    assert slave.bodies() == [b"after"]


def test_after_an_election_and_a_reset_a_slave_copies_the_new_log() -> None:
    slave = Switcher(own_id=2).follow(1)
    master, _ = led(2, time=slave.time)
    carried(master, slave)
    slave.follow(2)
    master.lead(2, (2,))
    master.put()
    carried(master, slave)
    assert slave.log_bytes() == master.log_bytes()
    reset(master)
    carried(master, slave)
    assert slave.log_bytes() != master.log_bytes(), "it has its old log still, and copies nothing"
    reset(slave)
    put = master.put(b"after")
    carried(master, slave)
    assert slave.bodies() == [b"after"]
    assert slave.ha.epochs == master.ha.epochs == (LogEpoch(2, put.position),)


def test_a_slave_that_is_elected_after_a_reset_leads_from_its_new_log() -> None:
    slave = Switcher(own_id=2).follow(1)
    master, _ = led(2, time=slave.time)
    carried(master, slave)
    for broker in (master, slave):
        reset(broker)
    slave.lead(2)
    assert slave.ha.epochs == (LogEpoch(2, 0),)


# Whatever a peer sends ----------------------------------------------------------------

INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
NEAR = st.one_of(st.integers(-2, 400), LONGS)


@given(st.lists(st.one_of(st.binary(max_size=40), NEAR), max_size=20))
def test_a_master_survives_whatever_a_slave_sends(sent: list[bytes | int]) -> None:
    master = Switcher().lead(1)
    master.put()
    connection, transport = master.accept()
    for each in sent:
        connection.feed(each if isinstance(each, bytes) else encode_slave_report(each))
        master.time.advance(700)
        if not transport.is_open:
            break
        master.put()
        master.ha.maybe_shrink_sync_state_set()
    assert master.put()


@given(
    NEAR,
    st.lists(st.tuples(INTS, NEAR), max_size=5),
    st.lists(st.tuples(NEAR, INTS, NEAR, NEAR, st.binary(max_size=300)), max_size=8),
)
def test_a_slave_survives_whatever_a_master_sends(
    end: int, epochs: list[tuple[int, int]], sent: list[tuple[int, int, int, int, bytes]]
) -> None:
    slave = Switcher(own_id=2).lead(1)
    slave.put()
    slave.put()
    slave.follow(2)
    transport = slave.connect()
    slave.ha.client.feed(encode_master_handshake(end, [LogEpoch(*each) for each in epochs]))
    for position, epoch, start, confirmed, data in sent:
        frame = encode_transfer(position, LogEpoch(epoch, start), confirmed, data)
        slave.ha.client.feed(frame)
        slave.time.advance(3_000)
        if not transport.is_open:
            break
    if slave.ha.last_epoch < 2**31 - 1:
        slave.lead(2**31 - 1)
        assert slave.put()


# The sync-state set -------------------------------------------------------------------


def test_a_slave_that_has_the_whole_log_is_to_join_the_set() -> None:
    master, end = led()
    connection, _ = introduced(master, 0)
    assert master.wanted == []
    connection.feed(encode_slave_report(end))
    assert master.wanted == [{1, 2}]
    assert master.facts_of(SlaveCaughtUp) == [SlaveCaughtUp(2, end, (1, 2))]
    assert master.ha.sync_state_set == {1, 2}
    assert master.ha.local_sync_state_set == {1}
    connection.feed(encode_slave_report(end))
    assert master.wanted == [{1, 2}, {1, 2}]
    assert len(master.facts_of(SlaveCaughtUp)) == 1
    master.ha.set_sync_state_set({1, 2})
    connection.feed(encode_slave_report(end))
    assert len(master.wanted) == 2


def test_an_async_learner_never_joins() -> None:
    master, end = led()
    connection, _ = introduced(master, end, is_async_learner=True)
    connection.feed(encode_slave_report(end))
    assert master.wanted == []


def test_a_report_before_the_end_at_the_last_frame_is_not_enough() -> None:
    master, end = led()
    connection, _ = introduced(master, 0)
    master.put()
    connection.feed(encode_slave_report(end))
    assert master.wanted == []
    connection.feed(encode_slave_report(2 * end))
    assert master.wanted == [{1, 2}]


def test_a_slave_that_has_what_is_confirmed_must_have_the_last_frame_too() -> None:
    master, end = led(9, all_ack_in_sync_state_set=True)
    master.ha._set_confirm_offset(end)
    connection, _ = introduced(master, 0)
    master.put()
    connection.transfer()
    connection.feed(encode_slave_report(end))
    assert master.wanted == []
    connection.feed(encode_slave_report(2 * end))
    assert master.wanted == [{1, 2, 9}]


def test_a_slave_that_stops_reading_is_not_caught_up() -> None:
    master, end = led(2)
    connection, transport = introduced(master, end, slave_id=2)
    transport.unsent = 500
    for _ in range(16):
        master.put()
        master.time.advance(1_000)
        connection.feed(encode_slave_report(end))
    assert master.ha.maybe_shrink_sync_state_set() == {1}


def test_a_slave_that_ends_before_the_masters_epoch_does_not_join() -> None:
    master = Switcher(all_ack_in_sync_state_set=True).lead(1)
    end = master.put().size
    master.put()
    master.ha.epoch_file.append(2, 2 * end)
    master.ha.set_sync_state_set({1, 9})
    master.ha._set_confirm_offset(end)
    master.ha.maybe_expand(2, 2 * end - 1)
    assert master.wanted == []
    master.ha.maybe_expand(2, 2 * end)
    assert master.wanted == [{1, 2, 9}]


def test_a_slave_leaves_the_set_when_its_connection_ends() -> None:
    master, end = led(2, 3)
    _, transport = introduced(master, end)
    transport.close()
    assert master.wanted == [{1, 3}]
    (fact,) = master.facts_of(SlaveFellBehind)
    assert isinstance(fact, SlaveFellBehind)
    assert (fact.slave_id, fact.sync_state_set) == (2, (1, 3))
    assert master.ha.sync_state_set == {1, 2, 3}


def test_a_slave_that_stays_behind_leaves_after_15_s_and_an_idle_one_stays() -> None:
    master, end = led(2, 3)
    slow, transport = introduced(master, end, slave_id=2)
    idle, _ = introduced(master, end, slave_id=3)
    transport.unsent = 10**9  # it has stopped reading
    master.put()
    for _ in range(16):
        master.time.advance(1_000)
        slow.feed(encode_slave_report(end))
        idle.feed(encode_slave_report(2 * end))
    assert master.ha.maybe_shrink_sync_state_set() == {1, 3}
    (fact,) = master.facts_of(SlaveFellBehind)
    assert isinstance(fact, SlaveFellBehind)
    assert fact.slave_id == 2


def test_an_idle_slave_is_caught_up_although_it_reports_nothing() -> None:
    master, end = led(2)
    introduced(master, end, slave_id=2)
    master.time.advance(19_000)
    assert master.ha.maybe_shrink_sync_state_set() == {1, 2}


def test_a_member_that_never_connected_leaves_at_the_next_check() -> None:
    master, _ = led(2)
    assert master.ha.maybe_shrink_sync_state_set() == {1}
    assert master.ha.maybe_shrink_sync_state_set() == {1}
    assert len(master.facts_of(SlaveFellBehind)) == 1
    assert master.ha.in_sync_count() == 2, "until the controller has answered"


def test_before_5_1_4_the_check_ends_until_the_next_change_of_roles() -> None:
    master, end = led(2, release="5.1.3")
    _, transport = introduced(master, end)
    assert master.ha.maybe_shrink_sync_state_set() == {1, 2}
    assert master.facts_of(SyncStateSetCheckEnded) == [SyncStateSetCheckEnded((1, 2))]
    transport.unsent = 10**9
    master.put()
    master.time.advance(18_000)
    assert master.ha.maybe_shrink_sync_state_set() == {1, 2}
    assert len(master.facts_of(SyncStateSetCheckEnded)) == 1
    master.lead(2)
    assert master.ha.maybe_shrink_sync_state_set() == {1}


# For tools ----------------------------------------------------------------------------


def test_a_master_shows_its_slaves_and_who_of_them_is_in_sync() -> None:
    master, end = led(2)
    introduced(master, end, slave_id=2)
    introduced(master, 0, slave_id=3)
    info = master.ha.runtime_info()
    assert (info.master, info.in_sync_slave_nums) == (True, 1)
    assert [each.in_sync for each in info.ha_connection_info] == [True, False]
    assert [each.slave_ack_offset for each in info.ha_connection_info] == [end, 0]


def test_a_slave_shows_its_copy() -> None:
    slave = Switcher(own_id=2).follow(1, "10.0.0.1:10912")
    slave.connect()
    info = slave.ha.runtime_info()
    assert not info.master
    assert info.ha_client_runtime_info.master_addr == "10.0.0.1:10912"


def test_epochs_for_tools_have_both_ends() -> None:
    master, end = led()
    master.lead(2)
    first, last = master.ha.epoch_entries()
    assert (first.epoch, first.start_offset, first.end_offset) == (1, 0, end)
    assert (last.epoch, last.start_offset, last.end_offset) == (2, end, 2**63 - 1)
