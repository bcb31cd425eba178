"""The slave's end in controller mode; the test plays its master."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.replication.ha_client import UNSENT_REPORTS_BYTES_MAX
from rocketmq_emulator.broker.store.appender import PutRefused
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import (
    EpochBegun,
    EpochsCompared,
    LogCopied,
    LogNotAligned,
    LogTruncated,
    MasterDisconnected,
    NoConsistentPoint,
)
from rocketmq_emulator.protocol.auto_switch import (
    HAConnectionState,
    LogEpoch,
    SlaveHandshake,
    SlaveReport,
    encode_master_handshake,
    encode_transfer,
)
from tests.support.broker.replica_rigs import ListTransport
from tests.support.broker.switch_rigs import Switcher, from_slave


def with_log(*epochs: int, messages: int = 2) -> tuple[Switcher, list[int]]:
    """A broker that was the master in *epochs*; and where each epoch begins, and the end."""
    broker = Switcher(MemoryDisk(), own_id=2)
    starts = []
    for epoch in epochs:
        broker.lead(epoch)
        starts.append(broker.store.log.end_position)
        for number in range(messages):
            broker.put(b"%d.%d" % (epoch, number))
    return broker, [*starts, broker.store.log.end_position]


def shaken(slave: Switcher, end: int, *epochs: LogEpoch, epoch: int = 9) -> ListTransport:
    """*slave* has connected, and has got this handshake."""
    transport = slave.follow(epoch).connect()
    slave.ha.client.feed(encode_master_handshake(end, epochs))
    return transport


def reports(transport: ListTransport) -> list[tuple[int, int]]:
    """The reports: (milliseconds since the start, position)."""
    return [
        (at_ms, each.end) for at_ms, each in from_slave(transport) if isinstance(each, SlaveReport)
    ]


# The handshake ------------------------------------------------------------------------


def test_a_slave_introduces_itself_with_its_id_and_flags() -> None:
    slave = Switcher(own_id=3, async_learner=True, sync_from_last_file=True).follow(1)
    transport = slave.connect()
    assert from_slave(transport) == [(0, SlaveHandshake(3, True, True))]
    assert from_slave(Switcher(own_id=2).follow(1).connect()) == [(0, SlaveHandshake(2))]


def test_a_handshake_without_an_answer_is_sent_again_every_5_s_for_ever() -> None:
    slave = Switcher(own_id=2).follow(1)
    transport = slave.connect()
    slave.time.advance(26_000)
    assert [at_ms for at_ms, _ in from_slave(transport)] == [*range(0, 26_000, 5_000)]
    assert transport.is_open


def test_an_empty_slave_reports_only_after_5_s_and_begins_at_any_position() -> None:
    master, _ = with_log(1)
    slave = Switcher(MemoryDisk(), own_id=3)
    transport = shaken(slave, 1_000, LogEpoch(1, 0))
    slave.time.advance(6_000)
    assert reports(transport) == [(6_000, 0)]
    data = master.log_bytes()
    slave.ha.client.feed(encode_transfer(0, LogEpoch(1, 0), len(data), data))
    assert slave.bodies() == [b"1.0", b"1.1"]
    assert reports(transport)[-1] == (6_000, len(data))


def test_a_slave_without_epochs_reports_its_log_at_once_and_cuts_nothing() -> None:
    slave = Switcher(MemoryDisk(), own_id=2)
    slave.store.lead()
    end = slave.put().size
    transport = shaken(slave, 10, LogEpoch(1, 0))
    assert reports(transport) == [(0, end)]
    assert slave.store.log.end_position == end


def test_r52_a_log_is_cut_where_the_masters_next_epoch_begins() -> None:
    slave, (_, second, end) = with_log(1, 2)
    cut_at = second + (end - second) // 2  # after the first message of epoch 2
    transport = shaken(slave, 10_000, LogEpoch(1, 0), LogEpoch(2, second), LogEpoch(3, cut_at))
    assert slave.store.log.end_position == cut_at
    assert slave.bodies() == [b"1.0", b"1.1", b"2.0"]
    assert reports(transport) == []
    slave.time.advance(6_000)
    assert reports(transport) == [(6_000, cut_at)]
    (cut,) = slave.facts_of(LogTruncated)
    assert isinstance(cut, LogTruncated)
    assert (cut.position, cut.before, cut.message_count) == (cut_at, end, 1)
    (compared,) = slave.facts_of(EpochsCompared)
    assert compared == EpochsCompared("127.0.0.1:4711", cut_at, 10_000, (1, 2), (1, 2, 3))


def test_epochs_that_begin_where_the_log_was_cut_or_later_are_gone() -> None:
    slave, (_, second, third, _) = with_log(1, 2, 3)
    shaken(slave, second, LogEpoch(1, 0))
    assert [each.epoch for each in slave.ha.epochs] == [1]
    assert slave.store.log.end_position == second
    assert third > second


def test_a_log_that_is_shorter_than_the_masters_is_not_cut() -> None:
    slave, (*_, end) = with_log(1)
    transport = shaken(slave, 10_000, LogEpoch(1, 0))
    assert slave.store.log.end_position == end
    assert not slave.facts_of(LogTruncated)
    assert reports(transport) == []
    slave.time.advance(6_000)
    assert reports(transport) == [(6_000, end)]


def test_r52_without_a_common_epoch_nothing_is_copied_and_the_slave_tries_for_ever() -> None:
    slave, (*_, end) = with_log(1)
    for attempt in (1, 2):
        transport = shaken(slave, 10_000, LogEpoch(4, 0)) if attempt == 1 else slave.connect()
        if attempt == 2:
            slave.ha.client.feed(encode_master_handshake(10_000, [LogEpoch(4, 0)]))
        slave.ha.client.feed(encode_transfer(end, LogEpoch(4, 0), 0, b"bytes"))
        slave.time.advance(1_999)
        assert transport.is_open
        slave.time.advance(1)
        assert not transport.is_open
        assert slave.ha.client.waits_before_connecting
    assert slave.store.log.end_position == end
    assert reports(transport) == []
    assert slave.facts_of(NoConsistentPoint) == [NoConsistentPoint("127.0.0.1:4711", (1,), (4,))]


def test_a_cut_in_the_middle_of_a_message_is_refused() -> None:
    slave, (*_, end) = with_log(1)
    transport = shaken(slave, end - 10, LogEpoch(1, 0))
    slave.time.advance(2_000)
    assert not transport.is_open
    assert slave.store.log.end_position == end
    assert slave.facts_of(LogNotAligned) == [LogNotAligned("127.0.0.1:4711", end - 10, end)]


def test_the_masters_epochs_may_come_in_pieces() -> None:
    slave, (_, second, _) = with_log(1, 2)
    transport = slave.follow(9).connect()
    data = encode_master_handshake(second, [LogEpoch(1, 0)])
    for at in range(len(data)):
        assert slave.store.log.end_position > second
        slave.ha.client.feed(data[at : at + 1])
    assert slave.store.log.end_position == second
    assert transport.is_open


# Frames -------------------------------------------------------------------------------


def copying(own_id: int = 3) -> tuple[Switcher, ListTransport, bytes, list[int]]:
    """An empty slave after its handshake, and the log that its master has, with its epochs."""
    master, starts = with_log(1, 2)
    slave = Switcher(MemoryDisk(), own_id=own_id)
    transport = shaken(slave, starts[-1], LogEpoch(1, 0), LogEpoch(2, starts[1]))
    return slave, transport, master.log_bytes(), starts


def test_each_new_epoch_is_kept_in_the_slaves_file() -> None:
    slave, _, data, (_, second, end) = copying()
    client = slave.ha.client
    client.feed(encode_transfer(0, LogEpoch(2, second), end, data[:second]))
    client.feed(encode_transfer(second, LogEpoch(2, second), end, data[second:]))
    assert slave.ha.epochs == (LogEpoch(2, second),)
    assert slave.facts_of(EpochBegun) == [EpochBegun(2, second)]
    assert slave.bodies() == [b"1.0", b"1.1", b"2.0", b"2.1"]


def test_an_epoch_that_was_cut_on_reconnection_is_not_learned_again() -> None:
    """As upstream: currentReceivedEpoch outlives connections; a role change forgets it."""
    slave, transport, data, (_, second, end) = copying()
    client, first = slave.ha.client, LogEpoch(1, 0)
    client.feed(encode_transfer(0, first, end, data[:second]))
    client.feed(encode_transfer(second, LogEpoch(2, second), end, b""))
    assert [each.epoch for each in slave.ha.epochs] == [1, 2]
    transport.close()
    slave.connect()
    client.feed(encode_master_handshake(end, [first, LogEpoch(2, second)]))
    assert [each.epoch for each in slave.ha.epochs] == [1]
    client.feed(encode_transfer(second, LogEpoch(2, second), end, data[second:]))
    assert [each.epoch for each in slave.ha.epochs] == [1]
    shaken(slave, end, LogEpoch(1, 0), LogEpoch(2, second), epoch=10)
    assert slave.store.log.end_position == second
    client.feed(encode_transfer(second, LogEpoch(2, second), end, b""))
    assert [each.epoch for each in slave.ha.epochs] == [1, 2]


def test_a_slave_confirms_what_its_master_does_and_no_more_than_it_has() -> None:
    slave, _, data, (_, second, end) = copying()
    client, half = slave.ha.client, second // 2
    client.feed(encode_transfer(0, LogEpoch(1, 0), half, data[:second]))
    assert slave.ha.confirm_offset == half
    assert slave.bodies() == [b"1.0"]
    assert slave.facts_of(LogCopied) == [LogCopied(second, second, 1)]
    client.feed(encode_transfer(second, LogEpoch(1, 0), end + 1_000, b""))
    assert slave.ha.confirm_offset == second
    assert slave.bodies() == [b"1.0", b"1.1"]


def test_a_slave_reports_after_each_frame_that_has_bytes() -> None:
    slave, transport, data, (_, second, end) = copying()
    client = slave.ha.client
    client.feed(encode_transfer(0, LogEpoch(1, 0), end, data[:50]))
    client.feed(encode_transfer(50, LogEpoch(1, 0), end, b""))
    client.feed(encode_transfer(50, LogEpoch(1, 0), end, data[50:second]))
    assert [position for _, position in reports(transport)] == [50, second]


def test_a_master_that_reads_no_reports_is_sent_no_more_than_the_limit() -> None:
    slave, transport, data, (_, second, end) = copying()
    transport.unsent = UNSENT_REPORTS_BYTES_MAX
    sent = len(transport.sent)
    for at in range(second):
        slave.ha.client.feed(encode_transfer(at, LogEpoch(1, 0), end, data[at : at + 1]))
    assert len(transport.sent) == sent
    assert slave.log_bytes() == data[:second]
    transport.unsent = 0
    slave.time.advance(6_000)
    assert [position for _, position in reports(transport)][-1] == second


def test_a_frame_that_does_not_continue_the_log_closes_the_connection() -> None:
    slave, transport, data, (_, second, end) = copying()
    slave.ha.client.feed(encode_transfer(0, LogEpoch(1, 0), end, data[:second]))
    slave.ha.client.feed(encode_transfer(second + 1, LogEpoch(1, 0), end, b""))
    assert not transport.is_open
    assert slave.ha.client.waits_before_connecting


@pytest.mark.parametrize(
    "garbage",
    [
        encode_transfer(0, LogEpoch(1, 0), 0, b""),  # before the handshake
        bytes(20),
        b"\xff" * 20,
        b"\0\0\0\1\x7f\xff\xff\xff" + bytes(12),
    ],
)
def test_bytes_that_are_no_handshake_close_the_connection(garbage: bytes) -> None:
    slave = Switcher(own_id=2).follow(1)
    transport = slave.connect()
    slave.ha.client.feed(garbage)
    assert not transport.is_open
    assert slave.store.log.end_position == 0


def test_a_second_handshake_closes_the_connection() -> None:
    slave, transport, _, (*_, end) = copying()
    slave.ha.client.feed(encode_master_handshake(end, [LogEpoch(1, 0)]))
    assert not transport.is_open
    (gone,) = slave.facts_of(MasterDisconnected)
    assert isinstance(gone, MasterDisconnected)
    assert "while this slave is in state TRANSFER" in gone.reason


def test_an_epoch_from_the_future_and_then_an_older_one_keep_the_file_in_order() -> None:
    slave, transport, data, (_, second, end) = copying()
    client = slave.ha.client
    client.feed(encode_transfer(0, LogEpoch(2**31 - 1, 0), end, data[:second]))
    client.feed(encode_transfer(second, LogEpoch(2, second), end, data[second:]))
    assert transport.is_open
    assert [each.epoch for each in slave.ha.epochs] == [2**31 - 1]
    assert not slave.ha.change_to_master(3)


def test_a_silent_master_is_left_after_20_s_without_a_wait() -> None:
    slave, transport, _, _ = copying()
    slave.time.advance(20_000)
    assert transport.is_open
    slave.time.advance(1_000)
    assert not transport.is_open
    assert not slave.ha.client.waits_before_connecting


def test_a_half_message_is_cut_before_the_next_connection_if_all_is_confirmed() -> None:
    slave, transport, data, (_, second, end) = copying()
    slave.ha.client.feed(encode_transfer(0, LogEpoch(1, 0), end, data[: second - 10]))
    transport.close()
    slave.connect()
    assert slave.bodies() == [b"1.0"]
    assert slave.store.log.end_position == second // 2
    (fact,) = slave.facts_of(LogTruncated)
    assert isinstance(fact, LogTruncated)
    assert fact.message_count == 0


def test_a_half_message_that_is_not_confirmed_stays_and_is_continued() -> None:
    slave, transport, data, (_, second, end) = copying()
    client, first = slave.ha.client, LogEpoch(1, 0)
    client.feed(encode_transfer(0, first, second // 2, data[: second - 10]))
    transport.close()
    slave.connect()
    assert slave.store.log.end_position == second - 10
    client.feed(encode_master_handshake(end, [first]))
    client.feed(encode_transfer(second - 10, first, end, data[second - 10 : second]))
    assert slave.bodies() == [b"1.0", b"1.1"]


# Opening and closing ------------------------------------------------------------------


def test_a_new_address_wakes_the_slave_and_a_master_ignores_it() -> None:
    slave = Switcher(own_id=2).follow(1, None)
    woken: list[None] = []
    slave.ha.client.on_woken = lambda: woken.append(None)
    slave.ha.update_ha_master_address("other:10912")
    slave.ha.update_ha_master_address("other:10912")
    assert len(woken) == 1
    assert slave.ha.client.master_address == "other:10912"
    slave.lead(2)
    slave.ha.update_ha_master_address("third:10912")
    assert slave.ha.client.master_address is None


def test_a_connection_that_opens_after_the_role_has_changed_is_closed() -> None:
    slave = Switcher(own_id=2).follow(1)
    slave.lead(2)
    transport = ListTransport(slave.time)
    transport.endpoint = slave.ha.client
    slave.ha.client.connected(transport)
    assert not transport.is_open
    assert transport.sent == []


def test_a_slave_that_becomes_the_master_leaves_its_master_and_takes_puts() -> None:
    slave, transport, data, (_, second, end) = copying()
    slave.ha.client.feed(encode_transfer(0, LogEpoch(2, second), end, data))
    with pytest.raises(PutRefused):
        slave.put()
    slave.lead(3)
    assert not transport.is_open
    assert slave.ha.client.state is HAConnectionState.SHUTDOWN
    assert slave.put(b"3").queue_offset == 4
