"""Turns: bells are delivered when a turn ends, and never before."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import HandlerFailed
from rocketmq_emulator.net.results import NO_REPLY, Call, Reply, Result, Wait
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.rpc import Rpc
from tests.support.net.wired_server import Server, Word, a_request

RING = Rpc(code=20, name="RING", answered_by=("broker",), request=Word, reply=Header)
RELAY = Rpc(code=21, name="RELAY", answered_by=("broker",), request=Word, reply=Header)
LISTEN = Rpc(code=22, name="LISTEN", answered_by=("broker",), request=Word, reply=Header)
BAD_FILTER = Rpc(code=23, name="BAD_FILTER", answered_by=("broker",), request=Word, reply=Header)


class RingingServer(Server):
    """Its handlers use the bell "door"; ``log`` has the order of events."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        more = {
            20: (RING, self.ring_twice),
            21: (RELAY, self.relay),
            22: (LISTEN, self.listen),
            23: (BAD_FILTER, self.bad_filter),
        }
        self.remoting.handlers = {**self.remoting.handlers, **more}

    def ring_twice(self, call: Call) -> Result:
        self.remoting.ring("door", "first")
        self.remoting.ring("door", call.request.word)
        self.log.append("handler returns")
        return Reply()

    def listen(self, call: Call) -> Result:
        def resume(_now_ms: int, _expired: bool) -> Result:
            self.log.append(f"{call.request.word} resumes")
            return Reply(Word(word=call.request.word))

        def wants(news: str) -> bool:
            self.log.append(f"{call.request.word} sees {news}")
            return news == call.request.word

        return Wait("door", call.now_ms + 15_000, resume, wants, lambda now_ms: now_ms + 5_000)

    def relay(self, call: Call) -> Result:
        """Hold the call; when it is resumed, ring the bell with the next number."""
        here = int(call.request.word)

        def resume(_now_ms: int, _expired: bool) -> Result:
            self.remoting.ring("door", str(here + 1))
            return Reply(Word(word=call.request.word))

        return Wait("door", call.now_ms + 15_000, resume, lambda news: news == str(here))

    def bad_filter(self, call: Call) -> Result:
        return Wait("door", call.now_ms + 15_000, lambda *_: NO_REPLY, lambda _: 1 / 0 > 0)


async def test_bells_are_delivered_after_the_handler_and_all_news_at_once() -> None:
    server = RingingServer()
    server.connection.feed(a_request(22, 1, "second") + a_request(20, 2, "second"))
    assert server.log == [
        "handler returns",
        "second sees first",
        "second sees second",
        "second resumes",
    ]
    assert len(server.wire.sent) == 1, "both replies are in one write"
    assert [answer.opaque for answer in server.wire.commands()] == [2, 1]


async def test_who_comes_after_the_news_does_not_see_them(autojump_clock: MockClock) -> None:
    server = RingingServer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        early, late = a_request(22, 1, "early"), a_request(22, 3, "second")
        server.connection.feed(early + a_request(20, 2, "second") + late)
        assert "second sees second" not in server.log
        await trio.sleep(6)
        assert server.remoting.bells.held_count == 1, "the early call has ended earlier"
        await trio.sleep(10)
        assert [answer.opaque for answer in server.wire.commands()] == [2, 1, 3]
        nursery.cancel_scope.cancel()


async def test_a_thousand_calls_may_wake_one_another_in_one_turn() -> None:
    server = RingingServer()
    server.connection.feed(b"".join(a_request(21, n, str(n)) for n in range(1, 1_001)))
    assert server.wire.sent == []
    server.remoting.ring("door", "1")
    assert [answer.opaque for answer in server.wire.commands()] == list(range(1, 1_001))
    assert len(server.wire.sent) == 1


async def test_a_filter_that_fails_is_its_owner_s_error_and_nobody_else_s() -> None:
    server = RingingServer()
    server.connection.feed(a_request(23, 1) + a_request(22, 2, "knock"))
    server.connection.feed(a_request(20, 3, "knock"))
    assert [(a.opaque, a.code) for a in server.wire.commands()] == [(3, 0), (1, 1), (2, 0)]
    [fact] = server.said(HandlerFailed)
    assert fact.error.startswith("ZeroDivisionError")


async def test_a_turn_that_fails_still_delivers() -> None:
    server = RingingServer()
    server.connection.feed(a_request(22, 1, "knock"))

    def fail_after_ringing() -> None:
        with server.remoting.batch():
            server.remoting.ring("door", "knock")
            raise KeyError("later")

    with pytest.raises(KeyError):
        fail_after_ringing()
    assert server.log[-1] == "knock resumes"
    assert server.remoting.turn.depth == 0


async def test_what_fails_at_the_end_of_a_turn_leaves_no_turn_open() -> None:
    server = RingingServer()
    turn = server.remoting.turn

    def fail() -> None:
        raise OSError("broken")

    def store_and_fail() -> None:
        with server.remoting.batch():
            turn.at_end(fail)

    with pytest.raises(OSError, match="broken"):
        store_and_fail()
    assert turn.depth == 0
    server.connection.feed(a_request(20, 1, "knock"))
    assert [answer.opaque for answer in server.wire.commands()] == [1]
