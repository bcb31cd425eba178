"""Headers and bodies that are refused unread: decoding them would delay all others."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import ConnectionClosed, FrameRefused
from rocketmq_emulator.net.connection import check_body
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.framing import JSON, ROCKETMQ, encode_frame
from rocketmq_emulator.settings.config import NetConfig
from tests.support.net.wired_server import Server, a_request

SMALL = NetConfig(header_bytes_max=1_000, body_objects_max=10, body_members_max=100)


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
async def test_a_request_with_a_long_header_is_answered_with_the_limit(kind: int) -> None:
    server = Server(config=SMALL)
    server.connection.feed(a_request(5, 7, word="x" * 2_000, serialize_type=kind))
    [answer] = server.wire.commands()
    assert (answer.opaque, answer.code) == (7, 1)
    assert "the limit is 1000 (header_bytes_max); nothing was done" in (answer.remark or "")
    [refused] = server.said(FrameRefused)
    assert not refused.closed
    server.connection.feed(a_request(5, 8))
    assert server.wire.commands()[1].code == 0, "the connection stays open"


@pytest.mark.parametrize(
    ("kind", "header"),
    [(JSON, b"{'code':5,'remark':'" + b"x" * 2_000 + b"'}"), (ROCKETMQ + 7, b"x" * 2_000)],
)
async def test_a_long_header_without_a_number_to_answer_closes_its_connection(
    kind: int, header: bytes
) -> None:
    server = Server(config=SMALL)
    server.connection.feed(encode_frame(kind, header, b""))
    assert server.said(ConnectionClosed)


async def test_a_long_header_of_a_reply_is_read() -> None:
    server = Server(config=SMALL)
    reply = RemotingCommand(code=0, flag=1, opaque=9, remark="x" * 2_000)
    server.connection.feed(encode_command(reply))
    assert not server.facts[1:], "a reply without a call is no error"


def test_a_body_of_too_many_objects_or_members_is_refused_with_the_limit() -> None:
    check_body(catalog.HEART_BEAT, b"{" * 10 + b"," * 100, SMALL)
    with pytest.raises(BadFields, match=r"11 objects: the limit is 10 \(body_objects_max\)"):
        check_body(catalog.HEART_BEAT, b"{" * 11, SMALL)
    with pytest.raises(BadFields, match=r"101 members: the limit is 100 \(body_members_max\)"):
        check_body(catalog.HEART_BEAT, b"," * 101, SMALL)


def test_a_message_may_hold_whatever_it_likes() -> None:
    check_body(catalog.SEND_MESSAGE_V2, b"{," * 1_000, SMALL)


def test_a_registration_may_have_as_many_objects_as_a_broker_has_topics() -> None:
    check_body(catalog.REGISTER_BROKER, b"{," * 1_000, SMALL)
    with pytest.raises(BadFields, match="registration_objects_max"):
        check_body(catalog.REGISTER_BROKER, b"{" * 250_001, SMALL)


async def test_a_body_is_counted_before_its_handler_is_asked() -> None:
    server = Server(config=SMALL)
    body = b"{" * 70_000
    server.remoting.handlers = {34: (catalog.HEART_BEAT, lambda _call: pytest.fail("was asked"))}
    server.connection.feed(encode_command(RemotingCommand(code=34, opaque=1, body=body)))
    [answer] = server.wire.commands()
    assert answer.code == 1
    assert "body_objects_max" in (answer.remark or "")
