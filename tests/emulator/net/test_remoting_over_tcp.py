"""Client and server shell together, over real loopback sockets."""

from __future__ import annotations

import inspect
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.errors.call_errors import NeverSent, NoAnswer, TimedOut
from rocketmq_emulator.facts import (
    ConnectionClosed,
    ConnectionOpened,
    Fact,
    FrameRefused,
    PushDropped,
)
from rocketmq_emulator.net import tcp
from rocketmq_emulator.net.dispatch import Table
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import NO_REPLY, Call, Reply, Result
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.net.transport import AddressInUse
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command, ext_of
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.rpc import Rpc
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7, R_5_3_3, Release
from rocketmq_emulator.text.values import split_address


@pytest.fixture(params=[0, 1_000], ids=["one reader", "a reader each"], autouse=True)
def readers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the number of sockets that have a reader task each."""
    monkeypatch.setattr(tcp, "OWN_TASK_SOCKETS_MAX", request.param)


class Word(Header):
    word: str


ECHO = Rpc(code=5, name="ECHO", answered_by=("broker",), request=Word, reply=Word)
MUTE = Rpc(code=9, name="MUTE", answered_by=("broker",), request=Header, reply=Header)
NOTICE = Rpc(
    code=40, name="NOTICE", answered_by=("client",), request=Word, one_way=True, reply=Header
)


class Pair:
    """A server, a client, and the facts of both."""

    def __init__(self, nursery: trio.Nursery, handlers: Table, **settings: bool) -> None:
        self.facts: list[Fact] = []
        self.heard: list[str] = []
        self.told = trio.Event()
        clock = WallClock.of_this_machine()
        config = NetConfig(connect_ms_max=500, **settings)
        self.network = TcpNetwork(nursery)
        self.server = RemotingServer(clock, config, R_4_9_7, self.facts.append, handlers)
        self.client = RemotingClient(
            self.network,
            nursery,
            clock=clock,
            config=config,
            release=R_4_9_7,
            note=self.facts.append,
            handlers={40: (NOTICE, self._notice)},
        )
        self.address = ""

    def _notice(self, call: Call) -> Result:
        self.heard.append(call.request.word)
        self.told.set()
        return NO_REPLY


def is_opened_by_us(fact: Fact) -> bool:
    return isinstance(fact, ConnectionOpened) and fact.by == "us"


@asynccontextmanager
async def a_pair(**settings: bool) -> AsyncIterator[Pair]:
    async with trio.open_nursery() as nursery:

        def echo(call: Call) -> Result:
            pair.server.push(call.peer, 40, Word(word="psst"), b"")
            return Reply(Word(word=call.request.word), call.body)

        handlers: Table = {5: (ECHO, echo), 9: (MUTE, lambda _call: NO_REPLY)}
        pair = Pair(nursery, handlers, **settings)
        listener = await pair.server.serve(pair.network, "127.0.0.1:0", nursery)
        pair.address = listener.address
        with trio.fail_after(20):
            yield pair
        nursery.cancel_scope.cancel()


async def test_a_call_brings_back_header_and_body() -> None:
    async with a_pair() as pair:
        reply = await pair.client.invoke(
            pair.address, ECHO, Word(word="hi"), b"body", timeout_ms=5_000
        )
        assert (reply.decode(Word).word, reply.body) == ("hi", b"body")


async def test_the_server_can_push_to_who_asked() -> None:
    async with a_pair() as pair:
        await pair.client.invoke(pair.address, ECHO, Word(word="hi"), timeout_ms=5_000)
        await pair.told.wait()
        assert pair.heard == ["psst"]


async def test_a_body_larger_than_any_socket_buffer_arrives_whole() -> None:
    async with a_pair() as pair:
        body = bytes(range(256)) * 40_000
        reply = await pair.client.invoke(
            pair.address, ECHO, Word(word="big"), body, timeout_ms=10_000
        )
        assert reply.body == body


async def test_hundreds_of_calls_share_one_connection() -> None:
    async with a_pair() as pair:
        words: list[str] = []

        async def ask(word: str) -> None:
            reply = await pair.client.invoke(
                pair.address, ECHO, Word(word=word), timeout_ms=10_000
            )
            words.append(reply.decode(Word).word)

        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(ask, str(number))
        assert sorted(words, key=int) == [str(n) for n in range(300)]
        assert len(pair.server.connections) == 1


async def test_nobody_listening_means_never_sent() -> None:
    async with a_pair() as pair:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
            with pytest.raises(NeverSent) as caught:
                await pair.client.invoke(f"127.0.0.1:{port}", MUTE, timeout_ms=5_000)
        assert caught.value.definite


@pytest.mark.parametrize(
    "address", ["", "broker-a", "broker-a:", "1.2.3.4:70000", "a" * 300 + ":1"]
)
async def test_an_address_that_is_none_fails_the_call_and_nothing_else(address: str) -> None:
    async with a_pair() as pair:
        with pytest.raises(NeverSent):
            await pair.client.invoke(address, MUTE, timeout_ms=5_000)
        reply = await pair.client.invoke(pair.address, ECHO, Word(word="still"), timeout_ms=5_000)
        assert reply.decode(Word).word == "still"


async def test_a_request_no_frame_can_hold_is_never_sent() -> None:
    body = bytes(16 * 1024 * 1024)
    async with a_pair() as pair:
        for _ in range(2):  # before and after the connection is made
            with pytest.raises(NeverSent, match="exceeds"):
                await pair.client.invoke(
                    pair.address, ECHO, Word(word="hi"), body, timeout_ms=5_000
                )
        pair.client.send_oneway(pair.address, ECHO, Word(word="hi"), body)
        assert [fact.code for fact in pair.facts if isinstance(fact, PushDropped)] == [5]
        assert pair.client.is_connected(pair.address)


async def test_who_waits_for_a_connection_hears_when_the_client_ends() -> None:
    """Callers may run in a nursery that ends after the client's."""
    failures: list[object] = []
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with socket.create_connection(deaf.getsockname()), socket.socket() as filler:
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())  # the backlog is full: connects wait
            async with trio.open_nursery() as callers:
                async with a_pair() as pair:

                    async def ask() -> None:
                        with pytest.raises(NeverSent) as caught:
                            await pair.client.invoke(address, MUTE, timeout_ms=60_000)
                        failures.append(caught.value)

                    callers.start_soon(ask)
                    callers.start_soon(ask)
                    await trio.testing.wait_all_tasks_blocked()
                    assert failures == []
                with pytest.raises(NeverSent, match="ended"):
                    await pair.client.invoke(pair.address, MUTE, timeout_ms=60_000)
    assert len(failures) == 2


async def test_a_call_whose_send_fails_at_once_is_answered_once() -> None:
    """The send itself finds the reset, before the caller waits for the reply."""
    async with a_pair() as pair:
        await pair.client.invoke(pair.address, ECHO, Word(word="hi"), timeout_ms=5_000)
        [connection] = pair.client.connections.values()
        connection.transport.send = lambda _data: connection.transport.close()
        with trio.CancelScope() as scope:
            scope.cancel()
            await pair.client.invoke(pair.address, MUTE, timeout_ms=5_000)
        assert scope.cancelled_caught
        assert not pair.client.is_connected(pair.address)


async def test_a_synchronous_call_that_times_out_closes_the_connection_under_everybody() -> None:
    async with a_pair() as pair:
        failures: list[object] = []
        other_done = trio.Event()

        def on_done(reply: object) -> None:
            failures.append(reply)
            other_done.set()

        pair.client.invoke_async(pair.address, MUTE, None, b"", timeout_ms=60_000, on_done=on_done)
        with pytest.raises(TimedOut) as caught:
            await pair.client.invoke(pair.address, MUTE, timeout_ms=30)
        assert not caught.value.definite
        await other_done.wait()
        assert isinstance(failures[0], NoAnswer)
        assert not pair.client.is_connected(pair.address)


async def test_an_asynchronous_call_that_times_out_leaves_the_connection_to_the_others() -> None:
    async with a_pair() as pair:
        given_up = trio.Event()
        failures: list[object] = []
        others: list[object] = []

        def on_done(reply: object) -> None:
            failures.append(reply)
            given_up.set()

        invoke_async = pair.client.invoke_async
        invoke_async(pair.address, MUTE, None, b"", timeout_ms=60_000, on_done=others.append)
        invoke_async(pair.address, MUTE, None, b"", timeout_ms=30, on_done=on_done)
        await given_up.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert [type(failure) for failure in failures] == [TimedOut]
        assert others == []
        reply = await pair.client.invoke(pair.address, ECHO, Word(word="still"), timeout_ms=5_000)
        assert reply.decode(Word).word == "still"
        assert len([fact for fact in pair.facts if is_opened_by_us(fact)]) == 1


async def test_a_call_that_was_cancelled_does_not_close_the_connection_when_its_time_is_over() -> (
    None
):
    async with a_pair() as pair:
        with trio.move_on_after(0.01):
            await pair.client.invoke(pair.address, MUTE, timeout_ms=30)
        await trio.sleep(0.1)
        assert pair.client.is_connected(pair.address)
        assert not [fact for fact in pair.facts if isinstance(fact, ConnectionClosed)]


async def test_without_close_on_timeout_a_synchronous_call_leaves_it_open_too() -> None:
    async with a_pair(close_on_timeout=False) as pair:
        with pytest.raises(TimedOut):
            await pair.client.invoke(pair.address, MUTE, timeout_ms=30)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert pair.client.is_connected(pair.address)


async def test_garbage_closes_only_the_connection_it_came_on() -> None:
    async with a_pair() as pair:
        await pair.client.invoke(pair.address, ECHO, Word(word="hi"), timeout_ms=5_000)
        host, port = split_address(pair.address)
        async with await trio.open_tcp_stream(host, port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await stream.receive_some() == b""
        assert [type(f) for f in pair.facts if isinstance(f, FrameRefused)] == [FrameRefused]
        reply = await pair.client.invoke(pair.address, ECHO, Word(word="still"), timeout_ms=5_000)
        assert reply.decode(Word).word == "still"


@pytest.mark.parametrize("release", [R_4_9_7, R_5_3_3], ids=str)
async def test_calls_in_flight_fail_at_once_when_the_other_side_closes_in_order(
    release: Release,
) -> None:
    async with a_pair() as pair:
        pair.client.release = release
        failed = trio.Event()
        failures: list[object] = []

        def on_done(reply: object) -> None:
            failures.append(reply)
            failed.set()

        pair.client.invoke_async(pair.address, MUTE, None, b"", timeout_ms=60_000, on_done=on_done)
        await pair.client.invoke(pair.address, ECHO, Word(word="hi"), timeout_ms=5_000)
        for connection in list(pair.server.connections.values()):
            connection.transport.close()
        await failed.wait()  # a_pair gives up long before the timeout of the call
        assert [type(failure) for failure in failures] == [NoAnswer]
        assert "eof" in {f.reason for f in pair.facts if isinstance(f, ConnectionClosed)}


async def test_a_peer_that_dies_is_noticed_at_once() -> None:
    async with a_pair() as pair:
        await pair.client.invoke(pair.address, ECHO, Word(word="hi"), timeout_ms=5_000)
        lost = trio.Event()
        pair.server.on_closed = lambda _peer, _now_ms: lost.set()
        pair.client.close_all()
        await lost.wait()
        assert {f.reason for f in pair.facts if isinstance(f, ConnectionClosed)} == {
            "closed here",
            "eof",
        }


async def test_a_send_that_fails_ends_the_stream_later_and_not_inside_the_send() -> None:
    async with a_pair() as pair:
        await pair.client.invoke(pair.address, ECHO, Word(word="hi"), timeout_ms=5_000)
        [connection] = pair.server.connections.values()
        lost = trio.Event()
        pair.server.on_closed = lambda _peer, _now_ms: lost.set()
        connection.transport._sock.shutdown(socket.SHUT_WR)
        connection.push(40, Word(word="psst"))
        assert connection.peer.is_open
        await lost.wait()
        assert not connection.peer.is_open


async def test_hundreds_of_peers_that_vanish_at_once_are_noticed_one_by_one() -> None:
    """Each close is pushed to all other peers, most of which are closed too."""
    async with a_pair() as pair:
        depths: list[int] = []
        all_gone = trio.Event()

        def announce(_peer: object, _now_ms: int) -> None:
            depths.append(len(inspect.stack(0)))
            for peer in list(pair.server.connections):
                pair.server.push(peer, 40, Word(word="gone"))
            if len(depths) == 150:
                all_gone.set()

        await pair.client.invoke(pair.address, ECHO, Word(word="hi"), timeout_ms=5_000)
        others = [await trio.open_tcp_stream(*split_address(pair.address)) for _ in range(150)]
        while len(pair.server.connections) < 151:
            await trio.testing.wait_all_tasks_blocked(0.001)
        pair.server.on_closed = announce
        reset_when_closed = struct.pack("ii", 1, 0)
        for stream in others:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_when_closed)
            stream.socket.close()
        await all_gone.wait()
        assert max(depths) - min(depths) < 10
        reply = await pair.client.invoke(pair.address, ECHO, Word(word="still"), timeout_ms=5_000)
        assert reply.decode(Word).word == "still"


async def test_who_does_not_read_is_not_read_from_until_it_does() -> None:
    """None of its requests is lost."""
    async with a_pair() as pair:
        body, calls = bytes(1024 * 1024), 40
        frame = encode_command(
            RemotingCommand(code=5, opaque=1, ext=ext_of(Word(word="big")), body=body)
        )
        async with (
            await trio.open_tcp_stream(*split_address(pair.address)) as stream,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(stream.send_all, frame * calls)
            await trio.testing.wait_all_tasks_blocked(0.05)
            [connection] = pair.server.connections.values()
            taken_bytes = connection._decoder.waiting_bytes() + connection.waiting_bytes()
            assert taken_bytes < calls * len(body) / 2
            came = 0
            while came < calls * len(body):
                came += len(await stream.receive_some(1024 * 1024))


async def test_a_port_in_use_is_said_so() -> None:
    async with a_pair() as pair:
        with pytest.raises(AddressInUse, match="is in use"):
            await pair.network.listen(pair.address, pair.server.accept)
