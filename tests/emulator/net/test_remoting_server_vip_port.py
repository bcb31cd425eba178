"""The second port of a broker, two below the first: the same server, without a few calls."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.facts import ConnectionClosed, Fact, VipPortNotOpen
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import RemotingServer, VipPort
from rocketmq_emulator.net.results import Call, Reply, Result
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.net.transport import Listener
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.rpc import Rpc
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.text.values import split_address, vip_channel
from tests.support.golden_data import cases

SEND = Rpc(code=10, name="SEND", answered_by=("broker",), request=Header, reply=Header)
PULL = Rpc(code=11, name="PULL", answered_by=("broker",), request=Header, reply=Header)
NOTICE = Rpc(
    code=40, name="NOTICE", answered_by=("client",), request=Header, one_way=True, reply=Header
)
NOT_SUPPORTED = 3


def test_the_vip_channel_is_two_ports_below() -> None:
    for case in cases("ids.jsonl", "vip_channel"):
        if case["in"]["change"] and isinstance(case["out"], str):  # the others are no addresses
            assert vip_channel(case["in"]["addr"]) == case["out"]


class Side:
    """A server that pulls and sends, and a client of its second port."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.facts: list[Fact] = []
        self.noticed = trio.Event()
        clock, config = WallClock.of_this_machine(), NetConfig(connect_ms_max=500)
        self.network = TcpNetwork(nursery)
        handlers = {10: (SEND, self._answer), 11: (PULL, self._answer)}
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
        self.listeners: tuple[Listener, ...] = ()

    def _answer(self, call: Call) -> Result:
        self.server.push(call.peer, 40, None)
        return Reply(body=call.body)

    def _notice(self, _call: Call) -> Result:
        self.noticed.set()
        return Reply()

    async def code(self, address: str, rpc: Rpc) -> int:
        """The code of the answer of *address* to the call *rpc*."""
        return (await self.client.invoke(address, rpc, Header(), timeout_ms=5_000)).code


@asynccontextmanager
async def serving(address: str = "127.0.0.1:0") -> AsyncIterator[Side]:
    async with trio.open_nursery() as nursery:
        side = Side(nursery)
        beside = (VipPort.beside(side.server, {11}),)
        side.listeners = await side.server.serve_with_ports_beside(
            side.network, address, nursery, beside
        )
        with trio.fail_after(20):
            yield side
        nursery.cancel_scope.cancel()


async def test_calls_are_answered_at_both_ports_but_for_the_absent_ones() -> None:
    async with serving() as side:
        main, vip = (listener.address for listener in side.listeners)
        assert vip == vip_channel(main)
        codes = {
            (port, rpc.name): await side.code(address, rpc)
            for port, address in (("main", main), ("vip", vip))
            for rpc in (SEND, PULL)
        }
    assert codes.pop(("vip", "PULL")) == NOT_SUPPORTED
    assert set(codes.values()) == {0}


async def test_a_client_of_the_second_port_is_pushed_to_and_its_end_is_noticed() -> None:
    async with serving() as side:
        closed = []
        side.server.on_closed = lambda peer, _now_ms: closed.append(peer)
        await side.code(side.listeners[1].address, SEND)
        await side.noticed.wait()
        (peer,) = side.server.connections
        side.server.close(peer)
        while not closed:
            await trio.lowlevel.checkpoint()
    assert closed == [peer]
    assert any(isinstance(fact, ConnectionClosed) for fact in side.facts)


def free_pair() -> tuple[str, socket.socket]:
    """A free address, and a socket that listens two ports below it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as main:
            port = main.getsockname()[1]
            try:
                return f"127.0.0.1:{port}", socket.create_server(("127.0.0.1", port - 2))
            except OSError:
                continue


async def test_a_taken_second_port_is_named_and_the_first_one_works() -> None:
    address, taken = free_pair()
    with taken:
        async with serving(address) as side:
            (main,) = side.listeners
            assert main.address == address
            assert await side.code(address, SEND) == 0
    (fact,) = (fact for fact in side.facts if isinstance(fact, VipPortNotOpen))
    assert fact.address == vip_channel(address)
    assert "in use" in fact.sentence()


async def test_any_port_is_one_whose_second_port_is_free(monkeypatch) -> None:
    async with serving() as side:
        listen, asked = side.network.listen, []
        first = side.listeners[0].address

        async def listen_at_a_taken_pair_first(
            address: str, accept, *, if_unbound: bool = False
        ) -> Listener:
            """Port 0 gives, the first time, a port whose second port is taken."""
            asked.append(address)
            if len(asked) == 1:
                port = split_address(first)[1]
                return await listen(f"127.0.0.1:{port}", accept)
            return await listen(address, accept, if_unbound=if_unbound)

        side.listeners[0].close()
        monkeypatch.setattr(side.network, "listen", listen_at_a_taken_pair_first)
        async with trio.open_nursery() as nursery:
            beside = (VipPort.beside(side.server, {11}),)
            pair = await side.server.serve_with_ports_beside(
                side.network, "127.0.0.1:0", nursery, beside
            )
            nursery.cancel_scope.cancel()
    assert len(pair) == 2
    assert asked[:3] == ["127.0.0.1:0", vip_channel(first), "127.0.0.1:0"]
    assert not [fact for fact in side.facts if isinstance(fact, VipPortNotOpen)]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_invariant_53_a_broker_has_no_pull_at_its_second_port(release: str) -> None:
    async def ask(address: str) -> tuple[int, str | None]:
        async with trio.open_nursery() as nursery:
            reply = await Side(nursery).client.invoke(address, PULL, Header(), timeout_ms=5_000)
            nursery.cancel_scope.cancel()
        return reply.code, reply.remark

    with EmbeddedCluster(ClusterSpec(brokers=1, release=release)) as cluster:
        code, remark = trio.run(ask, vip_channel(cluster.addresses["broker-a"]))
    assert (code, remark) == (NOT_SUPPORTED, " request type 11 not supported")
