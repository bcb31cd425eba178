"""Facts of several nodes as one stream of lines, from now on.

Each node has its own connection, and is asked for more only after the client has read the
lines before.  While a client reads slowly, the node itself drops and counts lines that do not
fit into its bounded buffer.  A node that starts again is followed again.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import trio

from rocketmq_emulator.cluster.control.controlled import ControlledCluster
from rocketmq_emulator.facts.journal import WORLD_NODE, Entry, encode_entry
from rocketmq_emulator.protocol.bodies.extensions import FetchFacts, encode_extension_body
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.error_families import RefusedByServer
from rocketmq_emulator.protocol.framing import BadFrame, FrameDecoder
from rocketmq_emulator.text.values import split_address

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

WAIT_MS = 10_000  # how long one call waits for a fact
LISTEN_S_MAX = 1.0  # wait for a node that does not answer, then stream the others
AGAIN_S = 0.1  # until the state of a node that does not run is checked again
READ_BYTES = 64 * 1024
WORLD_LINES_MAX = 20_000  # the limit of a node's buffer, too

Send: TypeAlias = "trio.MemorySendChannel[bytes]"


class FactsRefused(RefusedByServer):
    """A node refused to send facts; the text gives the reason."""


class FactsFeed(msgspec.Struct, frozen=True):
    """The nodes and kinds of facts wanted; *kinds* None: all kinds that are not on demand."""

    nodes: tuple[str, ...]
    kinds: tuple[str, ...] | None = None

    def opened(
        self, world: ControlledCluster
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Whole lines as they arrive; inside the block every node that answers is followed."""
        return _opened(self, world)


@contextlib.asynccontextmanager
async def _opened(
    feed: FactsFeed, world: ControlledCluster
) -> AsyncIterator[AsyncIterator[bytes]]:
    send, receive = trio.open_memory_channel[bytes](0)
    followers: list[_Follower | _WorldFollower] = [
        _WorldFollower(world, feed.kinds, send)
        if name == WORLD_NODE
        else _Follower(world, name, feed.kinds, send)
        for name in feed.nodes
    ]
    async with trio.open_nursery() as nursery:
        for follower in followers:
            nursery.start_soon(follower.run)
        with trio.move_on_after(LISTEN_S_MAX):
            for follower in followers:
                await follower.began.wait()
        yield receive
        nursery.cancel_scope.cancel()


class _Follower:
    """One node of a feed.  ``began`` is set when it is followed, or does not run."""

    def __init__(
        self, world: ControlledCluster, name: str, kinds: Sequence[str] | None, send: Send
    ) -> None:
        self.began = trio.Event()
        self._world = world
        self._name = name
        self._kinds = None if kinds is None else tuple(kinds)
        self._send = send

    async def run(self) -> None:
        while True:
            node = self._world.node(self._name)
            if node.state == "running":
                try:
                    with contextlib.suppress(OSError, trio.BrokenResourceError, BadFrame):
                        await self._follow(node.address)  # until the node closes the connection
                except FactsRefused as refused:
                    self.began.set()
                    await self._send_note(error=str(refused))
                    return
            self.began.set()
            await trio.sleep(AGAIN_S)

    async def _follow(self, address: str) -> None:
        """Send the node's lines until the connection closes.  Raises ``FactsRefused``."""
        async with await trio.open_tcp_stream(*split_address(address)) as stream:
            reader, wait_ms = _Reader(stream), 0
            while reply := await reader.ask(FetchFacts(kinds=self._kinds, wait_ms=wait_ms)):
                if reply.code != ResponseCode.SUCCESS:
                    raise FactsRefused(reply.remark or f"code {reply.code}")
                if not wait_ms and self.began.is_set():
                    await self._send_note(followed_again=True)
                self.began.set()
                wait_ms = WAIT_MS
                if reply.body:
                    await self._send.send(reply.body)
                if lost := int(reply.fields().get("lost", "0")):
                    await self._send_note(lost=lost)

    async def _send_note(self, **more: int | str) -> None:
        """Send a line about the feed itself, not a fact."""
        await self._send.send(msgspec.json.encode({"node": self._name, **more}) + b"\n")


class _WorldFollower:
    """The node ``world``: its facts are noted in this process, in any thread."""

    def __init__(self, world: ControlledCluster, kinds: Sequence[str] | None, send: Send) -> None:
        self.began = trio.Event()
        self._world = world
        self._kinds = kinds
        self._send = send

    async def run(self) -> None:
        token = trio.lowlevel.current_trio_token()
        noted, lines = trio.open_memory_channel[bytes](WORLD_LINES_MAX)

        def put(line: bytes) -> None:
            with contextlib.suppress(trio.WouldBlock):  # a slow client loses lines
                noted.send_nowait(line)

        def take(entry: Entry) -> None:
            if self._kinds is None or type(entry.fact).__name__ in self._kinds:
                with contextlib.suppress(trio.RunFinishedError):
                    token.run_sync_soon(put, encode_entry(entry))

        self._world.listen(take)
        self.began.set()
        try:
            async for line in lines:
                await self._send.send(line)
        finally:
            self._world.unlisten(take)


class _Reader:
    """Makes calls over one connection, one after the other."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._decoder = FrameDecoder()
        self._opaque = 0

    async def ask(self, wanted: FetchFacts) -> RemotingCommand | None:
        """Returns the reply; None if the node has closed the connection."""
        self._opaque += 1
        request = RemotingCommand(
            code=RequestCode.FETCH_FACTS, opaque=self._opaque, body=encode_extension_body(wanted)
        )
        await self._stream.send_all(encode_command(request))
        while (frame := self._decoder.next_frame()) is None:
            if not (data := await self._stream.receive_some(READ_BYTES)):
                return None
            self._decoder.feed(bytes(data))
        return decode_command(frame)
