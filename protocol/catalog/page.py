"""How a line of the catalog is written: the name gives the code, the function the role."""

from __future__ import annotations

from typing import Any, TypedDict, TypeVar, Unpack, overload

from protocol.codes import RequestCode
from protocol.fields import Header
from protocol.rpc import AnyRpc, Role, Rpc
from protocol.versions import Release

Request = TypeVar("Request", bound=Header)
Reply = TypeVar("Reply", bound=Header)


class _More(TypedDict, total=False):
    request_body: Any
    reply_body: Any
    one_way: bool
    since: Release
    until: Release


class _AnsweredBy:
    """Makes the calls that these roles answer."""

    def __init__(self, *roles: Role) -> None:
        self._roles = roles

    @overload
    def __call__(self, name: str, **more: Unpack[_More]) -> Rpc[Header, Header]: ...

    @overload
    def __call__(
        self, name: str, request: type[Request], **more: Unpack[_More]
    ) -> Rpc[Request, Header]: ...

    @overload
    def __call__(
        self, name: str, *, reply: type[Reply], **more: Unpack[_More]
    ) -> Rpc[Header, Reply]: ...

    @overload
    def __call__(
        self, name: str, request: type[Request], reply: type[Reply], **more: Unpack[_More]
    ) -> Rpc[Request, Reply]: ...

    def __call__(
        self,
        name: str,
        request: type[Header] = Header,
        reply: type[Header] = Header,
        **more: Unpack[_More],
    ) -> AnyRpc:
        """The call of that name in ``RequestCode``; ``Header`` for ext fields not given."""
        return Rpc(getattr(RequestCode, name), name, self._roles, request, reply, **more)


broker = _AnsweredBy("broker")
client = _AnsweredBy("client")
broker_or_client = _AnsweredBy("broker", "client")
nameserver = _AnsweredBy("nameserver")
nameserver_or_broker = _AnsweredBy("nameserver", "broker")
