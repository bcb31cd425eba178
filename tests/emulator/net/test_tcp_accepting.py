"""A server without free files serves connected peers, and others when files are free."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.facts import Fact, OpenFilesFreed, OpenFilesRanOut
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.tcp import TcpNetwork, files_for_peers
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.text.values import split_address

QUESTION = encode_command(RemotingCommand(code=4711, opaque=1))  # answered: not supported


@contextmanager
def few_more_files(count: int) -> Iterator[None]:
    """Limit this process to about *count* more open files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Crowded:
    """A server and its facts; a test can wait for a fact."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._news = trio.Event()
        clock = WallClock.of_this_machine()
        self.server = RemotingServer(clock, NetConfig(), R_4_9_7, self.facts.append, {})

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)
        self._news.set()
        self._news = trio.Event()

    def said(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    async def wait_said(self, kind: type[Fact]) -> None:
        while not self.said(kind):
            await self._news.wait()


async def test_when_files_run_out_the_connected_are_served_and_others_when_there_is_room() -> None:
    crowded = Crowded()
    with few_more_files(80):
        async with trio.open_nursery() as nursery:
            network = TcpNetwork(nursery, crowded.note)
            listener = await crowded.server.serve(network, "127.0.0.1:0", nursery)
            host, port = split_address(listener.address)
            with trio.fail_after(20):
                peers: list[trio.SocketStream] = []
                while not crowded.said(OpenFilesRanOut):
                    peers.append(await trio.open_tcp_stream(host, port))
                    await trio.lowlevel.checkpoint()
                late = await trio.open_tcp_stream(host, port)
                await late.send_all(QUESTION)
                await peers[0].send_all(QUESTION)
                assert await peers[0].receive_some(), "connected peers are served"
                with trio.move_on_after(0.3) as scope:
                    await late.receive_some()
                assert scope.cancelled_caught, "a later peer waits"
                for peer in peers[1:]:
                    await peer.aclose()
                assert await late.receive_some(), "it is served when files are free"
                await crowded.wait_said(OpenFilesFreed)
                await peers[0].aclose()
                await late.aclose()
            nursery.cancel_scope.cancel()
    assert len(crowded.said(OpenFilesRanOut)) == len(crowded.said(OpenFilesFreed)) == 1


@pytest.mark.parametrize(
    ("files_max", "expected"), [(20, 15), (100, 75), (1_024, 992), (-1, 1 << 30)]
)
def test_some_of_the_files_are_kept_for_the_store(files_max: int, expected: int) -> None:
    assert files_for_peers(files_max) == expected
