"""The page that says what we speak: written from the catalog and the tables that answer.

    python -m emulator.protocol_page    writes docs/protocol.md

Nothing on it is typed by hand, so it cannot promise what nobody answers.
"""

from __future__ import annotations

import random
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from emulator.broker.broker import Broker
from emulator.broker.handlers.table import handler_table as broker_table
from emulator.client.instance.remoting_processor import ClientRemotingProcessor
from emulator.client.instance.remoting_processor import handler_table as client_table
from emulator.clock import StoppedClock
from emulator.config import BrokerConfig, NameServerConfig
from emulator.disk.memory import MemoryDisk
from emulator.journal import Journal, silent
from emulator.nameserver.handlers import handler_table as name_server_table
from emulator.nameserver.nameserver import NameServer
from emulator.releases import R_4_9_7, R_5_3_3, Release
from protocol import catalog
from protocol.codes import REQUEST_NAMES, RESPONSE_NAMES, response_name
from protocol.fields import Header, Int, Long
from protocol.rpc import AnyRpc, Role

PAGE = Path(__file__).parent.parent / "docs" / "protocol.md"
PROFILES = (R_4_9_7, R_5_3_3)
TYPE_NAMES: dict[Any, str] = {Int: "int", Long: "long", bool: "boolean", str: "string"}

OPENING = """\
# What is spoken

Written by `make page` from the catalog of calls and the tables that answer them.

A call is **yes** where it is answered, **no** where a real peer of that release answers it
and ours does not, and **–** where that release has never heard of it.  What is not answered
is met as a real peer meets an unknown code: with code 3, by a 4.9 NameServer with silence.
Fields travel in the header, as texts; one with a question mark may be absent.
"""
GLANCE = "## Calls at a glance\n\n| code | call | asked of | {} |\n|---:|---|---|{}"


def page() -> str:
    """The whole text."""
    answered = {release: _answered(release) for release in PROFILES}
    calls = sorted(catalog.CALLS, key=lambda rpc: (rpc.code, rpc.asked_of))
    heads = GLANCE.format(" | ".join(map(str, PROFILES)), "---|" * len(PROFILES))
    rows = (row for rpc in calls for row in _rows(rpc, answered))
    details = (line for rpc in calls for line in _details(rpc))
    parts = (
        OPENING,
        "\n".join((heads, *rows)) + "\n",
        "## Calls in detail\n",
        "\n".join(details),
        "## Known by name only\n\nNobody here sends or answers these.\n",
        "\n".join(_names_only(calls)) + "\n",
        "## How a call can end\n\n| code | name | before 5.0 |\n|---:|---|---|",
        "\n".join(_endings()),
    )
    return "\n".join(parts) + "\n"


def _answered(release: Release) -> Mapping[Role, frozenset[int]]:
    """The codes in each role's table, read off the very value that would run."""
    name_server = NameServer(
        NameServerConfig(release=str(release)), disk=MemoryDisk(), note=silent
    )
    broker = Broker(
        BrokerConfig(release=str(release)),
        disk=MemoryDisk(),
        journal=Journal("page", StoppedClock()),
        now_ms=0,
    )
    return {
        "nameserver": frozenset(name_server_table(name_server)),
        "broker": frozenset(broker_table(broker, random.Random(0), 0)),
        "client": frozenset(client_table(ClientRemotingProcessor({}, wake=str), release)),
    }


def _rows(rpc: AnyRpc, answered: Mapping[Release, Mapping[Role, frozenset[int]]]) -> Iterator[str]:
    for role in rpc.asked_of:
        words = (
            ("yes" if rpc.code in answered[release].get(role, ()) else "no")
            if rpc.known_to(release)
            else "–"
            for release in PROFILES
        )
        yield f"| {rpc.code} | {rpc.name} | {role} | {' | '.join(words)} |"


def _details(rpc: AnyRpc) -> Iterator[str]:
    since = f", since {rpc.since}" if rpc.since else ""
    until = f", until {rpc.until}" if rpc.until else ""
    yield f"### {rpc.code} {rpc.name}\n"
    ending = ", one-way" if rpc.one_way else ""
    yield f"Asked of the {' or the '.join(rpc.asked_of)}{since}{until}{ending}.\n"
    yield from _side("asked with", rpc.request, rpc.request_body)
    yield from _side("answered with", rpc.reply, rpc.reply_body)
    yield ""


def _side(verb: str, header: type[Header], body: Any) -> Iterator[str]:
    fields = list(_fields(header))
    if fields:
        yield f"- {verb} {', '.join(fields)}"
    if body is not None:
        yield f"- {verb} a body: {_body_name(body)}"


def _fields(header: type[Header]) -> Iterator[str]:
    hints = typing.get_type_hints(header, include_extras=True)
    for field in msgspec.structs.fields(header):
        hint = hints[field.name]
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        mark = "" if field.required else "?"
        yield f"`{field.encode_name}` {TYPE_NAMES.get(hint, 'string')}{mark}"


def _body_name(body: Any) -> str:
    return "bytes" if body is bytes else f"`{getattr(body, '__name__', body)}`"


def _names_only(calls: list[AnyRpc]) -> Iterator[str]:
    known = {rpc.code for rpc in calls}
    for code, name in sorted(REQUEST_NAMES.items()):
        if code not in known:
            yield f"- {code} {name}"


def _endings() -> Iterator[str]:
    for code, name in sorted(RESPONSE_NAMES.items()):
        before = response_name(code, R_4_9_7)
        yield f"| {code} | {name} | {'' if before == name else before} |"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
