"""A server's shell with a ``Wire``: each handler returns another kind of result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import NO_REPLY, Call, InvokePeer, Refusal, Reply, Result, Wait
from rocketmq_emulator.net.transport import CommandsInFlight
from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.rpc import AnyRpc, Rpc
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7, Release


class Word(Header):
    word: str


ECHO = Rpc(code=5, name="ECHO", answered_by=("broker",), request=Word, reply=Word)
HOLD = Rpc(code=6, name="HOLD", answered_by=("broker",), request=Word, reply=Word)
FAIL = Rpc(code=7, name="FAIL", answered_by=("broker",), request=Header, reply=Header)
REFUSE = Rpc(code=8, name="REFUSE", answered_by=("broker",), reply=Word, request=Header)
MUTE = Rpc(code=9, name="MUTE", answered_by=("broker",), request=Header, reply=Header)
TURNSTILE = Rpc(code=10, name="TURNSTILE", answered_by=("broker",), request=Word, reply=Header)
FLOOD = Rpc(code=12, name="FLOOD", answered_by=("broker",), reply=Word, request=Header)
CLOCK = Rpc(code=13, name="CLOCK", answered_by=("broker",), reply=Word, request=Header)
ASK = Rpc(code=11, name="ASK", answered_by=("broker",), reply=Word, request=Header)


def echo(call: Call[Any]) -> Result:
    return Reply(Word(word=call.request.word), call.body)


def hold(call: Call[Any], gone: Callable[[], object] | None = None) -> Result:
    def resume(now_ms: int, expired: bool) -> Result:
        return Reply(Word(word=f"{call.request.word} {expired} {now_ms - call.now_ms}"))

    return Wait(
        "door",
        call.now_ms + 15_000,
        resume,
        wants=lambda news: news == call.request.word,
        unwanted_until_ms=lambda now_ms: now_ms + 5_000,
        gone=gone,
        on_purpose=True,
    )


def fail(_call: Call[Any]) -> Result:
    raise ZeroDivisionError("by nothing")


def refuse(_call: Call[Any]) -> Result:
    raise Refusal(17, "no such thing")


def ask(call: Call[Any]) -> Result:
    def resume(_now_ms: int, reply: RemotingCommand | None) -> Result:
        return Reply(Word(word="silence" if reply is None else reply.fields()["word"]))

    return InvokePeer(call.peer, 307, Word(word="who?"), b"", call.now_ms + 10_000, resume)


HANDLERS: dict[int, tuple[AnyRpc, Callable[[Call[Any]], Result]]] = {
    5: (ECHO, echo),
    10: (TURNSTILE, lambda call: Wait("door", call.now_ms + 15_000, lambda *_: Reply())),
    12: (FLOOD, lambda _call: Reply(Word(word="big"), bytes(16 * 1024 * 1024))),
    13: (CLOCK, lambda call: Reply(Word(word=str(call.now_ms)))),
    7: (FAIL, fail),
    8: (REFUSE, refuse),
    9: (MUTE, lambda _call: NO_REPLY),
    11: (ASK, ask),
}


class Wire:
    """A transport that keeps all bytes sent; while ``stuck``, all of them are unsent."""

    local, remote = "10.0.0.1:10911", "10.0.0.2:40001"

    def __init__(self, values: CommandsInFlight | None = None) -> None:
        self.values = values
        self.sent: list[bytes] = []
        self.stuck = False
        self.endpoint: Any = None
        self.is_open = True

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def unsent_bytes(self) -> int:
        return sum(map(len, self.sent)) if self.stuck else 0

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.endpoint.closed("closed here")

    def commands(self) -> list[RemotingCommand]:
        decoder = FrameDecoder()
        decoder.feed(b"".join(self.sent))
        return [decode_command(frame) for frame in decoder]


class Server:
    """A server, one connection, and the facts it noted."""

    def __init__(
        self,
        release: Release = R_4_9_7,
        config: NetConfig | None = None,
        values: CommandsInFlight | None = None,
    ) -> None:
        self.facts: list[Fact] = []
        self.gone: list[str] = []
        clock = WallClock(1_000_000, trio.current_time())
        self.remoting = RemotingServer(
            clock,
            config or NetConfig(),
            release,
            self.facts.append,
            {**HANDLERS, 6: (HOLD, self.hold)},
        )
        self.wire = Wire(values)
        self.connection = self.remoting.accept(self.wire)
        self.wire.endpoint = self.connection

    def hold(self, call: Call[Any]) -> Result:
        return hold(call, gone=lambda: self.gone.append(call.request.word))

    def said(self, kind: type[Fact]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def a_request(code: int, opaque: int = 1, word: str = "hi", **fields: Any) -> bytes:
    header = Word(word=word)
    return encode_command(RemotingCommand(code=code, opaque=opaque, ext=ext_of(header), **fields))
