"""Faults at the control address: those that hold, one more, one less, none any more."""

from __future__ import annotations

from http import HTTPStatus
from typing import NoReturn

import msgspec

from emulator.cluster.control.controlled import Controlled
from emulator.cluster.control.conversation import HttpRequest, HttpResponse, Refused
from emulator.cluster.control.node_calls import refusals
from emulator.cluster.control.route import Names, Route
from emulator.cluster.faults.reading import BadFault, read_fault
from emulator.cluster.faults.values import FaultState

LINKS_MOVED = (
    'faults of links are begun at /faults: POST {"fault": "slow_link", '
    '"between": ["broker-a", "clients"], "ms": 200}'
)


def _faults(world: Controlled, _request: HttpRequest, _names: Names) -> HttpResponse:
    return HttpResponse.json({"faults": world.faults()})


def _begin(world: Controlled, request: HttpRequest, _names: Names) -> HttpResponse:
    try:
        fault, for_ms = read_fault(msgspec.json.decode(request.body or b"{}"))
    except (BadFault, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
    with refusals("the cluster"):
        fault_id = world.begin_fault(fault, for_ms)
        states = {state.fault_id: state for state in world.faults()}
    over = FaultState(  # it was a short one
        fault_id=fault_id, fault=fault, nodes=(), since_ms=0, left_ms=0, acted_count=0
    )
    return HttpResponse.json(states.get(fault_id, over), HTTPStatus.CREATED)


def _end(world: Controlled, _request: HttpRequest, names: Names) -> HttpResponse:
    fault_id = names["id"]
    if not fault_id.isdecimal():
        raise Refused(
            HTTPStatus.BAD_REQUEST, f"{fault_id:.40} is no id of a fault: it is a number"
        )
    with refusals("the cluster"):
        held = world.end_fault(int(fault_id))
    if not held:
        text = f"fault {fault_id} holds no more: it was removed, or its time was up"
        raise Refused(HTTPStatus.NOT_FOUND, text)
    return HttpResponse.json({"fault_ids": [int(fault_id)]})


def _end_all(world: Controlled, _request: HttpRequest, _names: Names) -> HttpResponse:
    with refusals("the cluster"):
        return HttpResponse.json({"fault_ids": world.end_faults()})


def _links(_world: Controlled, _request: HttpRequest, _names: Names) -> NoReturn:
    raise Refused(HTTPStatus.GONE, LINKS_MOVED)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/faults", _faults),
    Route("POST", "/faults", _begin),
    Route("DELETE", "/faults", _end_all),
    Route("DELETE", "/faults/{id}", _end),
    Route("GET", "/links", _links),
    Route("POST", "/links", _links),
    Route("DELETE", "/links/{id}", _links),
)
