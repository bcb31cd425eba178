"""The chain before a handler, its observer, and the hook that signs requests."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.net.dispatch import AnsweredRequest, Defer, HookPosition, RequestHook
from rocketmq_emulator.net.results import NO_REPLY, Call, Refusal, Reply, Result
from rocketmq_emulator.protocol.command import RemotingCommand
from tests.support.net.wired_server import Server, Word, a_request


def a_link(log: list[str], name: str, result: Result | Defer | None = None) -> RequestHook:
    def link(call: Call) -> Result | Defer | None:
        log.append(f"{name} {call.command.code}")
        return result

    return link


async def test_links_are_asked_in_the_order_of_their_places() -> None:
    server, log = Server(), []
    server.remoting.chain.put(HookPosition.POOLS, a_link(log, "pools"))
    server.remoting.chain.put(HookPosition.LIMITS, a_link(log, "limits"))
    server.connection.feed(a_request(5, word="hello"))
    assert log == ["limits 5", "pools 5"]
    assert server.wire.commands()[0].fields() == {"word": "hello"}


async def test_the_first_link_with_a_result_answers_and_nobody_behind_it_is_asked() -> None:
    server, log = Server(), []
    chain = server.remoting.chain
    chain.put(HookPosition.ACCESS_CONTROL, a_link(log, "access", Reply(code=16, remark="not you")))
    chain.put(HookPosition.POOLS, a_link(log, "pools"))
    server.connection.feed(a_request(7))
    assert log == ["access 7"]
    assert [(a.code, a.remark) for a in server.wire.commands()] == [(16, "not you")]
    chain.put(HookPosition.ACCESS_CONTROL, None)
    server.connection.feed(a_request(5, 2))
    assert log == ["access 7", "pools 5"]


async def test_a_link_may_refuse_and_sees_codes_that_nobody_answers() -> None:
    server = Server()

    def refuse(call: Call) -> Result | None:
        raise Refusal(16, f"no {call.command.code} here")

    server.remoting.chain.put(HookPosition.LIMITS, refuse)
    server.connection.feed(a_request(4711))
    assert [(a.code, a.remark) for a in server.wire.commands()] == [(16, "no 4711 here")]


async def test_a_delayed_call_goes_on_when_its_time_has_come(autojump_clock: MockClock) -> None:
    server, log = Server(), []
    until_ms = server.remoting.clock.now_ms() + 700
    server.remoting.chain.put(HookPosition.REPLY_RULES, a_link(log, "rules", Defer(until_ms)))
    server.remoting.chain.put(HookPosition.POOLS, a_link(log, "pools"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        server.connection.feed(a_request(13))
        await trio.sleep(0.699)
        assert (log, server.wire.sent) == (["rules 13"], [])
        await trio.sleep(0.002)
        assert log == ["rules 13", "pools 13"]
        assert server.wire.commands()[0].fields() == {"word": str(until_ms)}
        nursery.cancel_scope.cancel()


async def test_a_delay_may_end_with_a_result_of_its_own(autojump_clock: MockClock) -> None:
    server = Server()
    delay = Defer(server.remoting.clock.now_ms() + 10, lambda _call: Reply(code=2))
    server.remoting.chain.put(HookPosition.REPLY_RULES, lambda _call: delay)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        server.connection.feed(a_request(5))
        await trio.sleep(1)
        assert [a.code for a in server.wire.commands()] == [2]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("code", "reply_code"), [(5, 0), (7, 1), (8, 17), (4711, 3)], ids=str)
async def test_the_observer_sees_every_reply(
    code: int, reply_code: int, autojump_clock: MockClock
) -> None:
    server, seen = Server(), []
    server.remoting.chain.observer = seen.append
    server.connection.feed(a_request(code))
    [answered] = seen
    assert isinstance(answered, AnsweredRequest)
    assert (answered.command.code, answered.reply.code) == (code, reply_code)
    assert answered.peer is server.connection.peer
    assert answered.arrived_ms == server.remoting.clock.now_ms()
    assert not answered.held_on_purpose


async def test_the_observer_is_told_since_when_a_held_call_waits(
    autojump_clock: MockClock,
) -> None:
    server, seen = Server(), []
    server.remoting.chain.observer = seen.append
    arrived_ms = server.remoting.clock.now_ms()
    server.connection.feed(a_request(6, word="knock"))
    await trio.sleep(2)
    server.remoting.ring("door", "knock")
    assert [(a.arrived_ms, a.held_on_purpose) for a in seen] == [(arrived_ms, True)]


async def test_no_reply_is_no_answer() -> None:
    server, seen = Server(), []
    server.remoting.chain.observer = seen.append
    server.remoting.chain.put(HookPosition.REPLY_RULES, lambda _call: NO_REPLY)
    server.connection.feed(a_request(5))
    assert (server.wire.sent, seen) == ([], [])


async def test_requests_are_signed_before_they_are_encoded() -> None:
    server = Server()

    def sign(address: str, command: RemotingCommand) -> None:
        command.ext = type(command.ext)(
            b'{"word":"%b signed for %b"}' % (command.fields()["word"].encode(), address.encode())
        )

    server.remoting.sign = sign
    server.connection.send_oneway(40, Word(word="notice"))
    server.connection.invoke(307, Word(word="who?"), b"", trio.current_time() + 9, lambda _: None)
    assert [command.fields()["word"] for command in server.wire.commands()] == [
        "notice signed for 10.0.0.2:40001",
        "who? signed for 10.0.0.2:40001",
    ]
