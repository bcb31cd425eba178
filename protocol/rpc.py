"""A call as one value: its number, what it says, what is answered, who answers.

The same value serves the server that answers, the client that asks, reply rules, the
journal and the protocol's documentation.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from protocol.fields import Header
from protocol.versions import Release

Role: TypeAlias = Literal["nameserver", "broker", "client", "controller"]


class Rpc(msgspec.Struct, frozen=True):
    """One kind of request.

    ``request`` and ``reply`` are the types of the ext fields, plain ``Header`` when there
    are none.  A body type of None means no body; ``bytes`` means one that is no JSON
    (messages, properties text).  A release knows the call from ``since`` up to, and not
    with, ``until``.
    """

    code: int
    name: str
    asked_of: tuple[Role, ...]
    request: type[Header] = Header
    reply: type[Header] = Header
    request_body: Any = None
    reply_body: Any = None
    one_way: bool = False  # upstream sends it without waiting for an answer
    since: Release | None = None
    until: Release | None = None

    def known_to(self, release: Release) -> bool:
        """Whether a peer of *release* has ever heard of this call."""
        after = self.since is None or release >= self.since
        return after and (self.until is None or release < self.until)
