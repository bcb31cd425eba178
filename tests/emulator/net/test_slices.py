"""A long answer is built in slices, and other requests are handled between them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
import trio.testing

from rocketmq_emulator.net.results import Call, Refusal, Reply, Result, Wait
from rocketmq_emulator.net.slices import Slices, in_slices, long_body, reply_of
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.routes import BrokerData, ClusterInfo, TopicList
from rocketmq_emulator.protocol.versions import R_4_9_7
from tests.support.net.wired_server import ECHO, Server, Word, a_request


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


def test_an_answer_that_no_frame_can_hold_is_given_up_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rocketmq_emulator.net.slices.FRAME_BYTES_MAX", 1_000)
    made: list[int] = []

    def pieces() -> Iterator[list[str]]:
        for number in range(100):
            made.append(number)
            yield ["x" * 300]

    slices = long_body(TopicList(), {"topicList": pieces()}, R_4_9_7)
    with pytest.raises(Refusal, match="longer than a frame may be: 1000 bytes"):
        for _ in slices:
            pass
    assert len(made) == 4


def test_collections_are_filled_where_they_are_whatever_is_in_them() -> None:
    empty = ClusterInfo()
    pieces = {
        "clusterAddrTable": [{"c": ["b"]}, {}, {"d": []}],
        "brokerAddrTable": [{"clusterAddrTable": BrokerData(broker_name="b")}],
    }
    reply = in_slices(reply_of(long_body(empty, pieces, R_4_9_7)), 0)
    while isinstance(reply, Wait):
        reply = reply.resume(0, True)
    assert isinstance(reply, Reply)
    whole = ClusterInfo(
        broker_addr_table={"clusterAddrTable": BrokerData(broker_name="b")},
        cluster_addr_table={"c": ["b"], "d": []},
    )
    assert reply.body == encode_body(whole, R_4_9_7)
