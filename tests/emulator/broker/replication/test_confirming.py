"""What a master confirms of its log, and which puts wait for whom."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.replication.confirming import ALL_IN_SYNC
from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.protocol.auto_switch import (
    LogEpoch,
    SlaveHandshake,
    encode_master_handshake,
    encode_slave_handshake,
    encode_slave_report,
    encode_transfer,
)
from tests.support.broker.store_makers import NOW, a_message
from tests.support.broker.switch_rigs import Switcher, introduced, led

# What is confirmed --------------------------------------------------------------------

ALL = {"all_ack_in_sync_state_set": True}


def test_since_5_2_0_a_master_confirms_its_whole_log_unless_all_must_have_it() -> None:
    for release, config, confirms in [
        ("5.1.4", {}, False),
        ("5.2.0", {}, True),
        ("5.3.3", {}, True),
        ("5.3.3", ALL, False),
    ]:
        master, end = led(2, release=release, **config)
        introduced(master, end)
        master.put()
        assert (master.ha.confirm_offset == 2 * end) is confirms, release
        assert (len(master.bodies()) == 2) is confirms, release


def test_a_set_of_one_confirms_at_once() -> None:
    master, end = led(**ALL)
    master.put()
    assert master.ha.confirm_offset == 2 * end
    assert len(master.bodies()) == 2


def test_what_all_in_sync_have_is_confirmed_and_can_be_read() -> None:
    master, end = led(**ALL)
    second, _ = introduced(master, end, slave_id=2)
    third, _ = introduced(master, end, slave_id=3)
    master.ha.set_sync_state_set({1, 2, 3})
    master.put(b"later")
    second.feed(encode_slave_report(2 * end))
    assert master.ha.confirm_offset == end
    assert master.bodies() == [b"hello"]
    third.feed(encode_slave_report(2 * end - 1))
    assert master.ha.confirm_offset == 2 * end - 1
    assert master.bodies() == [b"hello"]
    third.feed(encode_slave_report(2 * end))
    assert master.bodies() == [b"hello", b"later"]


@pytest.mark.parametrize(
    ("release", "reads_all", "bodies"),
    [
        ("5.2.0", True, [b"hello"]),
        ("5.3.0", True, [b"hello", b"later"]),
        ("5.3.3", True, [b"hello", b"later"]),
        ("5.3.3", False, [b"hello"]),
    ],
)
def test_since_5_3_0_what_is_not_confirmed_can_be_read_if_that_is_set(
    release: str, reads_all: bool, bodies: list[bytes]
) -> None:
    master, end = led(**ALL, release=release, read_uncommitted=reads_all)
    introduced(master, end, slave_id=2)
    master.ha.set_sync_state_set({1, 2})
    master.put(b"later")
    assert master.ha.confirm_offset == end, "the slave has not reported yet"
    assert master.bodies() == bodies

    slave = Switcher(own_id=2, release=release, read_uncommitted=reads_all).follow(1)
    slave.connect()
    slave.ha.client.feed(encode_master_handshake(2 * end, [LogEpoch(1, 0)]))
    slave.ha.client.feed(encode_transfer(0, LogEpoch(1, 0), end, master.log_bytes()))
    assert slave.bodies() == bodies
    assert slave.ha.confirm_offset == end


def test_a_slave_that_is_asked_for_counts_before_the_controller_answers() -> None:
    master, end = led(**ALL)
    second, _ = introduced(master, end, slave_id=2)
    master.ha.set_sync_state_set({1, 2})
    third, _ = introduced(master, end, slave_id=3)
    assert master.wanted[-1] == {1, 2, 3}
    master.put()
    second.feed(encode_slave_report(2 * end))
    assert master.ha.confirm_offset == end
    third.feed(encode_slave_report(2 * end))
    second.feed(encode_slave_report(2 * end))
    assert master.ha.confirm_offset == 2 * end


def test_a_member_that_has_not_reported_yet_confirms_nothing_and_holds_nothing_back() -> None:
    master, end = led(**ALL)
    second, _ = introduced(master, end, slave_id=2)
    third, _ = master.accept()
    third.feed(encode_slave_handshake(SlaveHandshake(3)))
    master.ha.set_sync_state_set({1, 2, 3})
    assert master.ha.confirm_offset == end
    master.put()
    second.feed(encode_slave_report(2 * end))
    assert master.ha.confirm_offset == 2 * end


def test_a_member_without_a_connection_freezes_what_is_confirmed() -> None:
    master, end = led(**ALL)
    second, _ = introduced(master, end, slave_id=2)
    _, transport = introduced(master, end, slave_id=3)
    master.ha.set_sync_state_set({1, 2, 3})
    transport.close()
    master.put()
    second.feed(encode_slave_report(2 * end))
    assert master.ha.confirm_offset == end
    assert len(master.bodies()) == 1
    master.ha.set_sync_state_set({1, 2})
    assert master.ha.confirm_offset == 2 * end
    assert len(master.bodies()) == 2


def test_a_cut_lowers_what_is_confirmed() -> None:
    slave = Switcher().lead(1)
    ends = [slave.put().position for _ in range(3)]
    slave.follow(2)
    slave.ha._set_confirm_offset(slave.store.log.end_position)
    slave.ha.cut(ends[1], "a test")
    assert slave.ha.confirm_offset == ends[1]


def test_of_two_slaves_with_one_id_the_slower_holds_back_what_is_confirmed() -> None:
    """Upstream's own: it compares the ids of connections, and nothing else."""
    master, end = led(2, **ALL)
    good, _ = introduced(master, end, slave_id=2)
    bad, other = introduced(master, end, slave_id=2)
    master.put(b"later")
    good.feed(encode_slave_report(2 * end))
    assert (master.ha.confirm_offset, master.bodies()) == (end, [b"hello"])
    other.close()
    assert master.wanted[-1] == {1}, "the id leaves, though the other connection is open"
    assert master.ha.confirm_offset == end, "nothing is confirmed that one of them lacked"
    good.feed(encode_slave_report(2 * end))
    assert master.bodies() == [b"hello", b"later"]
    assert bad not in master.ha.connections
    assert good in master.ha.connections


# For puts -----------------------------------------------------------------------------


def test_a_put_needs_the_replicas_of_the_settings_or_all_in_sync() -> None:
    assert led(in_sync_replicas=3)[0].ha.replicas_needed == 3
    assert led(**ALL)[0].ha.replicas_needed == ALL_IN_SYNC


def test_all_in_sync_have_what_the_last_of_them_has_reported() -> None:
    master, end = led(**ALL)
    assert master.ha.replicated_to(ALL_IN_SYNC) == end
    second, _ = introduced(master, end, slave_id=2)
    stranger, _ = introduced(master, 0, slave_id=9)
    master.ha.set_sync_state_set({1, 2, 3})
    assert master.ha.replicated_to(ALL_IN_SYNC) == -1
    third, _ = introduced(master, end - 1, slave_id=3)
    assert master.ha.replicated_to(ALL_IN_SYNC) == end - 1
    third.feed(encode_slave_report(end))
    stranger.feed(encode_slave_report(end - 5))
    assert second.acknowledged == master.ha.replicated_to(ALL_IN_SYNC) == end
    master.ha.in_sync.want({1, 2, 3, 9})
    assert master.ha.replicated_to(ALL_IN_SYNC) == end - 5
    assert ALL_IN_SYNC in master.ha.waited_for()


def test_puts_that_wait_are_looked_at_when_the_set_changes() -> None:
    master, _ = led(2, **ALL)
    looks: list[int] = []
    master.ha.on_acknowledged = lambda ha: looks.append(ha.replicated_to(ALL_IN_SYNC))
    master.ha.set_sync_state_set({1})
    assert looks == [master.store.log.end_position]


@pytest.mark.parametrize(("count", "is_taken"), [(2, False), (3, True)])
def test_too_few_replicas_in_sync_refuse_puts_that_wait(count: int, is_taken: bool) -> None:
    master = Switcher(in_sync_replicas=3, min_in_sync_replicas=3)
    master.lead(1, tuple(range(2, count + 1)))
    if is_taken:
        assert master.put()
        return
    with pytest.raises(PutRefused) as refused:
        master.put()
    assert refused.value.status is PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
    with pytest.raises(PutRefused):
        master.store.put_all([a_message(), a_message()], NOW)
    assert master.store.log.end_position == 0
    assert master.put(properties="WAIT\x01false\x02")
    assert master.store.put(a_message(never_waits=True), NOW)
    master.follow(2)
    with pytest.raises(PutRefused) as refused:
        master.put()
    assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE
