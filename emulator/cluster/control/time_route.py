"""``POST /advance``: messages that wait for their time come so much earlier."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from emulator.cluster.control.controlled import Controlled
from emulator.cluster.control.conversation import HttpRequest, HttpResponse, Refused
from emulator.cluster.control.route import Names, Route, body_of
from emulator.cluster.reply_rules import ReplyRuleRefused


class AdvanceWanted(msgspec.Struct, forbid_unknown_fields=True):
    """How far: "10m", "2h", or a number of ms."""

    time: str | int


class AdvanceDone(msgspec.Struct):
    """How many messages have come by it."""

    due_count: int


def _advance(world: Controlled, request: HttpRequest, _names: Names) -> HttpResponse:
    wanted = body_of(request, AdvanceWanted)
    try:
        return HttpResponse.json(AdvanceDone(world.advance(wanted.time)))
    except (ValueError, ReplyRuleRefused) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"time: {error}") from error


ROUTES = (Route("POST", "/advance", _advance),)
