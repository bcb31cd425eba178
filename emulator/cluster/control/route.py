"""What a route is, and what the functions behind them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from emulator.cluster.control.controlled import Controlled
from emulator.cluster.control.conversation import HttpRequest, HttpResponse, Refused
from emulator.cluster.control.facts_feed import FactsFeed
from emulator.cluster.node_view import NodeState, NodeView

T = TypeVar("T")
Names: TypeAlias = Mapping[str, str]
Answer: TypeAlias = Callable[[Controlled, HttpRequest, Names], HttpResponse | FactsFeed]


class Route(NamedTuple):
    """``path`` has names in braces for what a request puts there."""

    method: str
    path: str
    answer: Answer

    def match(self, path: str) -> dict[str, str] | None:
        """What *path* has in place of the names; None if it is another path."""
        mine, theirs = self.path.split("/"), path.split("/")
        if len(mine) != len(theirs):
            return None
        pairs = list(zip(mine, theirs, strict=True))
        if any(own != other and own[:1] != "{" for own, other in pairs):
            return None
        return {own.strip("{}"): other for own, other in pairs if own[:1] == "{"}


def check_state(node: NodeView, possible: tuple[NodeState, ...], done: str) -> None:
    """Raises ``Refused`` if the node is in no state in which it can be *done* to."""
    if node.state not in possible:
        ways = ", ".join(possible[:-1]) + " or " * (len(possible) > 1) + possible[-1]
        text = f"{node.name} is {node.state}: only a node that is {ways} can be {done}"
        raise Refused(HTTPStatus.CONFLICT, text)


def body_of(request: HttpRequest, kind: type[T]) -> T:
    """The body, read as JSON.  Raises ``Refused`` with the field that is wrong."""
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body: {error}") from error
