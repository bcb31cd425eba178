"""The master's side of replication, told by slaves that are lists of bytes."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.replication.ha_service import ANY_SLAVE
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import SlaveCannotContinue, SlaveDisconnected
from rocketmq_emulator.protocol.replication import LogFrame, encode_report
from tests.support.broker.replica_rigs import ListTransport, Master, frames
from tests.support.broker.store_makers import LAST_4, LAST_5, TinyDisk

BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])


@BOTH
def test_r1_nothing_is_sent_before_eight_bytes_have_arrived(release: str) -> None:
    master = Master(release=release)
    master.put()
    connection, transport = master.connect()
    master.time.advance(6_000)
    connection.feed(encode_report(0)[:7])
    master.time.advance(6_000)
    assert transport.sent == []
    connection.feed(encode_report(0)[7:])
    assert frames(transport)[0].position == 0


@BOTH
def test_r2_an_empty_slave_is_sent_the_last_log_file(release: str) -> None:
    file_bytes = 200_000
    master = Master(
        MemoryDisk(), release=release, segment_bytes=file_bytes, message_bytes_max=60_000
    )
    for _ in range(8):
        master.put(b"x" * 50_000)
    connection, transport = master.connect()
    connection.feed(encode_report(0))
    assert frames(transport)[0].position == 2 * file_bytes


@BOTH
def test_r4_no_frame_reaches_across_the_end_of_a_file(release: str) -> None:
    master = Master(TinyDisk(), release=release)
    for _ in range(60):
        master.put()
    bases = [segment.base for segment in master.store.log.segments]
    connection, transport = master.connect()
    connection.feed(encode_report(1))
    starts = [frame.position for frame in frames(transport)]
    assert starts == [1, *bases[1:]]


@BOTH
def test_r3_the_first_frame_begins_where_the_first_report_says(release: str) -> None:
    master = Master(release=release)
    put = master.put()
    master.put()
    connection, transport = master.connect()
    connection.feed(encode_report(put.size - 5))
    (frame,) = frames(transport)
    assert frame.position == put.size - 5
    assert len(frame.data) == master.store.log.end_position - frame.position


@BOTH
def test_r4_frames_are_small_and_without_gaps(release: str) -> None:
    master = Master(MemoryDisk(), release=release)
    for _ in range(40):
        master.put(b"x" * 3_000)
    connection, transport = master.connect()
    connection.feed(encode_report(0))
    found = frames(transport)
    assert max(len(frame.data) for frame in found) == 32_768
    expected = 0
    for frame in found:
        assert frame.position == expected
        expected += len(frame.data)
    assert expected == master.store.log.end_position


@BOTH
def test_r5_an_idle_connection_is_sent_a_heartbeat_every_five_seconds(release: str) -> None:
    master = Master(release=release)
    end = master.put().size
    connection, transport = master.connect()
    connection.feed(encode_report(end))
    for _ in range(4):
        master.time.advance(4_000)
        connection.feed(encode_report(end))
    assert frames(transport) == [LogFrame(end, b"")] * 3
    assert [at_ms for at_ms, _ in transport.sent] == [5_001, 10_002, 15_003]


@BOTH
def test_without_puts_that_wait_the_log_is_looked_at_every_100_ms(release: str) -> None:
    master = Master(release=release)
    connection, transport = master.connect()
    connection.feed(encode_report(0))
    master.time.advance(250)
    master.put()
    master.put()
    master.time.advance(49)
    assert transport.sent == []
    master.time.advance(1)
    assert len(frames(transport)) == 1


@BOTH
def test_a_put_that_waits_is_sent_at_once(release: str) -> None:
    master = Master(release=release)
    connection, transport = master.connect()
    connection.feed(encode_report(0))
    master.put()
    master.ha.wake_at_turn_end()
    assert len(frames(transport)) == 1


@pytest.mark.parametrize(("release", "falls"), [(LAST_4, False), (LAST_5, True)])
def test_a_smaller_report_takes_a_copy_back_since_5_0(release: str, falls: bool) -> None:
    """In 4.x the highest report of any slave counts for ever, also of one that has gone.

    Upstream: HAService.notifyTransferSome (push2SlaveMaxOffset);
    DefaultHAConnection.ReadSocketService, which sets slaveAckOffset to each report.
    """
    master = Master(release=release)
    first, end = master.put().size, master.put().size * 2
    connection, _ = master.connect()
    connection.feed(encode_report(end))
    assert master.ha.replicated_to(ANY_SLAVE) == end
    connection.feed(encode_report(first))
    assert connection.acknowledged == first
    assert master.ha.replicated_to(ANY_SLAVE) == (first if falls else end)
    other, _ = master.connect()
    other.feed(encode_report(0))
    assert master.ha.replicated_to(ANY_SLAVE) == (first if falls else end)
    connection.transport.close()
    connection.closed("gone")
    assert master.ha.replicated_to(ANY_SLAVE) == (0 if falls else end)


@pytest.mark.parametrize("release", ["4.9.3", LAST_4])
def test_r8_a_slave_that_reports_beyond_the_end_is_closed_at_its_second_report(
    release: str,
) -> None:
    master = Master(release=release)
    end = master.put().size
    connection, transport = master.connect()
    connection.feed(encode_report(end + 1))
    assert transport.is_open, "the first report is not compared"
    connection.feed(encode_report(end + 1))
    assert not transport.is_open
    (gone,) = master.facts_of(SlaveDisconnected)
    assert isinstance(gone, SlaveDisconnected)
    assert "beyond the end" in gone.reason


@pytest.mark.parametrize("release", ["4.9.2", "5.0.0", LAST_5])
def test_r8_before_4_9_3_and_since_5_0_0_it_stays(release: str) -> None:
    master = Master(release=release)
    end = master.put().size
    connection, transport = master.connect()
    for _ in range(3):
        connection.feed(encode_report(end + 1))
    assert transport.is_open


@BOTH
def test_r9_a_slave_that_is_silent_for_more_than_20_s_is_closed(release: str) -> None:
    master = Master(release=release)
    connection, transport = master.connect()
    connection.feed(encode_report(0))
    master.time.advance(20_000)
    assert transport.is_open
    master.time.advance(1)
    assert not transport.is_open
    assert master.ha.connections == []


@BOTH
def test_a_slave_that_asks_for_bytes_that_are_gone_gets_heartbeats_only(release: str) -> None:
    master = Master(TinyDisk(), release=release)
    for _ in range(60):
        master.put()
    master.store.log.drop_oldest()
    connection, transport = master.connect()
    connection.feed(encode_report(7))
    master.time.advance(6_000)
    assert frames(transport) == [LogFrame(7, b"")]
    (fact,) = master.facts_of(SlaveCannotContinue)
    assert isinstance(fact, SlaveCannotContinue)
    assert fact.position == 7 < fact.min_position


@BOTH
def test_a_slave_that_stops_reading_holds_no_more_than_the_limit(release: str) -> None:
    master = Master(MemoryDisk(), release=release)
    for _ in range(40):
        master.put(b"x" * 100_000)
    connection, transport = master.connect()
    transport.send = growing(transport)  # type: ignore[method-assign]
    connection.feed(encode_report(0))
    assert 1_000_000 < transport.unsent < 1_200_000
    transport.unsent = 0
    connection.writable()
    assert sum(len(frame.data) for frame in frames(transport)) > 2_000_000


def growing(transport: ListTransport) -> object:
    """A ``send`` after which all bytes wait."""

    def send(data: bytes) -> None:
        transport.sent.append((0, data))
        transport.unsent += len(data)

    return send


def test_in_4_the_highest_report_counts_for_ever() -> None:
    master = Master(release=LAST_4)
    end = master.put().size
    connection, transport = master.connect()
    connection.feed(encode_report(end))
    transport.close()
    assert master.ha.replicated_to(2) == end
    assert not master.ha.is_slave_ok(), "no slave is connected"
    master.connect()
    assert master.ha.is_slave_ok()


def test_r12_in_4_a_slave_that_is_too_far_behind_is_none() -> None:
    master = Master(release=LAST_4, ha_behind_bytes_max=100)
    end = master.put(b"x" * 200).size
    connection, _ = master.connect()
    connection.feed(encode_report(0))
    assert not master.ha.is_slave_ok()
    connection.feed(encode_report(end))
    assert master.ha.is_slave_ok()


def test_in_5_open_connections_are_counted() -> None:
    master = Master(release=LAST_5)
    end = master.put().size
    first, transport = master.connect()
    second, _ = master.connect()
    first.feed(encode_report(end))
    second.feed(encode_report(end - 9))
    assert [master.ha.replicated_to(count) for count in (1, 2, 3, 4)] == [end, end, end - 9, -1]
    transport.close()
    assert master.ha.replicated_to(2) == end - 9
