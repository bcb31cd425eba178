"""A plan written as the TOML file that a person would write; reading it gives the plan back.

What is as by default is left out, durations and sizes carry their unit, a struct with its
first field alone is that field's value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

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

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
LINE_CHARS_MAX = 99
TABLES = ("consumers", "load", "programs", "timeline")  # each entry a table of its own
LAST = ("topics", *TABLES, "expect")
ENDINGS = {operator: ending for ending, operator in OPERATORS.items()}


def plan_as_toml(plan: Plan) -> str:
    """The file's text.  Raises ``ValueError`` for what TOML has no word for (null)."""
    fields = changed_fields(plan)
    lines = [f"name = {a_value(fields.pop('name'))}"]
    if made_with := fields.pop("parameters", {}):
        fields["made_with"] = made_with
    for name in [name for name in fields if name not in LAST]:
        lines += _pairs({name: _plain(fields[name])}, name)
    for name, topic in plan.topics.items():
        lines += ["", f"[topics.{a_key(name)}]", *_table(_topic(topic))]
    for name in TABLES:
        for part in fields.get(name, ()):
            lines += ["", f"[[{name}]]", *_table(_entry(part))]
    lines += _expect(plan.expect)
    return "\n".join(lines) + "\n"


# What parts are as values of a file -----------------------------------------------------------


def _entry(part: PlanPart) -> dict[str, Any]:
    if isinstance(part, Step):
        return _step(part)
    table = _fields(part)
    if isinstance(part, ConsumersPlan):
        return _consumers(part, table)
    return table


def _step(step: Step) -> dict[str, Any]:
    """When, what, how long."""
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
    """By the plain names, with units in the values."""
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
    """Its only field's value, if reading would take it for that field."""
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


# Lines ------------------------------------------------------------------------------------------


def _expect(expect: tuple[Expectation, ...]) -> Iterator[str]:
    scopes = dict.fromkeys(each.scope for each in expect)
    for scope in sorted(scopes, key=bool):
        yield ""
        yield f"[expect.{a_key(scope)}]" if scope else "[expect]"
        for each in expect:
            if each.scope == scope:
                bound = int(each.bound) if float(each.bound).is_integer() else each.bound
                yield f"{a_key(each.metric + ENDINGS.get(each.operator, ''))} = {a_value(bound)}"


def _table(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        yield from _pairs({name: value}, name)


def _pairs(pair: Mapping[str, Any], name: str) -> Iterator[str]:
    """One line, or one for each member where a table is too long for a line."""
    value = pair[name]
    line = f"{a_key(name)} = {a_value(value)}"
    if isinstance(value, Mapping) and len(line) > LINE_CHARS_MAX:
        for inner, part in value.items():
            yield f"{a_key(name)}.{a_key(inner)} = {a_value(part)}"
    else:
        yield line


def a_key(name: str) -> str:
    """*name* as a key, quoted where it must be; dollars are no parameters."""
    text = name.replace("$", "$$")
    return text if BARE_KEY.fullmatch(text) else _text(text)


def a_value(value: object) -> str:
    """*value* on one line.  Raises ``ValueError``."""
    if isinstance(value, str):
        return _text(value.replace("$", "$$"))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{a_key(name)} = {a_value(part)}" for name, part in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(a_value, value))}]"
    raise ValueError(f"TOML has no word for {value!r}")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
