"""A call as one value: its code, its request, its reply, and the roles that answer it.

Servers, clients, reply rules, the journal and the protocol's documentation use it.
The catalog constructs each by a function that is named for the answering roles
(``broker``, ``client``, ``nameserver`` …); the call's name in ``RequestCode`` gives its code.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

import msgspec

from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.versions import Release

Role: TypeAlias = Literal["nameserver", "broker", "client", "controller"]
Request = TypeVar("Request", bound=Header)
Reply = TypeVar("Reply", bound=Header)


class Rpc(msgspec.Struct, Generic[Request, Reply], frozen=True):
    """One kind of request, generic over the types of its ext fields.

    ``request`` and ``reply`` are plain ``Header`` when there are no ext fields.  A body
    type of None means no body; ``bytes`` means one that is no JSON (messages, properties
    text).  Releases from ``since`` (included) to ``until`` (excluded) have the call.
    """

    code: int
    name: str
    answered_by: tuple[Role, ...]
    request: type[Request]
    reply: type[Reply]
    request_body: Any = None
    reply_body: Any = None
    one_way: bool = False  # upstream sends it without waiting for an answer
    since: Release | None = None
    until: Release | None = None

    def exists_in(self, release: Release) -> bool:
        """Whether a peer of *release* has this call in its table."""
        after = self.since is None or release >= self.since
        return after and (self.until is None or release < self.until)


AnyRpc: TypeAlias = Rpc[Any, Any]


# Constructing calls for the catalog ---------------------------------------------------


class _RpcOptions(TypedDict, total=False):
    request_body: Any
    reply_body: Any
    one_way: bool
    since: Release
    until: Release


class _RpcFactory:
    """Constructs calls that these *roles* answer."""

    def __init__(self, *roles: Role) -> None:
        self._roles = roles

    @overload
    def __call__(self, name: str, **more: Unpack[_RpcOptions]) -> Rpc[Header, Header]: ...

    @overload
    def __call__(
        self, name: str, request: type[Request], **more: Unpack[_RpcOptions]
    ) -> Rpc[Request, Header]: ...

    @overload
    def __call__(
        self, name: str, *, reply: type[Reply], **more: Unpack[_RpcOptions]
    ) -> Rpc[Header, Reply]: ...

    @overload
    def __call__(
        self, name: str, request: type[Request], reply: type[Reply], **more: Unpack[_RpcOptions]
    ) -> Rpc[Request, Reply]: ...

    def __call__(
        self,
        name: str,
        request: type[Header] = Header,
        reply: type[Header] = Header,
        **more: Unpack[_RpcOptions],
    ) -> AnyRpc:
        """The call of that name in ``RequestCode``; ``Header`` for ext fields not given."""
        return Rpc(getattr(RequestCode, name), name, self._roles, request, reply, **more)


broker = _RpcFactory("broker")
client = _RpcFactory("client")
broker_or_client = _RpcFactory("broker", "client")
nameserver = _RpcFactory("nameserver")
controller = _RpcFactory("controller")
nameserver_or_controller = _RpcFactory("nameserver", "controller")
any_server = _RpcFactory("nameserver", "broker", "controller")
