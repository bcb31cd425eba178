"""What a handler may answer: now, never, later, or after asking another peer.

A handler is a plain function ``Call -> Result``.  It never waits: when an answer must come later
it returns what to wait for and how to go on, and the shell waits for it.  ``resume`` is *another*
function than the first pass: a long poll's second look neither commits offsets nor waits anew.

A ``Refusal`` is raised; its remark may end with the FAQ page that upstream names there
(``see_faq``), which depends on the release.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.error_families import RefusedByServer
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.settings.releases import FAQ_AT_BEST_PRACTICE, Release

Request_co = TypeVar("Request_co", bound=Header, covariant=True)


class Refusal(RefusedByServer):
    """The request is answered with an error code.  Nothing was done, unless the code means it."""

    def __init__(self, code: int, remark: str, header: Header | None = None) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark
        self.header = header


class Peer:
    """One connection as handlers know it: who it is, not how its bytes move.

    Compared by identity: a client that reconnects is another peer.
    """

    __slots__ = ("address", "client_id", "is_open", "number")

    def __init__(self, address: str, number: int) -> None:
        self.address = address  # "ip:port" of the far end
        self.number = number  # counts up within one server: a stable order
        self.is_open = True
        self.client_id: str | None = None  # of the client that sent a heartbeat here

    def __repr__(self) -> str:
        return f"Peer({self.address}, {self.number})"


class Call(msgspec.Struct, Generic[Request_co], gc=False):
    """One request at a server: the frame's command, its typed ext fields, who asks, and when.

    A handler that reads no ext fields takes ``Call[Header]``: it can answer any request.
    """

    command: RemotingCommand
    request: Request_co
    peer: Peer
    now_ms: int

    @property
    def body(self) -> bytes:
        """The body of the request's frame."""
        return self.command.body


class Reply(msgspec.Struct, gc=False):
    """Answered now.  ``header`` becomes ext fields; ``extra`` adds plain ones."""

    header: Header | None = None
    body: bytes = b""
    code: int = 0
    remark: str | None = None
    extra: Mapping[str, str] | None = None


class NoReply(msgspec.Struct, frozen=True):
    """One-way, or upstream stays silent."""


NO_REPLY = NoReply()


class Wait(msgspec.Struct):
    """Held until the bell ``on`` is rung with news it ``wants``, or until ``until_ms``.

    With ``on=UpTo(mark, position)`` it is held until that watermark is reached.

    ``resume(now_ms, expired)`` then answers.  News that are not wanted bring the end
    forward to ``unwanted_until_ms(now_ms)`` if that is given (upstream's sweep looks at
    every held pull whose queue has grown, whatever its filter says).

    ``gone`` is called instead if the asker's connection ends before; without it the call
    goes on, and its answer is dropped.  ``on_purpose``: the client asked to be held, so the
    answer never counts as slow.
    """

    on: Hashable
    until_ms: int
    resume: Callable[[int, bool], Result]
    wants: Callable[[Any], bool] | None = None
    unwanted_until_ms: Callable[[int], int] | None = None
    gone: Callable[[], object] | None = None
    on_purpose: bool = False


class InvokePeer(msgspec.Struct):
    """The server first asks *peer*; ``resume(now_ms, reply)`` gets None when no answer came."""

    peer: Peer
    code: int
    header: Header | None
    body: bytes
    until_ms: int
    resume: Callable[[int, RemotingCommand | None], Result]


Result: TypeAlias = Reply | NoReply | Wait | InvokePeer
Handler: TypeAlias = Callable[[Call[Any]], Result]  # of a call that its table has decoded

# Outlets: what handlers do besides answering.
Ring: TypeAlias = Callable[[Hashable, Any], None]  # ring(bell, news): wakes held calls
Push: TypeAlias = Callable[
    [Peer, int, Header | None, bytes], bool
]  # one-way request to a peer; False: dropped
CallLater: TypeAlias = Callable[
    [int, Callable[[int], object]], object
]  # later(at_ms, action(now_ms))


# The page that refusals end with ------------------------------------------------------


_PAGE = "http://rocketmq.apache.org/docs/faq/"
_PAGE_5 = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"


def see_faq(release: Release) -> str:
    """What a remark of *release* ends with, a line break included.

    Upstream: FAQUrl.suggestTodo.
    """
    page = _PAGE_5 if release >= FAQ_AT_BEST_PRACTICE else _PAGE
    return f"\nSee {page} for further details."
