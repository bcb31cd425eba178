"""The routes of the control address: a table of methods and paths, and a function for each.

Nodes and their verbs, reply rules, clock and address of a node, faults, facts as a stream
(``GET /facts``; ``facts_feed`` reads them), topics, and ``POST /advance`` for delayed and timer
messages.
The functions block, as the world's verbs do.  A verb that is not possible in a node's present
state is refused here: the world itself would do nothing and report nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, NamedTuple, NoReturn, TypeAlias, TypeVar

import msgspec

from rocketmq_emulator.cluster.control.controlled import ControlledCluster
from rocketmq_emulator.cluster.control.facts_feed import FactsFeed
from rocketmq_emulator.cluster.control.http_connection import HttpRequest, HttpResponse, Refused
from rocketmq_emulator.cluster.fault_values import FaultState
from rocketmq_emulator.cluster.faults.reading import BadFault, parse_fault
from rocketmq_emulator.cluster.faults.register import UnknownFault
from rocketmq_emulator.cluster.node_view import (
    RUNNING_STATES,
    NodeState,
    NodeView,
    named_states,
)
from rocketmq_emulator.cluster.reply_rules import ReplyRuleRefused
from rocketmq_emulator.cluster.world import CannotDo, ClusterEnded, NotReady, UnknownNode, Verb
from rocketmq_emulator.facts import all_facts
from rocketmq_emulator.facts.journal import WORLD_NODE
from rocketmq_emulator.net.transport import HostUnknown
from rocketmq_emulator.processes.node_process import NodeDied
from rocketmq_emulator.processes.process_errors import user_message
from rocketmq_emulator.protocol.bodies.extensions import (
    ClockSkew,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
    with_suggestion,
)
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.validation import broker_refuses_topic
from rocketmq_emulator.settings.setting_rules import BadField
from rocketmq_emulator.text.suggestions import did_you_mean

T = TypeVar("T")
Names: TypeAlias = Mapping[str, str]
RouteFunction: TypeAlias = Callable[
    [ControlledCluster, HttpRequest, Names], HttpResponse | FactsFeed
]


class Route(NamedTuple):
    """A method and a path; names in braces in ``path`` match any segment of a request's path."""

    method: str
    path: str
    answer: RouteFunction

    def match(self, path: str) -> dict[str, str] | None:
        """The segments of *path* by the names in braces; None if it does not match."""
        mine, theirs = self.path.split("/"), path.split("/")
        if len(mine) != len(theirs):
            return None
        pairs = list(zip(mine, theirs, strict=True))
        if any(own != other and own[:1] != "{" for own, other in pairs):
            return None
        return {own.strip("{}"): other for own, other in pairs if own[:1] == "{"}


def check_state(node: NodeView, possible: tuple[NodeState, ...], done: str) -> None:
    """Raises ``Refused`` if the node's state is not in *possible*; *done* is the participle."""
    if node.state not in possible:
        ways = ", ".join(possible[:-1]) + " or " * (len(possible) > 1) + possible[-1]
        text = f"{node.name} is {node.state}: only a node that is {ways} can be {done}"
        raise Refused(HTTPStatus.CONFLICT, text)


def body_of(request: HttpRequest, kind: type[T]) -> T:
    """The body, decoded from JSON.  Raises ``Refused``, which names the invalid field."""
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(
            HTTPStatus.BAD_REQUEST, f"the body: {with_suggestion(str(error), kind)}"
        ) from error


# Reply rules, the clock and the address of a node -------------------------------------


STATUS_OF_REFUSALS = {
    ResponseCode.NO_PERMISSION: HTTPStatus.FORBIDDEN,
    ResponseCode.INVALID_PARAMETER: HTTPStatus.BAD_REQUEST,
}
RULES = "/nodes/{name}/reply-rules"


def _rules(world: ControlledCluster, _request: HttpRequest, names: Names) -> HttpResponse:
    with _answering(world, names["name"]) as name:
        return HttpResponse.json(ReplyRuleList(rules=world.reply_rules(name)))


def _set_rule(world: ControlledCluster, request: HttpRequest, names: Names) -> HttpResponse:
    rule = body_of(request, ReplyRule)
    with _answering(world, names["name"]) as name:
        rule_id = world.set_reply_rule(name, rule)
    return HttpResponse.json(ReplyRuleId(rule_id=rule_id), HTTPStatus.CREATED)


def _remove_rules(world: ControlledCluster, _request: HttpRequest, names: Names) -> HttpResponse:
    with _answering(world, names["name"]) as name:
        return HttpResponse.json({"rule_ids": world.remove_reply_rule(name)})


def _remove_rule(world: ControlledCluster, _request: HttpRequest, names: Names) -> HttpResponse:
    rule_id = names["id"]
    if not rule_id.isdecimal():
        raise Refused(HTTPStatus.BAD_REQUEST, f"{rule_id:.40} is no id of a rule: it is a number")
    with _answering(world, names["name"]) as name:
        removed = world.remove_reply_rule(name, int(rule_id))
    if not removed:
        text = f"there is no rule {rule_id} at {name}; it was removed, or has ended"
        raise Refused(HTTPStatus.NOT_FOUND, text)
    return HttpResponse.json({"rule_ids": removed})


def _skew_clock(world: ControlledCluster, request: HttpRequest, names: Names) -> HttpResponse:
    skew = body_of(request, ClockSkew)
    node = world.node(names["name"])
    if node.state == "paused":
        check_state(node, ("starting", "running", "stopped", "dead"), "given another clock")
    with refusals(node.name):
        world.skew_clock(node.name, skew.ms)
    return HttpResponse.json(skew)


class AdvertiseWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST …/advertise``: ``host:port``."""

    address: str


def _advertise(world: ControlledCluster, request: HttpRequest, names: Names) -> HttpResponse:
    wanted = body_of(request, AdvertiseWanted)
    node = world.node(names["name"])
    if node.state == "paused":
        check_state(node, ("starting", "running", "stopped", "dead"), "given another address")
    with refusals(node.name):
        try:
            world.advertise(node.name, wanted.address)
        except (BadField, HostUnknown) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
    return HttpResponse.json({"name": node.name, "address": wanted.address})


@contextmanager
def _answering(world: ControlledCluster, name: str) -> Iterator[str]:
    """Check that the node runs; inside the block its refusals become ``Refused``."""
    check_state(world.node(name), ("running",), "asked about its rules")
    with refusals(name):
        yield name


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn a refusal of *name*, or its missing answer, into ``Refused``."""
    try:
        yield
    except ReplyRuleRefused as refused:
        status = STATUS_OF_REFUSALS.get(refused.code, HTTPStatus.CONFLICT)
        raise Refused(status, str(refused)) from refused
    except OSError as error:
        text = f"{name} did not answer: {error.strerror or error}"
        raise Refused(HTTPStatus.BAD_GATEWAY, text) from error


NODE_CALL_ROUTES: tuple[Route, ...] = (
    Route("GET", RULES, _rules),
    Route("POST", RULES, _set_rule),
    Route("DELETE", RULES, _remove_rules),
    Route("DELETE", f"{RULES}/{{id}}", _remove_rule),
    Route("POST", "/nodes/{name}/skew-clock", _skew_clock),
    Route("POST", "/nodes/{name}/advertise", _advertise),
)


# Facts --------------------------------------------------------------------------------


PARAMETERS = ("kinds", "nodes")


def _facts(world: ControlledCluster, request: HttpRequest, _names: Names) -> FactsFeed:
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
            advice = did_you_mean(kind, known, before="; ", otherwise="; see `rmqemu docs facts`")
            raise Refused(HTTPStatus.BAD_REQUEST, f"there is no kind of fact {kind!r}{advice}")


FACTS_ROUTES: tuple[Route, ...] = (Route("GET", "/facts", _facts),)


# Faults -------------------------------------------------------------------------------


LINKS_MOVED = (
    'faults of links are begun at /faults: POST {"fault": "slow_link", '
    '"between": ["broker-a", "clients"], "ms": 200}'
)


def _faults(world: ControlledCluster, _request: HttpRequest, _names: Names) -> HttpResponse:
    return HttpResponse.json({"faults": world.faults()})


def _begin_fault(world: ControlledCluster, request: HttpRequest, _names: Names) -> HttpResponse:
    try:
        fault, for_ms = parse_fault(msgspec.json.decode(request.body or b"{}"))
    except (BadFault, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
    with refusals("the cluster"):
        fault_id = world.begin_fault(fault, for_ms)
        states = {state.fault_id: state for state in world.faults()}
    over = FaultState(  # it has ended already
        fault_id=fault_id, fault=fault, nodes=(), since_ms=0, left_ms=0, acted_count=0
    )
    return HttpResponse.json(states.get(fault_id, over), HTTPStatus.CREATED)


def _end_fault(world: ControlledCluster, _request: HttpRequest, names: Names) -> HttpResponse:
    fault_id = names["id"]
    if not fault_id.isdecimal():
        raise Refused(
            HTTPStatus.BAD_REQUEST, f"{fault_id:.40} is no id of a fault: it is a number"
        )
    with refusals("the cluster"):
        held = world.end_fault(int(fault_id))
    if not held:
        text = f"fault {fault_id} does not hold any more: it was removed, or its time was up"
        raise Refused(HTTPStatus.NOT_FOUND, text)
    return HttpResponse.json({"fault_ids": [int(fault_id)]})


def _end_faults(world: ControlledCluster, _request: HttpRequest, _names: Names) -> HttpResponse:
    with refusals("the cluster"):
        return HttpResponse.json({"fault_ids": world.end_faults()})


def _links_moved(_world: ControlledCluster, _request: HttpRequest, _names: Names) -> NoReturn:
    raise Refused(HTTPStatus.GONE, LINKS_MOVED)


FAULT_ROUTES: tuple[Route, ...] = (
    Route("GET", "/faults", _faults),
    Route("POST", "/faults", _begin_fault),
    Route("DELETE", "/faults", _end_faults),
    Route("DELETE", "/faults/{id}", _end_fault),
    Route("GET", "/links", _links_moved),
    Route("POST", "/links", _links_moved),
    Route("DELETE", "/links/{id}", _links_moved),
)


# Topics -------------------------------------------------------------------------------


QueueCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class TopicWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /topics``: so many queues on each broker, all to read and to write.

    Fewer to write than to read is how RocketMQ takes queues away from a topic in use.
    """

    topic: str
    queues: QueueCount = 4
    read_queues: QueueCount | None = None  # None: ``queues``
    write_queues: QueueCount | None = None

    @property
    def config(self) -> TopicConfig:
        """The topic as a broker has it."""
        return TopicConfig(
            topic_name=self.topic,
            read_queue_nums=self.read_queues or self.queues,
            write_queue_nums=self.write_queues or self.queues,
        )


def _make_topic(world: ControlledCluster, request: HttpRequest, _names: Names) -> HttpResponse:
    wanted = body_of(request, TopicWanted)
    if (complaint := broker_refuses_topic(wanted.topic)) is not None:
        raise Refused(HTTPStatus.BAD_REQUEST, f"topic: {wanted.topic[:40]!r}: {complaint}")
    with refusals("a broker"):
        made = world.make_topic(wanted.config)
    if not made.brokers:
        why = named_states(made.missing) or "this cluster, which has none"
        raise Refused(HTTPStatus.CONFLICT, f"no broker could make {made.topic}: there is {why}")
    return HttpResponse.json(made, HTTPStatus.CREATED)


TOPIC_ROUTES = (Route("POST", "/topics", _make_topic),)


# Time ---------------------------------------------------------------------------------


class AdvanceWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /advance``: "10m", "2h", or a number of ms."""

    time: str | int


class AdvanceDone(msgspec.Struct):
    """The answer of ``POST /advance``: how many messages fell due."""

    due_count: int


def _advance(world: ControlledCluster, request: HttpRequest, _names: Names) -> HttpResponse:
    wanted = body_of(request, AdvanceWanted)
    try:
        return HttpResponse.json(AdvanceDone(world.advance(wanted.time)))
    except (ValueError, ReplyRuleRefused) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"time: {error}") from error


def _misuses(world: ControlledCluster, _request: HttpRequest, _names: Names) -> HttpResponse:
    with refusals("a broker"):
        return HttpResponse.json({"misuses": world.misuses()})


TIME_ROUTES = (Route("POST", "/advance", _advance),)


# All routes ---------------------------------------------------------------------------


ENDED_STATES: tuple[NodeState, ...] = ("stopped", "dead")


class VerbStates(NamedTuple):
    """The states in which a verb is possible, the state it leads to, and its participle."""

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


def answer(world: ControlledCluster, request: HttpRequest) -> HttpResponse | FactsFeed:
    """The response to *request*, also for a refusal; an exception raised here is a bug."""
    try:
        return _dispatched(world, request)
    except Refused as refused:
        return HttpResponse.refusal(refused)
    except Exception as error:
        text, status = _status_of(error)
        if text is None:
            raise
        return HttpResponse.refusal(Refused(status, text))


def _dispatched(world: ControlledCluster, request: HttpRequest) -> HttpResponse | FactsFeed:
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


def _status_of(error: Exception) -> tuple[str | None, HTTPStatus]:
    for kinds, status in STATUS_OF_ERRORS:
        if isinstance(error, kinds):
            return str(error).split("\n", 1)[0], status
    return user_message(error), HTTPStatus.INTERNAL_SERVER_ERROR


STATUS_OF_ERRORS: tuple[tuple[tuple[type[Exception], ...], HTTPStatus], ...] = (
    ((UnknownNode, UnknownFault), HTTPStatus.NOT_FOUND),
    ((CannotDo,), HTTPStatus.NOT_IMPLEMENTED),
    ((NodeDied, NotReady, ClusterEnded), HTTPStatus.INTERNAL_SERVER_ERROR),
)


# The cluster ------------------------------------------------------------------------------


def _about(world: ControlledCluster, _request: HttpRequest, _names: Names) -> HttpResponse:
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


def _nodes(world: ControlledCluster, _request: HttpRequest, _names: Names) -> HttpResponse:
    return HttpResponse.json({"nodes": world.nodes})


def _reset(world: ControlledCluster, _request: HttpRequest, _names: Names) -> HttpResponse:
    world.reset()
    return HttpResponse.json({"nodes": world.nodes})


# One node ---------------------------------------------------------------------------------


def _node(world: ControlledCluster, _request: HttpRequest, names: Names) -> HttpResponse:
    return HttpResponse.json(world.node(names["name"]))


def _verb(verb: Verb) -> RouteFunction:
    def do(world: ControlledCluster, _request: HttpRequest, names: Names) -> HttpResponse:
        name = names["name"]
        check_verb(world.node(name), verb)
        getattr(world, verb)(name)
        return HttpResponse.json(world.node(name))

    return do


def check_verb(node: NodeView, verb: Verb) -> None:
    """Raises ``Refused`` if *verb* is not possible in the node's state."""
    possible, result, done = VERB_STATES[verb]
    if node.state == result and result not in possible:
        raise Refused(HTTPStatus.CONFLICT, f"{node.name} is {node.state} already")
    check_state(node, possible, done)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", _about),
    Route("POST", "/reset", _reset),
    Route("GET", "/misuses", _misuses),
    Route("GET", "/nodes", _nodes),
    Route("GET", "/nodes/{name}", _node),
    *(Route("POST", f"/nodes/{{name}}/{verb}", _verb(verb)) for verb in VERB_STATES),
    *NODE_CALL_ROUTES,
    *FACTS_ROUTES,
    *FAULT_ROUTES,
    *TIME_ROUTES,
    *TOPIC_ROUTES,
)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # slow to import, rarely used

    try:
        return version("rocketmq-emulator")
    except PackageNotFoundError:
        return "unknown"  # run from its sources
