"""From a request to its handler: the table of a role, and the hooks called before the handler.

The calls that a role answers are data: a literal tuple of rows, one for each call, built by one
function.  The catalog says in which releases a call exists (``since``, ``until``); this module
applies it, so no handler checks the release for that.

Before the handler, the links of the chain are called in the order of their ``HookPosition``.  Each
is ``Call -> Result | Defer | None``: None passes the call on, a result answers it, a ``Defer``
holds it until a time and passes it on then.  One observer is called with each reply.  An empty
chain costs the test of an empty tuple.

Upstream: RPCHook, NettyRemotingAbstract.doBeforeRpcHooks and doAfterRpcHooks, processorTable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

import msgspec

from rocketmq_emulator.net.results import Call, Handler, Peer, Reply, Result, Wait
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.rpc import AnyRpc, Rpc
from rocketmq_emulator.settings.releases import Release

# The handler table --------------------------------------------------------------------


RequestHeader = TypeVar("RequestHeader", bound=Header)
ReplyHeader = TypeVar("ReplyHeader", bound=Header)
Table: TypeAlias = Mapping[int, tuple[AnyRpc, Handler]]


class Row:
    """One call and its handler.  mypy refuses a handler of another request type."""

    __slots__ = ("handler", "rpc")

    def __init__(
        self,
        rpc: Rpc[RequestHeader, ReplyHeader],
        handler: Callable[[Call[RequestHeader]], Result],
    ) -> None:
        self.rpc: AnyRpc = rpc
        self.handler: Handler = handler


class RefusesUnread:
    """A handler of requests that may be refused before their headers are read.

    ``unread`` returns that refusal, or None: then a header that cannot be read is an error.
    Upstream: NettyRequestProcessor.rejectRequest.
    """

    __slots__ = ("handler", "unread")

    def __init__(self, handler: Handler, unread: Callable[[], Reply | None]) -> None:
        self.handler = handler
        self.unread = unread

    def __call__(self, call: Call[Any]) -> Result:
        return self.handler(call)


def table_of(rows: Iterable[Row], release: Release) -> Table:
    """Handlers by code: the rows whose call exists in *release*."""
    return {row.rpc.code: (row.rpc, row.handler) for row in rows if row.rpc.exists_in(release)}


# The chain before handlers ------------------------------------------------------------


class HookPosition(IntEnum):
    """The position of a link in the chain: lower numbers are called first."""

    REQUEST_FACTS = 0
    LIMITS = 1
    ACCESS_CONTROL = 2
    REPLY_RULES = 3
    POOLS = 4


class Defer(msgspec.Struct, frozen=True):
    """The call is held until ``until_ms``; then ``then`` (if given) and the next links are called.

    Ringing the bell ``on`` ends the wait earlier.
    """

    until_ms: int
    then: RequestHook | None = None
    on: Hashable = None


class AnsweredRequest(msgspec.Struct, frozen=True):
    """A reply that is about to be encoded: the argument of the observer.

    ``held_on_purpose``: the client asked to wait for news (a long poll).
    """

    command: RemotingCommand
    peer: Peer
    reply: Reply
    arrived_ms: int
    held_on_purpose: bool


RequestHook: TypeAlias = Callable[[Call[Any]], Result | Defer | None]
Observer: TypeAlias = Callable[[AnsweredRequest], object]


class Chain:
    """The links of one ``Remoting``, at most one per position, and at most one observer."""

    def __init__(self) -> None:
        self.links: tuple[RequestHook, ...] = ()
        self.observer: Observer | None = None
        self._placed: dict[HookPosition, RequestHook] = {}

    def put(self, place: HookPosition, link: RequestHook | None) -> None:
        """Set the link at position *place*; None removes it."""
        if link is None:
            self._placed.pop(place, None)
        else:
            self._placed[place] = link
        self.links = tuple(self._placed[place] for place in sorted(self._placed))

    def handle(self, call: Call[Any], handler: Handler) -> Result:
        """The result of the first link that returns one, else the handler's."""
        return _pass_on(call, handler, self.links)


def _pass_on(call: Call[Any], handler: Handler, links: tuple[RequestHook, ...]) -> Result:
    for index, link in enumerate(links):
        result = link(call)
        if isinstance(result, Defer):
            return _deferred(call, result, handler, links[index + 1 :])
        if result is not None:
            return result
    return handler(call)


def _deferred(
    call: Call[Any], defer: Defer, handler: Handler, links: tuple[RequestHook, ...]
) -> Wait:
    behind = links if defer.then is None else (defer.then, *links)

    def resume(now_ms: int, _expired: bool) -> Result:
        call.now_ms = now_ms  # for the next links and the handler, the request arrives now
        return _pass_on(call, handler, behind)

    bell = object() if defer.on is None else defer.on  # a new object: nothing rings it
    return Wait(bell, defer.until_ms, resume)
