"""What a role answers, as data: one row a call, the same form in every role.

A role's table is a literal tuple of rows, built from the role by one function.  In which
releases a call exists stands once, in the catalog (``since``, ``until``), and is applied
here: no handler asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from emulator.net.results import Call, Handler, Result
from emulator.releases import Release
from protocol.fields import Header
from protocol.rpc import AnyRpc, Rpc

Request = TypeVar("Request", bound=Header)
Reply = TypeVar("Reply", bound=Header)
Table: TypeAlias = Mapping[int, tuple[AnyRpc, Handler]]


class Row:
    """One call and its handler.  mypy refuses a handler of another request type."""

    __slots__ = ("handler", "rpc")

    def __init__(
        self, rpc: Rpc[Request, Reply], handler: Callable[[Call[Request]], Result]
    ) -> None:
        self.rpc: AnyRpc = rpc
        self.handler: Handler = handler


def table_of(rows: Iterable[Row], release: Release) -> Table:
    """Handlers by code: the rows whose call a peer of *release* knows."""
    return {row.rpc.code: (row.rpc, row.handler) for row in rows if row.rpc.known_to(release)}
