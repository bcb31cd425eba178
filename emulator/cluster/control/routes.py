"""What the control address answers: a table of methods and paths, and a function for each.

The functions block, as the world's verbs do.  A verb that makes no sense for a node as it is
now is refused here: the world itself would do nothing and say nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from emulator.cluster.control import facts_route, fault_routes, node_calls, time_route
from emulator.cluster.control.controlled import Controlled
from emulator.cluster.control.conversation import HttpRequest, HttpResponse, Refused
from emulator.cluster.control.facts_feed import FactsFeed
from emulator.cluster.control.route import Answer, Names, Route, check_state
from emulator.cluster.faults.register import UnknownFault
from emulator.cluster.node_process import NodeDied
from emulator.cluster.node_view import RUNNING_STATES, NodeState, NodeView
from emulator.cluster.process_errors import plain_text
from emulator.cluster.world import CannotDo, ClusterEnded, NotReady, UnknownNode, Verb

ENDED_STATES: tuple[NodeState, ...] = ("stopped", "dead")


class VerbStates(NamedTuple):
    """Of which states a verb makes sense, which one it leads to, and how one says that."""

    possible: tuple[NodeState, ...]
    result: NodeState
    done: str


VERB_STATES: Mapping[Verb, VerbStates] = {
    "start": VerbStates(ENDED_STATES, "running", "started"),
    "stop": VerbStates(RUNNING_STATES, "stopped", "stopped"),
    "kill": VerbStates(RUNNING_STATES, "dead", "killed"),
    "restart": VerbStates((*RUNNING_STATES, *ENDED_STATES), "running", "restarted"),
    "pause": VerbStates(("running",), "paused", "paused"),
    "resume": VerbStates(("paused",), "running", "resumed"),
}


def answer(world: Controlled, request: HttpRequest) -> HttpResponse | FactsFeed:
    """The answer to *request*, be it a refusal; anything raised here is a bug."""
    try:
        return _routed(world, request)
    except Refused as refused:
        return HttpResponse.refusal(refused)
    except Exception as error:
        text, status = _blame(error)
        if text is None:
            raise
        return HttpResponse.refusal(Refused(status, text))


def _routed(world: Controlled, request: HttpRequest) -> HttpResponse | FactsFeed:
    path = request.path.rstrip("/") or "/"
    found = [(route, names) for route in ROUTES if (names := route.match(path)) is not None]
    for route, names in found:
        if route.method == request.method:
            return route.answer(world, request, names)
    if not found:
        raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {path:.80}: see GET /")
    allowed = ", ".join(sorted({route.method for route, _ in found}))
    text = f"{request.method} is not possible at {path:.80}: only {allowed}"
    raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, text, allow=allowed)


def _blame(error: Exception) -> tuple[str | None, HTTPStatus]:
    for kinds, status in STATUS_OF_ERRORS:
        if isinstance(error, kinds):
            return str(error).split("\n", 1)[0], status
    return plain_text(error), HTTPStatus.INTERNAL_SERVER_ERROR


STATUS_OF_ERRORS: tuple[tuple[tuple[type[Exception], ...], HTTPStatus], ...] = (
    ((UnknownNode, UnknownFault), HTTPStatus.NOT_FOUND),
    ((CannotDo,), HTTPStatus.NOT_IMPLEMENTED),
    ((NodeDied, NotReady, ClusterEnded), HTTPStatus.INTERNAL_SERVER_ERROR),
)


# The cluster ------------------------------------------------------------------------------


def _about(world: Controlled, _request: HttpRequest, _names: Names) -> HttpResponse:
    return HttpResponse.json(
        {
            "namesrv": world.namesrv,
            "brokers": world.brokers,
            "release": world.spec.release,
            "store": world.spec.store,
            "version": _version(),
            "world": world.kind,
            "with_links": world.has_links,
            "pid": os.getpid(),
            "links": [f"{route.method} {route.path}" for route in ROUTES],
        }
    )


def _nodes(world: Controlled, _request: HttpRequest, _names: Names) -> HttpResponse:
    return HttpResponse.json({"nodes": world.nodes})


def _reset(world: Controlled, _request: HttpRequest, _names: Names) -> HttpResponse:
    world.reset()
    return HttpResponse.json({"nodes": world.nodes})


# One node ---------------------------------------------------------------------------------


def _node(world: Controlled, _request: HttpRequest, names: Names) -> HttpResponse:
    return HttpResponse.json(world.node(names["name"]))


def _verb(verb: Verb) -> Answer:
    def do(world: Controlled, _request: HttpRequest, names: Names) -> HttpResponse:
        name = names["name"]
        check_verb(world.node(name), verb)
        getattr(world, verb)(name)
        return HttpResponse.json(world.node(name))

    return do


def check_verb(node: NodeView, verb: Verb) -> None:
    """Raises ``Refused`` where *verb* makes no sense for the node as it is."""
    possible, result, done = VERB_STATES[verb]
    if node.state == result and result not in possible:
        raise Refused(HTTPStatus.CONFLICT, f"{node.name} is {node.state} already")
    check_state(node, possible, done)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", _about),
    Route("POST", "/reset", _reset),
    Route("GET", "/nodes", _nodes),
    Route("GET", "/nodes/{name}", _node),
    *(Route("POST", f"/nodes/{{name}}/{verb}", _verb(verb)) for verb in VERB_STATES),
    *node_calls.ROUTES,
    *facts_route.ROUTES,
    *fault_routes.ROUTES,
    *time_route.ROUTES,
)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # rarely asked

    try:
        return version("rocketmq-emulator")
    except PackageNotFoundError:
        return "unknown"  # run from its sources
