"""The master's end in controller mode, told by slaves that are lists of bytes."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.replication.ha_service import UNSENT_BYTES_MAX
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import (
    EpochsDoNotFit,
    SlaveCannotContinue,
    SlaveConnected,
    SlaveDisconnected,
    SlaveHandshaken,
    SlaveWithoutEpoch,
)
from rocketmq_emulator.protocol.auto_switch import (
    HANDSHAKE_EPOCHS_MAX,
    LogEpoch,
    MasterHandshake,
    SlaveHandshake,
    encode_slave_handshake,
    encode_slave_report,
)
from tests.support.broker.replica_rigs import ListTransport
from tests.support.broker.store_makers import TinyDisk
from tests.support.broker.switch_rigs import Switcher, frames, from_master, introduced

HELLO = encode_slave_handshake(SlaveHandshake(2))


def test_a_handshake_is_answered_with_the_end_and_the_epochs_of_the_log() -> None:
    master = Switcher().lead(1)
    first = master.put().size
    master.lead(3)
    connection, transport = master.accept()
    connection.feed(HELLO[:15])
    assert transport.sent == []
    connection.feed(HELLO[15:])
    (answer,) = from_master(transport)
    assert answer == MasterHandshake(first, 3, (LogEpoch(1, 0), LogEpoch(3, first)))
    (fact,) = master.facts_of(SlaveHandshaken)
    assert fact == SlaveHandshaken("127.0.0.1:4711", 2, (1, 3), False, False)


def test_a_handshake_that_comes_again_is_answered_again() -> None:
    master = Switcher().lead(1)
    connection, transport = master.accept()
    connection.feed(HELLO)
    connection.feed(HELLO)
    (_, first), (_, second) = transport.sent
    assert first == second


def test_nothing_is_sent_before_a_report_not_even_heartbeats() -> None:
    master = Switcher().lead(1)
    master.put()
    connection, transport = master.accept()
    master.time.advance(19_000)
    assert transport.sent == []
    connection.feed(HELLO)
    transport.sent.clear()
    master.time.advance(19_000)
    assert transport.sent == []


def test_r51_an_empty_slave_is_sent_the_whole_log() -> None:
    master = Switcher(TinyDisk()).lead(1)
    for _ in range(60):
        master.put()
    master.store.log.drop_oldest()
    _, transport = introduced(master, 0)
    found = frames(transport)
    assert found[0].position == master.store.log.min_position
    assert b"".join(frame.data for frame in found) == master.log_bytes()


def test_an_empty_slave_that_asks_for_it_begins_with_the_last_file() -> None:
    file_bytes = 200_000
    master = Switcher(MemoryDisk(), segment_bytes=file_bytes, message_bytes_max=60_000).lead(1)
    for _ in range(8):
        master.put(b"x" * 50_000)
    _, transport = introduced(master, 0, from_last_file=True)
    assert frames(transport)[0].position == 2 * file_bytes


def test_r51_frames_have_epoch_and_confirm_offset_and_end_where_an_epoch_does() -> None:
    master = Switcher(MemoryDisk())
    starts = []
    for epoch in (1, 2, 5):
        master.lead(epoch)
        starts.append(master.store.log.end_position)
        for _ in range(3):
            master.put(b"x" * 20_000)
    end = master.store.log.end_position
    _, transport = introduced(master, 0)
    found = frames(transport)
    assert b"".join(frame.data for frame in found) == master.log_bytes()
    cuts = [frame for frame in found if frame.position + len(frame.data) in starts[1:]]
    # The frame that ends an epoch has the next one in its header already.
    assert [(frame.epoch, frame.epoch_start) for frame in cuts] == [(2, starts[1]), (5, starts[2])]
    for frame in found:
        inside = [start for start in starts if frame.position < start]
        assert not inside or frame.position + len(frame.data) <= inside[0]
        assert frame.confirm_offset == end
    assert max(len(frame.data) for frame in found) == 32_768
    assert [frame.epoch for frame in found if frame not in cuts] == sorted(
        frame.epoch for frame in found if frame not in cuts
    )


def test_r51_a_slave_exactly_at_the_end_of_an_epoch_is_sent_the_next_one_without_bytes() -> None:
    end = Switcher().lead(1).put().size
    master = Switcher(ha_frame_bytes_max=end).lead(1)
    master.put()
    master.lead(2)
    master.put()
    _, transport = introduced(master, 0)
    found = [(each.position, each.epoch, len(each.data)) for each in frames(transport)]
    assert found == [(0, 1, end), (end, 2, 0), (end, 2, end)]


def test_an_epoch_that_fits_into_one_frame_is_never_named() -> None:
    master = Switcher().lead(1)
    for epoch in (2, 3):
        master.put()
        master.lead(epoch)
    master.put()
    _, transport = introduced(master, 0)
    assert [frame.epoch for frame in frames(transport)] == [2, 3, 3]


def test_a_slave_that_begins_where_an_epoch_does_is_in_that_epoch() -> None:
    master = Switcher().lead(1)
    end = master.put().size
    master.lead(2)
    master.put()
    _, transport = introduced(master, end)
    (frame,) = frames(transport)
    assert (frame.position, frame.epoch, frame.epoch_start) == (end, 2, end)


def test_a_new_epoch_of_the_same_master_is_not_told_to_connected_slaves() -> None:
    master = Switcher().lead(1)
    end = master.put().size
    connection, transport = introduced(master, end)
    assert master.ha.change_to_master_when_last_role_is_master(2)
    master.put()
    master.time.advance(200)
    assert [frame.epoch for frame in frames(transport)] == [1]
    assert transport.is_open
    assert connection in master.ha.connections


def test_an_epoch_that_is_the_last_one_again_has_no_end() -> None:
    master = Switcher().lead(1)
    end = master.put().size
    master.ha.epoch_file.append(2, end)
    master.ha.epoch_file.cut_from(end)  # epoch 1 keeps its end
    master.put()
    _, transport = introduced(master, 0)
    assert b"".join(frame.data for frame in frames(transport)) == master.log_bytes()


def test_heartbeats_come_after_five_seconds_with_the_epoch_and_what_is_confirmed() -> None:
    master = Switcher().lead(4)
    end = master.put().size
    connection, transport = introduced(master, end)
    for _ in range(3):
        master.time.advance(4_000)
        connection.feed(encode_slave_report(end))
    assert [at_ms for at_ms, _ in transport.sent] == [5_001, 10_002]
    assert frames(transport) == [(end, 4, 0, end, b"")] * 2


def test_before_a_log_exists_heartbeats_have_position_minus_one() -> None:
    master = Switcher().lead(1)
    _, transport = introduced(master, 0)
    master.time.advance(5_001)
    assert frames(transport) == [(-1, 1, 0, 0, b"")]
    put = master.put()
    master.time.advance(500)
    assert frames(transport)[-1][:2] == (0, 1)
    assert len(frames(transport)[-1].data) == put.size


def test_a_broker_without_epochs_closes_instead_of_a_heartbeat() -> None:
    master = Switcher()
    _, transport = introduced(master, 0)
    master.time.advance(5_001)
    assert not transport.is_open


def test_a_slave_at_a_position_of_no_epoch_gets_heartbeats_only() -> None:
    master = Switcher()
    master.store.lead()
    first = master.put().size
    master.put()
    master.lead(1)
    master.put()
    _, transport = introduced(master, first)
    master.time.advance(6_000)
    (frame,) = frames(transport)
    assert frame == (first, 1, 2 * first, master.store.log.end_position, b"")
    assert master.facts_of(SlaveWithoutEpoch) == [SlaveWithoutEpoch("127.0.0.1:4711", first, (1,))]


def test_a_log_from_before_the_controller_is_sent_to_an_empty_slave() -> None:
    master = Switcher()
    master.store.lead()
    master.put()
    master.lead(1)
    _, transport = introduced(master, 0)
    first, second = frames(transport)
    assert (first.position, first.epoch, first.data) == (0, 1, b"")
    assert (second.position, second.data) == (0, master.log_bytes())


def test_more_epochs_than_a_handshake_holds_close_the_connection() -> None:
    master = Switcher()
    for number in range(HANDSHAKE_EPOCHS_MAX + 1):
        master.ha.epoch_file.append(number, number)
    connection, transport = master.accept()
    connection.feed(HELLO)
    assert transport.sent == []
    assert not transport.is_open
    assert master.facts_of(EpochsDoNotFit) == [
        EpochsDoNotFit("127.0.0.1:4711", 1_001, HANDSHAKE_EPOCHS_MAX)
    ]


@pytest.mark.parametrize("state", [-1, 0, 3, 4, 7])
def test_a_message_of_another_state_closes_the_connection(state: int) -> None:
    master = Switcher().lead(1)
    connection, transport = master.accept()
    connection.feed(HELLO + state.to_bytes(4, "big", signed=True))
    assert not transport.is_open
    (gone,) = master.facts_of(SlaveDisconnected)
    assert isinstance(gone, SlaveDisconnected)
    assert "no slave sends that" in gone.reason


def test_a_slave_ahead_of_its_master_stays_and_is_sent_nothing() -> None:
    master = Switcher().lead(1)
    end = master.put().size
    connection, transport = introduced(master, end + 1_000)
    connection.feed(encode_slave_report(end + 1_000))
    master.time.advance(5_001)
    assert transport.is_open
    assert [frame.position for frame in frames(transport)] == [end + 1_000]
    (fact,) = master.facts_of(SlaveCannotContinue)
    assert isinstance(fact, SlaveCannotContinue)
    assert fact.end_position == end


def test_a_report_below_zero_is_answered_with_heartbeats_only() -> None:
    master = Switcher().lead(1)
    master.put()
    _, transport = introduced(master, -7)
    master.time.advance(6_000)
    assert [frame.data for frame in frames(transport)] == [b""]


def test_a_silent_slave_is_closed_after_20_s() -> None:
    master = Switcher().lead(1)
    _, transport = introduced(master, 0)
    master.time.advance(20_000)
    assert transport.is_open
    master.time.advance(1)
    assert not transport.is_open


def test_a_slave_that_stops_reading_holds_no_more_than_the_limit() -> None:
    master = Switcher(MemoryDisk()).lead(1)
    for _ in range(40):
        master.put(b"x" * 100_000)
    connection, transport = master.accept()
    connection.feed(HELLO)
    transport.send = growing(transport)  # type: ignore[method-assign]
    connection.feed(encode_slave_report(0))
    assert UNSENT_BYTES_MAX < transport.unsent < UNSENT_BYTES_MAX + 40_000
    assert not connection.is_caught_up
    master.time.advance(10_000)
    assert transport.unsent < UNSENT_BYTES_MAX + 40_000
    transport.unsent = 0
    connection.writable()
    assert UNSENT_BYTES_MAX < transport.unsent < UNSENT_BYTES_MAX + 40_000


def growing(transport: ListTransport) -> object:
    """A ``send`` after which all bytes wait."""

    def send(data: bytes) -> None:
        transport.sent.append((0, data))
        transport.unsent += len(data)

    return send


def test_flow_control_spreads_the_log_over_seconds() -> None:
    master = Switcher(MemoryDisk(), ha_flow_control=True, ha_bytes_per_second_max=50_000).lead(1)
    for _ in range(4):
        master.put(b"x" * 30_000)
    connection, transport = introduced(master, 0)
    by_second: dict[int, int] = {}
    for _ in range(4):
        master.time.advance(1_000)
        connection.feed(encode_slave_report(0))
    for at_ms, data in transport.sent:
        by_second[at_ms // 1_000] = by_second.get(at_ms // 1_000, 0) + len(data)
    assert b"".join(frame.data for frame in frames(transport)) == master.log_bytes()
    assert len(by_second) >= 3
    assert max(by_second.values()) < 50_000 + 36 * 3


def test_a_new_message_is_sent_within_100_ms_or_when_a_put_waits() -> None:
    master = Switcher().lead(1)
    end = master.put().size
    _, transport = introduced(master, end)
    master.time.advance(250)
    master.put()
    master.time.advance(49)
    assert transport.sent == []
    master.time.advance(1)
    assert len(frames(transport)) == 1
    master.put()
    master.ha.wake_at_turn_end()
    assert len(frames(transport)) == 2


def test_the_first_report_alone_says_where_to_begin() -> None:
    master = Switcher().lead(1)
    end = master.put().size
    connection, transport = introduced(master, end)
    connection.feed(encode_slave_report(0))
    master.put()
    master.time.advance(100)
    assert frames(transport)[0].position == end
    assert len(master.facts_of(SlaveConnected)) == 1
