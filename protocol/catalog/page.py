"""How a line of the catalog is written: the name says the code, the function who is asked."""

from __future__ import annotations

from functools import partial
from typing import Any

from protocol.codes import RequestCode
from protocol.fields import Header
from protocol.rpc import Role, Rpc
from protocol.versions import Release

FIVE = Release(5, 0, 0)


def _call(
    asked_of: tuple[Role, ...],
    name: str,
    request: type[Header] = Header,
    reply: type[Header] = Header,
    **more: Any,
) -> Rpc:
    return Rpc(getattr(RequestCode, name), name, asked_of, request, reply, **more)


broker = partial(_call, ("broker",))
client = partial(_call, ("client",))
broker_or_client = partial(_call, ("broker", "client"))
nameserver = partial(_call, ("nameserver",))
