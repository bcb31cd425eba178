"""What a broken peer can do on the default HA stream: nothing but lose its own connection.

The same for the stream of controller mode is in ``test_auto_switch.py``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.broker.replication.ha_client import UNSENT_REPORTS_BYTES_MAX
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import MasterDisconnected, SlaveCannotContinue, SlaveDisconnected
from rocketmq_emulator.protocol.replication import FRAME_BYTES_MAX, encode_frame, encode_report
from tests.support.broker.replica_rigs import Master, Slave, reports
from tests.support.broker.store_makers import LAST_4, LAST_5

BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])
POSITIONS = st.one_of(st.integers(-2, 700), st.integers(-(2**63), 2**63 - 1))


@BOTH
@given(sent=st.lists(st.one_of(st.binary(max_size=40), POSITIONS), max_size=20))
def test_a_master_survives_whatever_a_slave_sends(release: str, sent: list[bytes | int]) -> None:
    master = Master(release=release)
    bodies = [b"first"]
    master.put(b"first")
    connection, transport = master.connect()
    for number, each in enumerate(sent):
        connection.feed(each if isinstance(each, bytes) else encode_report(each))
        master.time.advance(700)
        if not transport.is_open:
            break
        bodies.append(b"%d" % number)
        master.put(bodies[-1])
    assert master.bodies() == bodies


@BOTH
@given(
    stored=st.integers(0, 2),
    sent=st.lists(
        st.one_of(st.binary(max_size=40), st.tuples(POSITIONS, st.binary(max_size=300))),
        max_size=10,
    ),
)
def test_a_slave_survives_whatever_a_master_sends(
    release: str, stored: int, sent: list[bytes | tuple[int, bytes]]
) -> None:
    master, slave = Master(release=release), Slave(MemoryDisk(), release=release)
    for number in range(stored):
        master.put(b"%d" % number)
    end = master.store.log.end_position
    slave.connect()
    if end:
        slave.client.feed(encode_frame(0, bytes(master.store.log.read(0, end))))
    for each in sent:
        slave.client.feed(each if isinstance(each, bytes) else encode_frame(*each))
        slave.time.advance(3_000)
        if slave.client.transport is None:
            slave.connect()
    assert slave.bodies()[:stored] == [b"%d" % number for number in range(stored)]
    reopened = Slave(slave.disk, slave.time, release=release)
    assert reopened.bodies()[:stored] == slave.bodies()[:stored]


@BOTH
@pytest.mark.parametrize(("position", "data"), [(-5, b"log"), (-1, b""), (2**63 - 1, b"l")])
def test_an_empty_slave_begins_no_log_at_a_position_that_none_has(
    release: str, position: int, data: bytes
) -> None:
    slave = Slave(MemoryDisk(), release=release)
    transport = slave.connect()
    slave.client.feed(encode_frame(position, data))
    assert not transport.is_open
    (fact,) = slave.facts_of(MasterDisconnected)
    assert isinstance(fact, MasterDisconnected)
    assert "no log has that" in fact.reason
    assert slave.store.log.end_position == 0
    slave.connect()
    slave.client.feed(encode_frame(0, b"bytes"))
    assert slave.store.log.end_position == 5, "the next connection may be a good one"


@BOTH
@pytest.mark.parametrize("size", [-1, FRAME_BYTES_MAX])
def test_a_frame_of_an_impossible_size_costs_the_master_its_connection(
    release: str, size: int
) -> None:
    slave = Slave(release=release)
    transport = slave.connect()
    slave.client.feed(encode_frame(0, b"bytes"))
    slave.client.feed((5).to_bytes(8, "big") + size.to_bytes(4, "big", signed=True))
    assert not transport.is_open
    assert slave.store.log.end_position == 5


@BOTH
def test_half_a_head_and_half_a_frame_wait_and_are_forgotten_with_the_connection(
    release: str,
) -> None:
    slave = Slave(release=release, ha_silence_ms_max=100_000)
    frame = encode_frame(0, b"bytes")
    for piece in (frame[:7], frame[:-1]):
        transport = slave.connect()
        slave.client.feed(piece)
        slave.time.advance(4_000)
        assert transport.is_open
        assert slave.store.log.end_position == 0
        slave.client.close()
    slave.connect()
    slave.client.feed(frame)
    assert slave.store.log.end_position == 5


@BOTH
@pytest.mark.parametrize("report", [-1, 2**63 - 1])
def test_a_slave_at_a_position_that_the_log_lacks_is_named_and_sent_heartbeats_only(
    release: str, report: int
) -> None:
    master = Master(release=release)
    end = master.put().size
    connection, transport = master.connect()
    connection.feed(encode_report(report))
    (fact,) = master.facts_of(SlaveCannotContinue)
    assert fact == SlaveCannotContinue(transport.remote, report, 0, end)
    master.put()
    master.time.advance(6_000)
    assert [data for _, data in transport.sent] == [encode_frame(report, b"")]


@BOTH
def test_a_slave_that_sends_half_reports_for_ever_is_held_in_eight_bytes(release: str) -> None:
    master = Master(release=release)
    connection, transport = master.connect()
    for _ in range(50):
        connection.feed(b"\xff" * 9)
        master.time.advance(1_000)
    assert len(connection._reports._rest) < 8
    transport.close()
    assert [type(fact) for fact in master.facts_of(SlaveDisconnected)] == [SlaveDisconnected]
    assert master.ha.connections == []


@BOTH
def test_a_master_that_reads_no_reports_is_sent_no_more_than_the_limit(release: str) -> None:
    slave = Slave(release=release, ha_silence_ms_max=10_000_000)
    transport = slave.connect()
    for position in range(1_000):
        slave.client.feed(encode_frame(position, b"x"))
        transport.unsent = sum(len(data) for _, data in transport.sent)
        slave.time.advance(1_000)
    assert transport.unsent == UNSENT_REPORTS_BYTES_MAX
    assert slave.store.log.end_position == 1_000, "it goes on copying"
    transport.unsent = 0
    slave.time.advance(1_000)
    assert reports(transport)[-1][1] == 1_000, "when it reads again it learns the newest"
