"""A long answer lets others through."""

from __future__ import annotations

import trio
import trio.testing
from wired_server import ECHO, Server, Word, a_request

from emulator.net.results import Call, Refusal, Reply, Result
from emulator.net.slices import Slices, in_slices


def counted(slices: int) -> Slices:
    for _ in range(slices - 1):
        yield
    return Reply(Word(word=f"{slices} slices"))


def refused() -> Slices:
    yield
    raise Refusal(17, "gone meanwhile")


def server_with(make) -> Server:
    def handler(call: Call) -> Result:
        return in_slices(make(), call.now_ms)

    server = Server()
    server.remoting.handlers = {**server.remoting.handlers, 20: (ECHO, handler)}
    return server


async def test_an_answer_of_one_slice_is_given_at_once() -> None:
    server = server_with(lambda: counted(1))
    server.connection.feed(a_request(20))
    assert server.wire.commands()[0].fields() == {"word": "1 slices"}


async def test_others_are_answered_between_the_slices_of_a_long_answer(autojump_clock) -> None:
    server = server_with(lambda: counted(4))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        server.connection.feed(a_request(20, 1) + a_request(5, 2))
        assert [answer.opaque for answer in server.wire.commands()] == [2]
        await trio.testing.wait_all_tasks_blocked()
        assert [answer.opaque for answer in server.wire.commands()] == [2, 1]
        assert server.wire.commands()[1].fields() == {"word": "4 slices"}
        nursery.cancel_scope.cancel()


async def test_what_a_later_slice_raises_is_answered(autojump_clock) -> None:
    server = server_with(refused)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        server.connection.feed(a_request(20))
        await trio.testing.wait_all_tasks_blocked()
        [answer] = server.wire.commands()
        assert (answer.code, answer.remark) == (17, "gone meanwhile")
        nursery.cancel_scope.cancel()
