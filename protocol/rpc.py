"""A call as one value: its code, its request, its reply, and which roles answer it.

Servers, clients, reply rules, the journal and the protocol's documentation share it.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from protocol.fields import Header
from protocol.versions import Release

Role: TypeAlias = Literal["nameserver", "broker", "client", "controller"]
Request = TypeVar("Request", bound=Header)
Reply = TypeVar("Reply", bound=Header)


class Rpc(msgspec.Struct, Generic[Request, Reply], frozen=True):
    """One kind of request, generic over the types of its ext fields.

    ``request`` and ``reply`` are plain ``Header`` when there are no ext fields.  A body
    type of None means no body; ``bytes`` means one that is no JSON (messages, properties
    text).  Releases from ``since`` (included) to ``until`` (excluded)
    have the call.
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

    def known_to(self, release: Release) -> bool:
        """Whether a peer of *release* has this call in its table."""
        after = self.since is None or release >= self.since
        return after and (self.until is None or release < self.until)


AnyRpc: TypeAlias = Rpc[Any, Any]
