"""Every call that clients, tools, brokers and NameServers make of each other, by name.

A table in several files: which role answers, request and reply.  ``by_code`` finds the
call that a code means to a role.
"""

from __future__ import annotations

from protocol.catalog import consuming, own_codes, pop, producing, registering, routing, tools
from protocol.catalog.consuming import *  # noqa: F403 - the pages of one table
from protocol.catalog.own_codes import *  # noqa: F403 - the same
from protocol.catalog.pop import *  # noqa: F403 - the same
from protocol.catalog.producing import *  # noqa: F403 - the same
from protocol.catalog.registering import *  # noqa: F403 - the same
from protocol.catalog.routing import *  # noqa: F403 - the same
from protocol.catalog.tools import *  # noqa: F403 - the same
from protocol.rpc import AnyRpc, Role, Rpc

_PAGES = (routing, registering, producing, consuming, tools, pop, own_codes)

CALLS: tuple[AnyRpc, ...] = tuple(
    value for page in _PAGES for value in vars(page).values() if isinstance(value, Rpc)
)
_BY_CODE: dict[tuple[int, Role], AnyRpc] = {
    (rpc.code, role): rpc for rpc in CALLS for role in rpc.answered_by
}


def by_code(code: int, role: Role) -> AnyRpc | None:
    """The call that *code* is to a *role*; None if there is none."""
    return _BY_CODE.get((code, role))
