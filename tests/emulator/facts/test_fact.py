"""The schema of facts fits tables: a field name has one type, and queues are objects."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

import rocketmq_emulator.facts
from rocketmq_emulator.facts import (
    SCHEMA_VERSION,
    BrokerIsolated,
    BrokerRegistered,
    EndTransactionRefused,
    Fact,
    MessageStored,
    NodeStarted,
    Queue,
    QueuesClaimed,
    RequestReceived,
    RouteChanged,
    RunStarted,
    StoreOpened,
    all_facts,
    kinds_on_demand,
)
from rocketmq_emulator.facts.fact import Severity
from rocketmq_emulator.settings.config import BrokerConfig

# Fields that the third schema added have defaults: journals of the second are still read.
LEFT_OUT: dict[type[Fact], list[str]] = {
    NodeStarted: ["schema"],
    RunStarted: ["schema"],
    BrokerIsolated: ["available_in_ms"],
    EndTransactionRefused: ["uniq_key"],
    BrokerRegistered: ["known_count"],
    MessageStored: ["tags", "real_topic", "user_properties"],
    QueuesClaimed: ["offsets"],
    RouteChanged: ["without_master"],
    StoreOpened: ["slaves_awaited", "awaits_sync_state_set"],
}


def shape_of(schema: dict[str, Any]) -> str:
    """A field's type in a table: an enum of texts is a string."""
    if "enum" in schema:
        (kind,) = {type(value).__name__ for value in schema["enum"]}
        return {"str": "string", "int": "integer"}[kind]
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "items" in schema:
        return f"array of {shape_of(schema['items'])}"
    return schema["type"]


def shapes() -> dict[str, dict[str, list[str]]]:
    """Field name → shape → the facts with a field of this shape."""
    _, components = msgspec.json.schema_components(all_facts())
    found: dict[str, dict[str, list[str]]] = {}
    for kind, schema in components.items():
        for name, field in schema["properties"].items():
            if name != "kind":
                found.setdefault(name, {}).setdefault(shape_of(field), []).append(kind)
    return found


def test_no_field_name_has_two_types() -> None:
    assert len(shapes()) > 50
    for name, kinds_by_shape in shapes().items():
        assert len(kinds_by_shape) == 1, f"{name}: {kinds_by_shape}"


def test_every_shape_is_one_that_a_table_has() -> None:
    found = {shape for kinds_by_shape in shapes().values() for shape in kinds_by_shape}
    plain = {"string", "integer", "boolean"}
    assert found <= plain | {"Queue", "array of string", "array of integer", "array of Queue"}


@pytest.mark.parametrize("kind", all_facts(), ids=lambda kind: kind.__name__)
def test_a_fact_that_names_a_queue_s_number_names_the_whole_queue(kind: type[Fact]) -> None:
    assert "queue_id" not in kind.__struct_fields__


def test_all_facts_are_exported_and_nothing_is_forgotten() -> None:
    names = {kind.__name__ for kind in all_facts()}
    assert names <= set(rocketmq_emulator.facts.__all__)
    assert {
        name for name in rocketmq_emulator.facts.__all__ if name in vars(rocketmq_emulator.facts)
    } >= names


@pytest.mark.parametrize("kind", all_facts(), ids=lambda kind: kind.__name__)
def test_no_field_can_be_left_out_but_those_that_older_journals_lack(kind: type[Fact]) -> None:
    left_out = [field.name for field in msgspec.structs.fields(kind) if not field.required]
    assert left_out == LEFT_OUT.get(kind, [])


@pytest.mark.parametrize("kind", all_facts(), ids=lambda kind: kind.__name__)
def test_every_fact_says_how_severe_it_is(kind: type[Fact]) -> None:
    assert kind.severity in get_args(Severity)


def test_a_queue_is_an_object_with_named_fields() -> None:
    fact = QueuesClaimed("billing", (Queue("orders", "broker-a", 3),))
    assert json.loads(msgspec.json.encode(fact)) == {
        "kind": "QueuesClaimed",
        "group": "billing",
        "queues": [{"topic": "orders", "broker": "broker-a", "queue_id": 3}],
        "offsets": [],
    }


def test_a_node_says_which_schema_its_journal_has() -> None:
    assert NodeStarted("broker", "127.0.0.1:1", "4.9.7").schema == SCHEMA_VERSION == 5


def test_only_facts_on_demand_can_be_asked_for_by_name() -> None:
    assert kinds_on_demand(["RequestReceived"]) == {RequestReceived}
    with pytest.raises(ValueError, match="MessageStored, Nonsense cannot be asked for, only "):
        BrokerConfig(facts_on_demand=("RequestReceived", "Nonsense", "MessageStored"))
