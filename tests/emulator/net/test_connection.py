"""The connection: bytes in, replies out, and refusals."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import ConnectionClosed, FrameRefused, HandlerFailed, PushDropped
from rocketmq_emulator.protocol.command import (
    ONE_WAY,
    RESPONSE,
    RemotingCommand,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.framing import ROCKETMQ
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import Release
from tests.support.net.wired_server import Server, Wire, Word, a_request


async def test_many_frames_in_one_read_are_answered_in_one_write() -> None:
    server = Server()
    server.connection.feed(b"".join(a_request(5, opaque) for opaque in range(1, 101)))
    assert len(server.wire.sent) == 1
    answers = server.wire.commands()
    assert [answer.opaque for answer in answers] == list(range(1, 101))
    assert all(answer.flag == RESPONSE and answer.version == 407 for answer in answers)


async def test_a_frame_may_come_in_pieces() -> None:
    server = Server()
    for byte in a_request(5, word="slow"):
        server.connection.feed(bytes([byte]))
    assert server.wire.commands()[0].fields() == {"word": "slow"}


async def test_a_bad_frame_closes_its_connection_and_says_why() -> None:
    server = Server()
    server.connection.feed(a_request(5) + b"\x7f\xff\xff\xff....")
    assert not server.wire.is_open
    assert len(server.wire.commands()) == 1, "the request before the bad frame is answered"
    [refused] = server.said(FrameRefused)
    assert refused.peer == Wire.remote
    assert "exceeds" in refused.reason
    assert server.said(ConnectionClosed) == [ConnectionClosed(Wire.remote, "closed here")]


async def test_an_oversized_frame_is_refused_before_it_is_read() -> None:
    server = Server()
    server.connection.feed((16 * 1024 * 1024 - 3).to_bytes(4, "big"))
    assert not server.wire.is_open


async def test_bad_fields_get_a_coded_reply_and_the_connection_lives() -> None:
    server = Server()
    server.connection.feed(encode_command(RemotingCommand(code=5, opaque=4)))
    server.connection.feed(a_request(5, 5))
    assert [(a.opaque, a.code) for a in server.wire.commands()] == [(4, 1), (5, 0)]


async def test_one_way_requests_are_never_answered_whatever_happens() -> None:
    server = Server()
    for code in (5, 7, 8, 99):
        server.connection.feed(a_request(code, flag=ONE_WAY))
    assert server.wire.sent == []


async def test_a_bug_in_a_handler_is_a_system_error_and_a_fact() -> None:
    server = Server()
    server.connection.feed(a_request(7))
    [answer] = server.wire.commands()
    assert answer.code == 1
    [fact] = server.said(HandlerFailed)
    assert fact.error == "ZeroDivisionError: by nothing"
    assert "Traceback (most recent call last)" in fact.traceback
    assert "in fail\n" in fact.traceback, "it names the function"


async def test_a_refusal_of_a_call_with_a_reply_header_has_empty_ext_fields() -> None:
    server = Server()
    server.connection.feed(a_request(8))
    [answer] = server.wire.commands()
    assert (answer.code, answer.remark, bytes(answer.ext)) == (17, "no such thing", b"{}")


async def test_an_unknown_code_is_answered_with_not_supported() -> None:
    server = Server()
    server.connection.feed(a_request(4711))
    [answer] = server.wire.commands()
    assert (answer.code, answer.remark) == (3, " request type 4711 not supported")


@pytest.mark.parametrize(
    ("release", "kind"), [("4.9.3", 0), ("4.9.4", ROCKETMQ), ("4.9.8", ROCKETMQ), ("5.0.0", 0)]
)
async def test_4_9_4_to_4_9_8_answer_in_the_request_s_serialization_all_others_in_their_own(
    release: str, kind: int
) -> None:
    server = Server(Release.parse(release))
    server.connection.feed(a_request(5, serialize_type=ROCKETMQ))
    server.connection.feed(a_request(4711, 2, serialize_type=ROCKETMQ))
    answers = [(answer.code, answer.serialize_type) for answer in server.wire.commands()]
    assert answers == [(0, kind), (3, kind)]


async def test_a_held_call_is_answered_when_its_news_come(autojump_clock: MockClock) -> None:
    server = Server()
    server.connection.feed(a_request(6, word="knock"))
    server.remoting.ring("door", "wind")
    assert server.wire.sent == []
    server.remoting.ring("door", "knock")
    assert server.wire.commands()[0].fields() == {"word": "knock False 0"}
    assert server.remoting.bells.held_count == 0


@pytest.mark.parametrize(("news", "after_ms"), [([], 15_000), (["wind"], 5_000)])
async def test_a_held_call_ends_in_time_and_unwanted_news_bring_its_end_forward(
    news: list[str], after_ms: int, autojump_clock: MockClock
) -> None:
    server = Server()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        server.connection.feed(a_request(6, word="knock"))
        for one in news:
            server.remoting.ring("door", one)
        await trio.sleep(after_ms / 1000 - 0.001)
        assert server.wire.sent == []
        await trio.sleep(0.002)
        assert server.wire.commands()[0].fields() == {"word": f"knock True {after_ms}"}
        nursery.cancel_scope.cancel()


async def test_a_held_call_whose_asker_has_gone_is_let_go() -> None:
    server = Server()
    server.connection.feed(a_request(6, word="knock") + a_request(10, opaque=2, word="knock"))
    assert server.remoting.bells.held_count == 2
    server.wire.close()
    assert server.gone == ["knock"], "only the first has a ``gone``"
    assert server.remoting.bells.held_count == 1, "the other is still held"
    server.remoting.ring("door", "knock")
    assert server.remoting.bells.held_count == 0
    assert server.wire.sent == []


async def test_nothing_is_kept_of_a_connection_that_ended() -> None:
    server = Server()
    ended = weakref.ref(server.connection)
    server.connection.feed(a_request(6, word="knock") + a_request(5)[:-1])
    server.wire.close()
    del server.connection, server.wire
    gc.collect()
    assert ended() is None


async def test_an_answer_no_frame_can_hold_is_a_system_error_and_a_fact() -> None:
    server = Server()
    server.connection.feed(a_request(12) + a_request(5, opaque=2))
    assert [(a.opaque, a.code) for a in server.wire.commands()] == [(1, 1), (2, 0)]
    assert "exceeds" in (server.wire.commands()[0].remark or "")
    assert [fact.code for fact in server.said(HandlerFailed)] == [12]


async def test_who_only_listens_is_not_silent(autojump_clock: MockClock) -> None:
    server = Server()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        await trio.sleep(100)
        server.connection.push(40, Word(word="news"))
        await trio.sleep(100)
        assert server.wire.is_open
        await trio.sleep(21)
        assert not server.wire.is_open
        nursery.cancel_scope.cancel()


async def test_calls_that_waited_behind_a_slow_reader_come_when_they_are_read(
    autojump_clock: MockClock,
) -> None:
    server = Server(config=NetConfig(outbox_bytes_max=1_000))
    server.wire.stuck = True
    server.connection.feed(b"".join(a_request(13, opaque) for opaque in range(1, 101)))
    await trio.sleep(30)
    server.wire.stuck = False
    server.connection.writable()
    first, *_, last = (answer.fields()["word"] for answer in server.wire.commands())
    assert int(last) - int(first) == 30_000


async def test_a_server_may_ask_the_asker_first() -> None:
    server = Server()
    server.connection.feed(a_request(11, opaque=40))
    [question] = server.wire.commands()
    assert (question.code, question.is_response) == (307, False)
    answer = RemotingCommand(opaque=question.opaque, flag=RESPONSE, ext=ext_of(Word(word="me")))
    server.connection.feed(encode_command(answer))
    assert server.wire.commands()[1].fields() == {"word": "me"}
    assert server.wire.commands()[1].opaque == 40


async def test_a_slow_reader_slows_itself_and_loses_pushes_but_no_reply() -> None:
    server = Server(config=NetConfig(outbox_bytes_max=1_000))
    server.wire.stuck = True
    server.connection.feed(b"".join(a_request(5, opaque) for opaque in range(1, 101)))
    answered = len(server.wire.commands())
    assert 0 < answered < 100, "a full outbox stops decoding"
    assert not server.connection.push(40, Word(word="news"))
    assert [fact.code for fact in server.said(PushDropped)] == [40]
    server.wire.stuck = False
    server.connection.writable()
    assert [a.opaque for a in server.wire.commands()] == list(range(1, 101))


async def test_a_silent_connection_is_closed_after_two_minutes(autojump_clock: MockClock) -> None:
    server = Server()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        await trio.sleep(60)
        server.connection.feed(a_request(5))
        await trio.sleep(119.9)
        assert server.wire.is_open
        await trio.sleep(0.2)
        assert not server.wire.is_open
        assert server.said(ConnectionClosed) == [ConnectionClosed(Wire.remote, "idle")]
        nursery.cancel_scope.cancel()
