"""What the control address asks of a node itself: its reply rules and its clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from emulator.cluster.control.controlled import Controlled
from emulator.cluster.control.conversation import HttpRequest, HttpResponse, Refused
from emulator.cluster.control.route import Names, Route, body_of, check_state
from emulator.cluster.reply_rules import ReplyRuleRefused
from protocol.bodies.own import ClockSkew
from protocol.bodies.reply_rules import ReplyRule, ReplyRuleId, ReplyRuleList
from protocol.codes import ResponseCode

STATUS_OF_REFUSALS = {
    ResponseCode.NO_PERMISSION: HTTPStatus.FORBIDDEN,
    ResponseCode.INVALID_PARAMETER: HTTPStatus.BAD_REQUEST,
}
RULES = "/nodes/{name}/reply-rules"


def _rules(world: Controlled, _request: HttpRequest, names: Names) -> HttpResponse:
    with _answering(world, names["name"]) as name:
        return HttpResponse.json(ReplyRuleList(rules=world.reply_rules(name)))


def _set_rule(world: Controlled, request: HttpRequest, names: Names) -> HttpResponse:
    rule = body_of(request, ReplyRule)
    with _answering(world, names["name"]) as name:
        rule_id = world.set_reply_rule(name, rule)
    return HttpResponse.json(ReplyRuleId(rule_id=rule_id), HTTPStatus.CREATED)


def _remove_rules(world: Controlled, _request: HttpRequest, names: Names) -> HttpResponse:
    with _answering(world, names["name"]) as name:
        return HttpResponse.json({"rule_ids": world.remove_reply_rule(name)})


def _remove_rule(world: Controlled, _request: HttpRequest, names: Names) -> HttpResponse:
    rule_id = names["id"]
    if not rule_id.isdecimal():
        raise Refused(HTTPStatus.BAD_REQUEST, f"{rule_id:.40} is no id of a rule: it is a number")
    with _answering(world, names["name"]) as name:
        removed = world.remove_reply_rule(name, int(rule_id))
    if not removed:
        text = f"there is no rule {rule_id} at {name}; it was removed, or has ended"
        raise Refused(HTTPStatus.NOT_FOUND, text)
    return HttpResponse.json({"rule_ids": removed})


def _skew_clock(world: Controlled, request: HttpRequest, names: Names) -> HttpResponse:
    skew = body_of(request, ClockSkew)
    node = world.node(names["name"])
    if node.state == "paused":
        check_state(node, ("starting", "running", "stopped", "dead"), "given another clock")
    with refusals(node.name):
        world.skew_clock(node.name, skew.ms)
    return HttpResponse.json(skew)


@contextmanager
def _answering(world: Controlled, name: str) -> Iterator[str]:
    """The node runs, so it can be asked; what it refuses is refused here."""
    check_state(world.node(name), ("running",), "asked about its rules")
    with refusals(name):
        yield name


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """What *name* refuses, and that it does not answer, as answers of the control address."""
    try:
        yield
    except ReplyRuleRefused as refused:
        status = STATUS_OF_REFUSALS.get(refused.code, HTTPStatus.CONFLICT)
        raise Refused(status, str(refused)) from refused
    except OSError as error:
        text = f"{name} did not answer: {error.strerror or error}"
        raise Refused(HTTPStatus.BAD_GATEWAY, text) from error


ROUTES: tuple[Route, ...] = (
    Route("GET", RULES, _rules),
    Route("POST", RULES, _set_rule),
    Route("DELETE", RULES, _remove_rules),
    Route("DELETE", f"{RULES}/{{id}}", _remove_rule),
    Route("POST", "/nodes/{name}/skew-clock", _skew_clock),
)
