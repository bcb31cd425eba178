"""What stands between a request and its handler, and who sees the reply.

Links are asked in the order of their places, each ``Call -> Result | Defer | None``: None
passes the call on, a result answers it, a ``Defer`` holds it until a time and passes it on
then.  An empty chain costs the test of an empty tuple.

Upstream: RPCHook, NettyRemotingAbstract.doBeforeRpcHooks and doAfterRpcHooks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import Any, TypeAlias

import msgspec

from emulator.net.results import Call, Handler, Peer, Reply, Result, Wait
from protocol.command import RemotingCommand


class Place(IntEnum):
    """Where a link stands: those with a lower number see a call first."""

    EVIDENCE = 0
    LIMITS = 1
    ACCESS_CONTROL = 2
    REPLY_RULES = 3
    POOLS = 4


class Defer(msgspec.Struct, frozen=True):
    """The call is held until ``until_ms``; then ``then`` is asked as a link, or the next one.

    Whoever rings the bell ``on`` has that done sooner.
    """

    until_ms: int
    then: Link | None = None
    on: Hashable = None


class Answered(msgspec.Struct, frozen=True):
    """A reply that is about to be encoded, as the observer sees it.

    ``held_on_purpose``: the client had asked to wait for news (a long poll).
    """

    command: RemotingCommand
    peer: Peer
    reply: Reply
    arrived_ms: int
    held_on_purpose: bool


Link: TypeAlias = Callable[[Call[Any]], Result | Defer | None]
Observer: TypeAlias = Callable[[Answered], object]


class Chain:
    """The links of one end, at most one a place, and at most one observer of replies."""

    def __init__(self) -> None:
        self.links: tuple[Link, ...] = ()
        self.observer: Observer | None = None
        self._placed: dict[Place, Link] = {}

    def put(self, place: Place, link: Link | None) -> None:
        """Let *link* stand at *place*; None leaves the place empty."""
        if link is None:
            self._placed.pop(place, None)
        else:
            self._placed[place] = link
        self.links = tuple(self._placed[place] for place in sorted(self._placed))

    def handle(self, call: Call[Any], handler: Handler) -> Result:
        """The result of the first link that has one; the handler's if none has."""
        return _pass_on(call, handler, self.links)


def _pass_on(call: Call[Any], handler: Handler, links: tuple[Link, ...]) -> Result:
    for index, link in enumerate(links):
        result = link(call)
        if isinstance(result, Defer):
            return _deferred(call, result, handler, links[index + 1 :])
        if result is not None:
            return result
    return handler(call)


def _deferred(call: Call[Any], defer: Defer, handler: Handler, links: tuple[Link, ...]) -> Wait:
    behind = links if defer.then is None else (defer.then, *links)

    def resume(now_ms: int, _expired: bool) -> Result:
        call.now_ms = now_ms  # for what stands behind the delay, the request arrives now
        return _pass_on(call, handler, behind)

    bell = object() if defer.on is None else defer.on  # else one that nobody else knows
    return Wait(bell, defer.until_ms, resume)
