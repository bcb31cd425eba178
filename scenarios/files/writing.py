"""Writes a plan as the TOML file that a person would write; reading it returns the same plan.

Default values are left out, durations and sizes have their unit, and a struct with only its first
field is written as the value of that field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import AoT, DottedKey, Item, SingleKey, Table

from rocketmq_emulator.scenarios.files.quantities import spelling, written
from rocketmq_emulator.scenarios.files.reading import ALL_TAGS, OPERATORS, STEP_FIELDS
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Expectation,
    Plan,
    PlanPart,
    Step,
    TopicPlan,
    changed_fields,
    first_field,
    word_of,
)

LINE_CHARS_MAX = 99
TABLES = ("consumers", "load", "programs", "timeline")  # each entry a table of its own
LAST = ("topics", *TABLES, "expect")
ENDINGS = {operator: ending for ending, operator in OPERATORS.items()}


def plan_as_toml(plan: Plan) -> str:
    """The text of the file.  Raises ``ValueError`` for values that TOML does not have (null)."""
    fields = changed_fields(plan)
    document = tomlkit.document()
    _add(document, "name", fields.pop("name"))
    if made_with := fields.pop("parameters", {}):
        fields["made_with"] = made_with
    for name in [name for name in fields if name not in LAST]:
        _add(document, name, _plain(fields[name]))
    if topics := {name: _topic(topic) for name, topic in plan.topics.items()}:
        document.append("topics", _with_tables_below(_without_header(), topics))
    for name in TABLES:
        if parts := fields.get(name):
            document.append(name, AoT([_table(_entry(part)) for part in parts]))
    if plan.expect:
        document.append("expect", _expect(plan.expect))
    return tomlkit.dumps(document)


# Parts of a plan as values of a file ----------------------------------------------------------


def _entry(part: PlanPart) -> dict[str, Any]:
    if isinstance(part, Step):
        return _step(part)
    table = _fields(part)
    if isinstance(part, ConsumersPlan):
        return _consumers(part, table)
    return table


def _step(step: Step) -> dict[str, Any]:
    """The table of a step, in the order: name and time, fault or action, duration."""
    table = _fields(step)
    table.pop("does")
    word = word_of(step.does)
    before = {name: table[name] for name in ("name", "at", "when", "after") if name in table}
    after = {name: table[name] for name in STEP_FIELDS if name in table and name not in before}
    return before | {word: _short(step.does)} | after


def _consumers(part: ConsumersPlan, table: dict[str, Any]) -> dict[str, Any]:
    if len(part.topics) != 1:
        return table
    ((topic, tags),) = part.topics.items()
    named: dict[str, Any] = {}
    for name, value in table.items():
        if name != "topics":
            named[name] = value
            continue
        named["topic"] = topic
        if tags != ALL_TAGS:
            named["tags"] = tags
    return named


def _topic(topic: TopicPlan) -> dict[str, Any]:
    return {"queues": topic.queues} | _fields(topic)


def _fields(part: msgspec.Struct) -> dict[str, Any]:
    """The changed fields of *part* by their names in a file, with units in the values."""
    table: dict[str, Any] = {}
    for field, value in changed_fields(part).items():
        plain, unit = spelling(field)
        if unit is not None and isinstance(value, int | float):
            table[plain] = written(value, unit)
        elif unit is not None and isinstance(value, tuple):
            table[plain] = [written(each, unit) for each in value]
        else:
            table[plain if isinstance(value, int | float) else field] = _plain(value)
    return table


def _short(part: msgspec.Struct) -> object:
    """The table of *part*, or only its field's value if reading would set that field."""
    table = _fields(part)
    if len(table) == 1:
        ((name, value),) = table.items()
        if not isinstance(value, dict) and spelling(first_field(type(part), value)).plain == name:
            return value
    return table


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


# Items of the document ------------------------------------------------------------------------


def _expect(expect: tuple[Expectation, ...]) -> Table:
    """The table of expectations: those of the whole run first, then a table for each scope."""
    scopes: dict[str, dict[str, float]] = {}
    for each in expect:
        metric = each.metric + ENDINGS.get(each.operator, "")
        bound = int(each.bound) if float(each.bound).is_integer() else each.bound
        scopes.setdefault(each.scope, {})[metric] = bound
    of_all = scopes.pop("", None)
    return _with_tables_below(_table(of_all) if of_all else _without_header(), scopes)


def _with_tables_below(table: Table, below: Mapping[str, Mapping[str, object]]) -> Table:
    for name, values in below.items():
        table.append(_key(name), _table(values))
    return table


def _without_header() -> Table:
    return tomlkit.table(is_super_table=True)


def _table(values: Mapping[str, object]) -> Table:
    table = tomlkit.table()
    for name, value in values.items():
        _add(table, name, value)
    return table


def _add(table: TOMLDocument | Table, name: str, value: object) -> None:
    """Add a line, or one line for each key if a table is too long for a line."""
    key, item = _key(name), document_item(value)
    line = f"{key.as_string()} = {item.as_string()}"
    if not isinstance(value, Mapping) or len(line) <= LINE_CHARS_MAX:
        table.append(key, item)
        return
    for inner, part in value.items():
        table.append(DottedKey([key, _key(inner)]), document_item(part))


def document_item(value: object) -> Item:
    """*value* as a TOML item on one line.  Raises ``ValueError`` for a type without one."""
    if isinstance(value, str):
        return tomlkit.string(value.replace("$", "$$"))
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        blank = tomlkit.ws(" " if value else "")  # as people write: { a = 1 }
        table.add(blank)
        for name, part in value.items():
            table.append(_key(name), document_item(part))
        table.add(blank)
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        array.extend(map(document_item, value))
        return array
    item: Item = tomlkit.item(value)
    return item


def _key(name: str) -> SingleKey:
    """*name* as a key; its dollar signs are doubled, so that they are not parameters."""
    return SingleKey(name.replace("$", "$$"))
