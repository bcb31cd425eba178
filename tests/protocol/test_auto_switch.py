"""The bytes of the auto-switch HA stream, in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.auto_switch import (
    HANDSHAKE_EPOCHS_MAX,
    FromMaster,
    FromSlave,
    HAConnectionState,
    LogEpoch,
    MasterHandshake,
    MasterReader,
    SlaveHandshake,
    SlaveReader,
    SlaveReport,
    TransferFrame,
    encode_master_handshake,
    encode_slave_handshake,
    encode_slave_report,
    encode_transfer,
)
from rocketmq_emulator.protocol.replication import FRAME_BYTES_MAX, BadStream

LONGS = st.integers(0, 2**62)
FROM_SLAVE = st.one_of(
    st.builds(SlaveHandshake, LONGS, st.booleans(), st.booleans()),
    st.builds(SlaveReport, LONGS),
)
FRAMES = st.lists(
    st.builds(TransferFrame, LONGS, st.integers(0, 2**31 - 1), LONGS, LONGS, st.binary()),
    max_size=6,
)


def test_the_bytes_of_each_message_are_upstreams() -> None:
    hello = SlaveHandshake(258, from_last_file=True, is_async_learner=False)
    assert encode_slave_handshake(hello).hex(" ", 4) == "00000001 00010000 00000000 00000102"
    assert encode_slave_report(258).hex(" ", 4) == "00000002 00000000 00000102"
    epochs = [LogEpoch(1, 0, 7), LogEpoch(3, 7)]
    assert encode_master_handshake(9, epochs).hex(" ", 4) == (
        "00000001 00000018 00000000 00000009 00000003 "
        "00000001 00000000 00000000 00000003 00000000 00000007"
    )
    assert encode_master_handshake(0, []).hex(" ", 4) == (
        "00000001 00000000 00000000 00000000 ffffffff"
    )
    assert encode_transfer(8, LogEpoch(3, 7), 5, b"logs").hex(" ", 4) == (
        "00000002 00000004 00000000 00000008 00000003 00000000 00000007 00000000 00000005 6c6f6773"
    )


def encoded(message: FromSlave) -> bytes:
    if isinstance(message, SlaveHandshake):
        return encode_slave_handshake(message)
    return encode_slave_report(message.end)


@given(st.lists(FROM_SLAVE, max_size=8), st.lists(st.integers(0, 20), max_size=20))
def test_a_slaves_messages_are_the_same_in_whatever_pieces_they_come(
    sent: list[FromSlave], cuts: list[int]
) -> None:
    data = b"".join(map(encoded, sent))
    reader, at = SlaveReader(), 0
    found: list[FromSlave] = []
    for size in [*cuts, len(data)]:
        reader.feed(data[at : at + size])
        found += reader.messages()
        at += size
    assert found == sent


@given(FRAMES, st.lists(st.integers(0, 60), max_size=20))
def test_a_masters_messages_are_the_same_in_whatever_pieces_they_come(
    frames: list[TransferFrame], cuts: list[int]
) -> None:
    epochs = (LogEpoch(1, 0), LogEpoch(2, 100))
    sent: list[FromMaster] = [MasterHandshake(500, 2, epochs), *frames]
    data = encode_master_handshake(500, epochs) + b"".join(
        encode_transfer(
            frame.position,
            LogEpoch(frame.epoch, frame.epoch_start),
            frame.confirm_offset,
            frame.data,
        )
        for frame in frames
    )
    reader, at = MasterReader(), 0
    found: list[FromMaster] = []
    for size in [*cuts, len(data)]:
        reader.feed(data[at : at + size])
        for message in reader.messages():
            found.append(message)
            reader.state = HAConnectionState.TRANSFER
        at += size
    assert found == sent


@pytest.mark.parametrize("state", [-1, 0, 3, 4, 5, 2**31 - 1])
def test_a_state_that_no_slave_is_in_ends_the_stream(state: int) -> None:
    reader = SlaveReader()
    reader.feed(encode_slave_report(7) + state.to_bytes(4, "big", signed=True))
    found = reader.messages()
    assert next(found) == SlaveReport(7)
    with pytest.raises(BadStream, match="no slave sends that"):
        next(found)


@pytest.mark.parametrize("state", [-1, 0, 2, 9])
def test_a_masters_other_state_is_found_when_20_bytes_are_there(state: int) -> None:
    reader = MasterReader()
    head = state.to_bytes(4, "big", signed=True) + bytes(16)
    reader.feed(head[:19])
    assert list(reader.messages()) == []
    reader.feed(head[19:])
    with pytest.raises(BadStream, match="while this slave is in state HANDSHAKE"):
        list(reader.messages())


@pytest.mark.parametrize("size", [-1, FRAME_BYTES_MAX])
@pytest.mark.parametrize("state", [HAConnectionState.HANDSHAKE, HAConnectionState.TRANSFER])
def test_a_message_of_an_impossible_size_ends_the_stream(
    state: HAConnectionState, size: int
) -> None:
    reader = MasterReader()
    reader.state = state
    reader.feed(state.to_bytes(4, "big") + size.to_bytes(4, "big", signed=True) + bytes(12))
    with pytest.raises(BadStream, match="a frame of"):
        list(reader.messages())


@pytest.mark.parametrize("position", [-1, -(2**63), 2**63 - 1])
def test_bytes_at_an_impossible_position_end_the_stream_but_no_heartbeat(position: int) -> None:
    reader = MasterReader()
    reader.state = HAConnectionState.TRANSFER
    reader.feed(encode_transfer(position, LogEpoch(1, 0), 0, b""))
    assert [each.data for each in frames_of(reader)] == [b""]
    reader.feed(encode_transfer(position, LogEpoch(1, 0), 0, b"x"))
    with pytest.raises(BadStream, match="1 bytes at position"):
        list(reader.messages())


def frames_of(reader: MasterReader) -> list[TransferFrame]:
    return [each for each in reader.messages() if isinstance(each, TransferFrame)]


def test_a_piece_of_an_epoch_at_the_end_of_a_handshake_is_ignored() -> None:
    data = bytearray(encode_master_handshake(9, [LogEpoch(1, 0)]) + b"piece")
    data[4:8] = (12 + 5).to_bytes(4, "big")
    reader = MasterReader()
    reader.feed(bytes(data))
    assert list(reader.messages()) == [MasterHandshake(9, 1, (LogEpoch(1, 0),))]


def test_a_handshake_has_room_for_a_thousand_epochs() -> None:
    epochs = [LogEpoch(number, number) for number in range(HANDSHAKE_EPOCHS_MAX)]
    assert len(encode_master_handshake(9, epochs)) == 20 + 12 * 1_000
    with pytest.raises(AssertionError):
        encode_master_handshake(9, [*epochs, LogEpoch(2_000, 2_000)])
