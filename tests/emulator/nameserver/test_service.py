"""The NameServer over TCP: closed connections, and requests without a reply."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
import trio.lowlevel

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import ConnectionClosed
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.nameserver.service import serve_name_server
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.versions import Release
from rocketmq_emulator.settings.config import NameServerConfig
from tests.support.nameserver.name_servers import V1, V2, a_registration

PATIENCE_S = 10
UNREGISTER_S_MAX = 1.0


class Connection:
    """A connection that sends and receives frames."""

    def __init__(self, stream: trio.SocketStream, release: str) -> None:
        self.stream = stream
        self._release = Release.parse(release)
        self._decoder = FrameDecoder()
        self._opaque = 0

    async def send(self, code: int, body: bytes = b"", **fields: object) -> int:
        self._opaque += 1
        command = RemotingCommand(
            code=code,
            opaque=self._opaque,
            version=self._release.version,
            ext=ext_of(None, fields),
            body=body,
        )
        await self.stream.send_all(encode_command(command))
        return self._opaque

    async def answer(self) -> RemotingCommand:
        while (frame := self._decoder.next_frame()) is None:
            data = await self.stream.receive_some()
            assert data, "the NameServer closed the connection"
            self._decoder.feed(data)
        return decode_command(frame)

    async def invoke(self, code: int, body: bytes = b"", **fields: object) -> RemotingCommand:
        opaque = await self.send(code, body, **fields)
        answer = await self.answer()
        assert answer.opaque == opaque
        return answer

    async def register(self, **changes: object) -> None:
        fields, body = a_registration(self._release, **changes)
        assert (await self.invoke(RequestCode.REGISTER_BROKER, body, **fields)).code == 0


@asynccontextmanager
async def a_name_server(release: str):
    """Yields a function that connects to it, and its journal entries."""
    clock, stop, noted = WallClock.of_this_machine(), trio.Event(), []
    with trio.fail_after(PATIENCE_S):
        async with AsyncExitStack() as streams, trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[str]) -> None:
                await serve_name_server(
                    NameServerConfig(listen_address="127.0.0.1:0", release=release),
                    network=TcpNetwork(nursery),
                    disk=MemoryDisk(),
                    clock=clock,
                    rng=random.Random(1),
                    journal=Journal("namesrv", clock, listeners=[noted.append]),
                    stop=stop,
                    task_status=task_status,
                )

            address = await nursery.start(serve)
            host, port = address.split(":")

            async def connect() -> Connection:
                stream = await trio.open_tcp_stream(host, int(port))
                return Connection(await streams.enter_async_context(stream), release)

            yield connect, noted
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_invariant_03_only_the_end_of_its_last_connection_takes_a_broker_from_the_route(
    release,
) -> None:
    async with a_name_server(release) as (connect, noted):
        old, new, client = await connect(), await connect(), await connect()
        await old.register(version=V1)
        await new.register(version=V2)
        await old.stream.aclose()
        while not any(isinstance(entry.fact, ConnectionClosed) for entry in noted):
            await trio.lowlevel.checkpoint()
        route = await client.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert route.code == 0
        await new.stream.aclose()
        with trio.fail_after(UNREGISTER_S_MAX):
            while route.code == 0:
                route = await client.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert route.code == 17


@pytest.mark.parametrize(("release", "codes"), [("4.9.7", [17]), ("5.3.3", [3, 17])])
async def test_invariant_15_after_an_unknown_code_the_connection_goes_on(release, codes) -> None:
    async with a_name_server(release) as (connect, _):
        client = await connect()
        unknown = await client.send(9_999)
        last = await client.send(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="nobody")
        answers = [await client.answer()]
        while answers[-1].opaque != last:
            answers.append(await client.answer())
        assert [answer.code for answer in answers] == codes
        assert [answer.opaque for answer in answers] == [unknown, last][-len(codes) :]
