"""``GET /facts``: which facts of which nodes a request wants; the stream itself is elsewhere."""

from __future__ import annotations

import difflib
from http import HTTPStatus

from emulator.cluster.control.controlled import Controlled
from emulator.cluster.control.conversation import HttpRequest, Refused
from emulator.cluster.control.facts_feed import FactsFeed
from emulator.cluster.control.route import Names, Route
from emulator.facts import all_facts
from emulator.journal import WORLD_NODE

PARAMETERS = ("kinds", "nodes")


def _facts(world: Controlled, request: HttpRequest, _names: Names) -> FactsFeed:
    if unknown := sorted(request.query.keys() - set(PARAMETERS)):
        text = f"there is no parameter {', '.join(unknown)}: only {' and '.join(PARAMETERS)}"
        raise Refused(HTTPStatus.BAD_REQUEST, text)
    names = tuple(node.name for node in world.nodes)
    nodes = _listed(request, "nodes") or (*names, WORLD_NODE)
    for name in nodes:
        if name != WORLD_NODE:
            world.node(name)
    kinds = _listed(request, "kinds")
    _check_kinds(kinds)
    return FactsFeed(nodes, kinds or None)


def _listed(request: HttpRequest, parameter: str) -> tuple[str, ...]:
    given = request.query.get(parameter, "").split(",")
    return tuple(dict.fromkeys(part.strip() for part in given if part.strip()))


def _check_kinds(kinds: tuple[str, ...]) -> None:
    known = [kind.__name__ for kind in all_facts()]
    for kind in kinds:
        if kind not in known:
            near = difflib.get_close_matches(kind, known, n=1)
            advice = f"; did you mean {near[0]}?" if near else "; see docs/facts.md"
            raise Refused(HTTPStatus.BAD_REQUEST, f"there is no kind of fact {kind!r}{advice}")


ROUTES: tuple[Route, ...] = (Route("GET", "/facts", _facts),)
