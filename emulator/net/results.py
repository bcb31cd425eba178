"""The results of a handler: reply now, never, later, or after invoking another peer.

A handler is a plain function ``Call -> Result``.  It never waits: to reply later it returns a
``Wait`` or an ``InvokePeer`` with a function ``resume``, and ``Remoting`` waits for it.
``resume`` is *another* function than the first pass: the second pass of a long poll neither
commits offsets nor waits again.

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
    """The request is answered with an error code.  Nothing was done, unless the code says so."""

    def __init__(self, code: int, remark: str, header: Header | None = None) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark
        self.header = header


class Peer:
    """One connection as handlers see it: the identity of the far end, without its transport.

    Compared by identity: a client that reconnects is another peer.
    """

    __slots__ = ("address", "client_id", "is_open", "number")

    def __init__(self, address: str, number: int) -> None:
        self.address = address  # "ip:port" of the far end
        self.number = number  # counts up within one server, for a stable order
        self.is_open = True
        self.client_id: str | None = None  # of the client that sent a heartbeat here

    def __repr__(self) -> str:
        return f"Peer({self.address}, {self.number})"


class Call(msgspec.Struct, Generic[Request_co], gc=False):
    """One request at a server: its command, its typed ext fields, the requester, the arrival.

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
    """The reply is sent now.  ``header`` becomes ext fields; ``extra`` adds plain ones."""

    header: Header | None = None
    body: bytes = b""
    code: int = 0
    remark: str | None = None
    extra: Mapping[str, str] | None = None


class NoReply(msgspec.Struct, frozen=True):
    """No reply: the request is one-way, or upstream does not answer it."""


NO_REPLY = NoReply()


class Wait(msgspec.Struct):
    """The call is held until the bell ``on`` is rung with news it ``wants``, or ``until_ms``.

    With ``on=UpTo(mark, position)`` it is held until that watermark is reached.

    Then ``resume(now_ms, expired)`` returns the result.  News that are not wanted bring the
    deadline forward to ``unwanted_until_ms(now_ms)`` if that is given (upstream's sweep checks
    every held pull whose queue has grown, even if its filter does not match).

    ``gone`` is called instead if the requester's connection ends before; without it the call
    stays held, and its reply is dropped.  ``on_purpose``: the client asked to be held, so the
    reply never counts as slow.
    """

    on: Hashable
    until_ms: int
    resume: Callable[[int, bool], Result]
    wants: Callable[[Any], bool] | None = None
    unwanted_until_ms: Callable[[int], int] | None = None
    gone: Callable[[], object] | None = None
    on_purpose: bool = False


class InvokePeer(msgspec.Struct):
    """Send *peer* a request first; then ``resume(now_ms, reply)``, with None if none came."""

    peer: Peer
    code: int
    header: Header | None
    body: bytes
    until_ms: int
    resume: Callable[[int, RemotingCommand | None], Result]


Result: TypeAlias = Reply | NoReply | Wait | InvokePeer
Handler: TypeAlias = Callable[[Call[Any]], Result]  # the call's header is decoded

# Outlets: functions given to a role at its start, for actions besides replying.
Ring: TypeAlias = Callable[[Hashable, Any], None]  # ring(bell, news): wakes held calls
# Push sends a one-way request (peer, code, header, body); False: it was dropped.
Push: TypeAlias = Callable[[Peer, int, Header | None, bytes], bool]
# CallLater has the arguments at_ms and action(now_ms).
CallLater: TypeAlias = Callable[[int, Callable[[int], object]], object]


# The page at the end of refusals ------------------------------------------------------


_PAGE = "http://rocketmq.apache.org/docs/faq/"
_PAGE_5 = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"


def see_faq(release: Release) -> str:
    """The text at the end of a remark of *release*, with its line break.

    Upstream: FAQUrl.suggestTodo.
    """
    page = _PAGE_5 if release >= FAQ_AT_BEST_PRACTICE else _PAGE
    return f"\nSee {page} for further details."
