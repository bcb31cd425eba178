"""Formats that other programs may use: facts, journals and the control address.

``tests/golden/formats.json`` has the formats that docs/stability.md promises to keep.
``python tests/docs/test_stability.py`` writes additions to it.  A removal breaks a promise,
and needs a new schema.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from rocketmq_emulator.checks.judging.reading import BadJournal, Skipped, entries_in
from rocketmq_emulator.cluster.control.routes import ROUTES
from rocketmq_emulator.cluster.fault_values import FaultState
from rocketmq_emulator.cluster.node_view import NodeView, TopicMade
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.facts import (
    SCHEMA_VERSION,
    BrokerIsolated,
    BrokerRegistered,
    EndTransactionRefused,
    Fact,
    MessageStored,
    NodeStarted,
    QueuesClaimed,
    RouteChanged,
    StoreOpened,
    all_facts,
)
from rocketmq_emulator.facts.journal import Entry, encode_entry
from rocketmq_emulator.protocol.bodies.extensions import ReplyRuleState
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.paths import GOLDEN, ROOT

KEPT = GOLDEN / "formats.json"
PAGE = (ROOT / "docs" / "stability.md").read_text()
FIRST_READ = 2  # the oldest schema that judge, explain and report read
ANSWERS = (NodeView, FaultState, ReplyRuleState, TopicMade)


def formats() -> dict[str, Any]:
    """Every kind of fact and every answer of the control address, with fields and types."""
    return {
        "schema": SCHEMA_VERSION,
        "facts": {kind.__name__: fields_of(kind) for kind in all_facts()},
        "answers": {kind.__name__: fields_of(kind) for kind in ANSWERS},
        "routes": sorted(f"{route.method} {route.path}" for route in ROUTES),
    }


def fields_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    _, components = msgspec.json.schema_components([kind])
    found = components[kind.__name__]["properties"]
    return {name: type_in(field) for name, field in found.items() if name != "kind"}


def type_in(schema: dict[str, Any]) -> str:
    """The JSON type of a field; of an optional field, its type besides null."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        types = {type_in(each) for each in schema["anyOf"]} - {"null"}
        return types.pop() if len(types) == 1 else "object"
    if "enum" in schema:
        return "integer" if isinstance(schema["enum"][0], int) else "string"
    inner = f" of {type_in(schema['items'])}" if "items" in schema else ""
    return schema["type"] + inner


def kept() -> dict[str, Any]:
    return json.loads(KEPT.read_text())


# Kept formats ---------------------------------------------------------------------------


def test_no_kind_of_fact_no_field_and_no_type_is_taken_away() -> None:
    now = formats()["facts"]
    for kind, fields in kept()["facts"].items():
        assert kind in now, f"journals have {kind}: readers of them rely on it"
        for name, wanted in fields.items():
            assert now[kind].get(name) == wanted, f"{kind}.{name} was {wanted}"


def test_what_is_added_to_facts_is_listed() -> None:
    text = "raise SCHEMA_VERSION if the present one was published, and write the file again"
    assert kept()["facts"] == formats()["facts"], text
    assert kept()["schema"] == SCHEMA_VERSION, text


def test_no_path_and_no_member_of_the_control_address_is_taken_away() -> None:
    now = formats()
    assert set(kept()["routes"]) <= set(now["routes"])
    for kind, fields in kept()["answers"].items():
        assert fields.items() <= now["answers"][kind].items(), kind
    assert len(kept()["routes"]) > 20


# Our readers of journals ----------------------------------------------------------------


A_START = NodeStarted("broker", "127.0.0.1:1", "4.9.7")


def line_of(fact: Fact = A_START, **more: Any) -> bytes:
    """A line of a journal; *more* adds fields to the fact, or replaces some."""
    line = json.loads(encode_entry(Entry(1, 1_000, 2_000, "broker-a", fact)))
    line["fact"] |= more
    return json.dumps(line).encode() + b"\n"


def test_a_field_that_a_reader_does_not_know_is_ignored() -> None:
    (entry,) = entries_in([line_of(colour="blue")])
    assert entry.fact == A_START
    line = json.loads(line_of()) | {"host": "h-7"}
    (entry,) = entries_in([json.dumps(line).encode() + b"\n"])
    assert entry.fact == A_START


def test_a_kind_that_a_reader_does_not_know_is_named_or_skipped_and_counted() -> None:
    lines = [line_of(), line_of(kind="NodeDreamt"), line_of()]
    with pytest.raises(BadJournal, match="NodeDreamt is no fact of schema"):
        list(entries_in(lines))
    skipped = Skipped()
    assert len(list(entries_in(lines, skipped=skipped))) == 2
    assert skipped.count == 1


def test_a_journal_of_a_newer_schema_is_refused_by_that_number() -> None:
    newer = line_of(schema=SCHEMA_VERSION + 1, kind="NodeBegan")
    with pytest.raises(BadJournal, match=f"facts of schema {SCHEMA_VERSION + 1}, and this"):
        list(entries_in([newer]))


LATER = {  # fields that journals of schema 2 lack, with the values that readers give them
    BrokerIsolated: {"available_in_ms": -1},
    BrokerRegistered: {"known_count": -1},
    EndTransactionRefused: {"uniq_key": ""},
    MessageStored: {"tags": "", "real_topic": "", "user_properties": ()},
    QueuesClaimed: {"offsets": ()},
    RouteChanged: {"without_master": ()},
    StoreOpened: {"slaves_awaited": 0, "awaits_sync_state_set": False},
}


def without(line: bytes, *names: str) -> bytes:
    found = json.loads(line)
    for name in names:
        del found["fact"][name]
    return json.dumps(found).encode() + b"\n"


def test_journals_of_schema_2_are_read_with_what_their_facts_lack() -> None:
    for kind in all_facts():
        later = {
            field.name: field.default
            for field in msgspec.structs.fields(kind)
            if not field.required and field.name != "schema"
        }
        assert later == LATER.get(kind, {})
        for name in later:
            assert f"`{kind.__name__}.{name}`" in PAGE
    claimed = QueuesClaimed("g", ())
    old = [line_of(schema=FIRST_READ), without(line_of(claimed), "offsets")]
    start, claim = (entry.fact for entry in entries_in(old))
    assert isinstance(start, NodeStarted)
    assert (start.schema, claim) == (FIRST_READ, claimed)


def test_journals_of_schema_1_are_refused_by_the_checkers() -> None:
    claimed = line_of(QueuesClaimed("g", ()), queues=[["t", "broker-a", 1]])
    with pytest.raises(BadJournal, match="a QueuesClaimed that is not as schema"):
        list(entries_in([claimed]))


# Names in journals ----------------------------------------------------------------------


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


OURS = re.compile(r"\b(rocketmq_emulator|emulator|protocol|scenarios|pipeline)\.[a-z_]+")


def test_a_kind_of_fact_is_the_name_of_its_struct_wherever_that_stands() -> None:
    for kind in all_facts():
        assert kind.__struct_config__.tag == kind.__name__, kind
        assert kind.__struct_config__.tag_field == "kind"


def test_a_journal_names_no_module_of_ours() -> None:
    plan = load("a_broker_flaps", {"flaps": "1", "well_s": "5"})
    _, entries = finished_run(plan, 1)
    facts = msgspec.to_builtins([entry.fact for entry in entries])
    texts = list(texts_in(facts)) + list(texts_in(json.loads(facts[0]["plan"])))
    assert len(texts) > 1_000
    assert [text for text in texts if OURS.search(text)] == []


# The control address --------------------------------------------------------------------


def asked(control: str, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(control.removeprefix("http://"), timeout=30)
    connection.request(method, path, body)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_a_member_of_a_request_that_is_not_known_is_refused_and_nothing_happens() -> None:
    rules = "/nodes/broker-a/reply-rules"
    requests = (
        ("POST", rules, {"code": 310, "error_code": 2, "colour": "blue"}),
        ("POST", "/faults", {"fault": "kill", "node": "broker-a", "colour": "blue"}),
        ("POST", "/advance", {"time": "1s", "colour": "blue"}),
        ("POST", "/nodes/broker-a/skew-clock", {"ms": 1, "colour": "blue"}),
        ("POST", "/topics", {"topic": "orders", "colour": "blue"}),
    )
    with EmbeddedCluster(control=0) as cluster:
        assert cluster.control
        for method, path, body in requests:
            status, answer = asked(cluster.control, method, path, json.dumps(body).encode())
            assert (status, list(answer)) == (400, ["error"])
            assert "colour" in answer["error"]
        assert asked(cluster.control, "GET", rules) == (200, {"rules": []})
        assert asked(cluster.control, "GET", "/faults") == (200, {"faults": []})


def test_the_address_says_its_version_and_every_path() -> None:
    with EmbeddedCluster(control=0) as cluster:
        assert cluster.control
        _, about = asked(cluster.control, "GET", "/")
    assert about["links"] == [f"{route.method} {route.path}" for route in ROUTES]
    for member in ("version", "namesrv", "brokers", "release", "world", "with_links"):
        assert member in about
        assert f"`{member}`" in PAGE


if __name__ == "__main__":
    KEPT.write_text(json.dumps(formats(), indent=1, sort_keys=True) + "\n")
