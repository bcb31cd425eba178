"""The names of a client, which a proxy reads from the bytes that the client sends."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.links.endpoints import ClientNameReader
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command
from rocketmq_emulator.protocol.framing import JSON, ROCKETMQ

HEARTBEAT = (
    b'{"clientID":"10.0.0.1@billing-1","consumerDataSet":[{"groupName":"billing"}],'
    b'"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}]}'
)
NAMES = {"clients", "10.0.0.1@billing-1", "billing-1", "billing", "CLIENT_INNER_PRODUCER"}


def a_frame(code: int, body: bytes, serialize_type: int = JSON) -> bytes:
    return encode_command(
        RemotingCommand(code=code, opaque=7, body=body, serialize_type=serialize_type)
    )


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_heartbeat_tells_id_and_groups_however_it_is_cut(step: int, serialize_type: int) -> None:
    sent = a_frame(310, b"x" * 300, serialize_type) + a_frame(34, HEARTBEAT, serialize_type)
    sent += a_frame(11, b"", serialize_type)
    names = ClientNameReader()
    changes = [names.feed(sent[start : start + step]) for start in range(0, len(sent), step)]
    assert names.names == NAMES
    assert changes.count(True) == 1


def test_a_second_heartbeat_may_tell_more_groups() -> None:
    names = ClientNameReader()
    names.feed(a_frame(34, HEARTBEAT))
    assert names.feed(a_frame(34, HEARTBEAT.replace(b'"billing"', b'"shipping"')))
    assert names.names is not None
    assert "shipping" in names.names
    assert "billing" not in names.names


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"clientID":null}', b"\xff"])
def test_a_heartbeat_that_cannot_be_read_tells_nothing(body: bytes) -> None:
    names = ClientNameReader()
    assert not names.feed(a_frame(34, body))
    assert names.names is None
    assert names.feed(a_frame(34, HEARTBEAT))


def test_bytes_that_are_no_frames_are_not_kept() -> None:
    names = ClientNameReader()
    for _ in range(3):
        assert not names.feed(b"GET / HTTP/1.1\r\n\r\n" * 100)
    assert names.names is None
    assert not names.feed(a_frame(34, HEARTBEAT)), "the stream is not read after bad bytes"
