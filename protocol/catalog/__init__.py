"""Every call between clients, tools, brokers, NameServers and controllers, by name.

A table in several files: the roles that answer, request and reply.  ``by_code`` finds the call
that a role answers by its code.
"""

from __future__ import annotations

from rocketmq_emulator.protocol.catalog import clients, controlling, routing, tools
from rocketmq_emulator.protocol.catalog.clients import *  # noqa: F403 - the parts of one table
from rocketmq_emulator.protocol.catalog.controlling import *  # noqa: F403 - the same
from rocketmq_emulator.protocol.catalog.routing import *  # noqa: F403 - the same
from rocketmq_emulator.protocol.catalog.tools import *  # noqa: F403 - the same
from rocketmq_emulator.protocol.rpc import AnyRpc, Role, Rpc

_MODULES = (routing, clients, tools, controlling)

CALLS: tuple[AnyRpc, ...] = tuple(
    value for page in _MODULES for value in vars(page).values() if isinstance(value, Rpc)
)
_BY_CODE: dict[tuple[int, Role], AnyRpc] = {
    (rpc.code, role): rpc for rpc in CALLS for role in rpc.answered_by
}


def by_code(code: int, role: Role) -> AnyRpc | None:
    """The call with *code* that *role* answers; None if there is none."""
    return _BY_CODE.get((code, role))
