"""The slave's side of replication, with tests as its master."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.facts import (
    CopiedLogUnreadable,
    LogCopied,
    MasterDisconnected,
)
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.replication import encode_frame, encode_report
from tests.support.broker.replica_rigs import ManualTime, Master, Slave, joined, reports
from tests.support.broker.store_makers import LAST_4, LAST_5, TinyDisk

BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])


def log_of(master: Master) -> bytes:
    return bytes(master.store.log.read(0, master.store.log.end_position))


# The copy -----------------------------------------------------------------------------


@BOTH
def test_r10_the_copy_has_the_same_bytes_and_queue_offsets(release: str) -> None:
    time = ManualTime()
    master = Master(TinyDisk(), time, release=release)
    slave = Slave(TinyDisk(), time, release=release)
    tagged = properties_text({"TAGS": "a"}, trailing=True)
    for number in range(100):
        master.put(b"%d" % number, queue_id=number % 3, properties=tagged)
    _, carry = joined(master, slave)
    time.advance(6_000)
    carry()
    master.put(b"later")
    time.advance(100)
    carry()
    end = master.store.log.end_position
    assert slave.store.log.end_position == end
    assert [bytes(s.view) for s in slave.store.log.segments] == [
        bytes(s.view) for s in master.store.log.segments
    ]
    for queue_id in range(3):
        assert slave.bodies(queue_id) == master.bodies(queue_id)
    reopened = Slave(slave.disk, time, release=release)
    assert reopened.bodies(0) == master.bodies(0), "the queues are found in the log"


@BOTH
def test_a_message_is_readable_when_its_last_byte_has_come(release: str) -> None:
    master, slave = Master(release=release), Slave(release=release)
    size = master.put(b"first").size
    data = log_of(master)
    slave.connect()
    for at in range(size):
        assert slave.bodies() == []
        slave.client.feed(encode_frame(at, data[at : at + 1]))
    assert slave.bodies() == [b"first"]
    copied = [fact for fact in slave.facts_of(LogCopied) if isinstance(fact, LogCopied)]
    assert sum(fact.message_count for fact in copied) == 1


@BOTH
def test_each_frame_is_reported_and_reports_of_frames_that_came_together_are_sent_together(
    release: str,
) -> None:
    slave = Slave(release=release)
    transport = slave.connect()
    transport.sent.clear()
    slave.client.feed(
        encode_frame(0, b"123") + encode_frame(3, b"4567") + encode_frame(7, b"8")[:5]
    )
    assert [data for _, data in transport.sent] == [encode_report(3) + encode_report(7)]


@BOTH
def test_frames_before_a_wrong_one_are_reported(release: str) -> None:
    slave = Slave(release=release)
    transport = slave.connect()
    transport.sent.clear()
    slave.client.feed(encode_frame(0, b"123") + encode_frame(900, b"4567"))
    assert [data for _, data in transport.sent] == [encode_report(3)]
    assert slave.client.transport is None


@BOTH
def test_a_message_whose_body_was_damaged_on_the_way_is_readable(release: str) -> None:
    master, slave = Master(release=release), Slave(release=release)
    master.put(b"first")
    slave.connect()
    slave.client.feed(encode_frame(0, log_of(master).replace(b"first", b"fiRst")))
    assert slave.bodies() == [b"fiRst"], "upstream's doReput checks no body"


@BOTH
def test_a_slave_stores_nothing_itself(release: str) -> None:
    slave = Slave(release=release)
    with pytest.raises(PutRefused) as refused:
        slave.put()
    assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert slave.store.log.end_position == 0


@BOTH
def test_a_copy_may_begin_in_the_middle_of_the_masters_log(release: str) -> None:
    master, slave = Master(TinyDisk(), release=release), Slave(TinyDisk(), release=release)
    for number in range(60):
        master.put(b"%d" % number)
    last = master.store.log.segments[-1].base
    end = master.store.log.end_position
    slave.connect()
    slave.client.feed(encode_frame(last, bytes(master.store.log.read(last, end - last))))
    count = len(slave.messages())
    assert slave.bodies() == [b"%d" % number for number in range(60 - count, 60)]
    assert slave.store.min_offset("orders", 0) == 60 - count > 0


@BOTH
def test_bytes_that_are_no_message_are_named_once_and_kept(release: str) -> None:
    slave = Slave(release=release)
    slave.connect()
    slave.client.feed(encode_frame(0, b"no record at all"))
    slave.client.feed(encode_frame(16, b"nor this"))
    (fact,) = slave.facts_of(CopiedLogUnreadable)
    assert isinstance(fact, CopiedLogUnreadable)
    assert fact.position == 0
    assert slave.store.log.end_position == 24


@BOTH
def test_a_master_with_files_of_another_size_is_refused_by_name(release: str) -> None:
    slave = Slave(TinyDisk(), release=release)
    transport = slave.connect()
    slave.client.feed(encode_frame(0, bytes(5_000)))
    assert not transport.is_open
    (fact,) = slave.facts_of(MasterDisconnected)
    assert isinstance(fact, MasterDisconnected)
    assert "mappedFileSizeCommitLog" in fact.reason


# Reports ------------------------------------------------------------------------------


@BOTH
def test_r5_a_slave_reports_every_five_seconds_and_after_each_frame(release: str) -> None:
    slave = Slave(release=release, ha_silence_ms_max=100_000)
    transport = slave.connect()
    slave.time.advance(5_500)
    slave.client.feed(encode_frame(0, b"bytes"))
    slave.client.feed(encode_frame(5, b""))
    slave.time.advance(10_000)
    found = reports(transport)
    assert (5_500, 5) in found
    later = [at_ms for at_ms, position in found if at_ms > 5_500 and position == 5]
    assert len(later) == 1, "one in ten seconds, between five and six after the last"
    assert 10_500 < later[0] <= 11_500


def test_r7_a_slave_of_4_reports_five_to_six_seconds_after_it_connected() -> None:
    slave = Slave(release=LAST_4)
    slave.time.advance(30_000)
    transport = slave.connect()
    slave.time.advance(6_000)
    assert reports(transport) == [(36_000, 0)]


def test_r7_one_of_5_reports_at_once_if_its_last_report_is_old() -> None:
    slave = Slave(release=LAST_5)
    slave.time.advance(5_001)
    transport = slave.connect()
    assert reports(transport) == [(5_001, 0)]


# Ends ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("data", [b"", b"more"])
def test_r6_a_frame_that_does_not_continue_the_log_ends_the_stream(
    release: str, data: bytes
) -> None:
    slave = Slave(release=release)
    transport = slave.connect()
    slave.client.feed(encode_frame(0, b"bytes"))
    slave.client.feed(encode_frame(9, data))
    assert not transport.is_open
    assert slave.store.log.end_position == 5, "it is never cut"
    assert slave.client.waits_before_connecting is (release == LAST_5)


@BOTH
def test_r9_only_a_slave_of_5_leaves_a_silent_master(release: str) -> None:
    slave = Slave(release=release)
    transport = slave.connect()
    slave.time.advance(20_000)
    assert transport.is_open
    slave.time.advance(2_000)
    assert transport.is_open is (release == LAST_4)
    assert not slave.client.waits_before_connecting, "it connects again at once"


# The address of the master ------------------------------------------------------------


@pytest.mark.parametrize(("release", "address"), [(LAST_4, "10.0.0.2:10912"), (LAST_5, None)])
def test_up_to_4_9_a_slave_copies_from_the_address_of_its_file_and_since_5_0_from_none(
    release: str, address: str | None
) -> None:
    slave = Slave(release=release, ha_master_address="10.0.0.2:10912")
    assert slave.client.master_address == address
