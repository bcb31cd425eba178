"""The tables of docs/scenarios.md: every fault, action, feature and field of a scenario file.

From the structs of ``scenarios.plan.plan`` and the faults: their docstrings, fields, comments.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from docs.generate.sections import DOCS, write_section
from docs.generate.settings import explanations
from rocketmq_emulator.scenarios.files.quantities import spelling, written
from rocketmq_emulator.scenarios.plan.plan import (
    ACTIONS,
    FAULTS,
    ClusterPlan,
    ConsumersPlan,
    FaultOrAction,
    Limits,
    ListenerPlan,
    LoadPlan,
    Plan,
    ProgramPlan,
    Step,
    TopicPlan,
    When,
)
from rocketmq_emulator.scenarios.weather.clients import FEATURES
from rocketmq_emulator.text.docstrings import docstring_of

PAGE = DOCS / "scenarios.md"
PARTS: Mapping[str, type[msgspec.Struct]] = {
    "The whole file": Plan,
    "`cluster`": ClusterPlan,
    "`[topics.NAME]`": TopicPlan,
    "`[[consumers]]`": ConsumersPlan,
    "`listener`, of consumers": ListenerPlan,
    "`[[load]]`": LoadPlan,
    "`[[programs]]`": ProgramPlan,
    "`[[timeline]]`": Step,
    "`when`, of a step": When,
    "`limits`": Limits,
}
# What reading a file adds to the structs: required fields that a file may leave out.
DEFAULTS: Mapping[tuple[type, str], str] = {
    (Plan, "name"): "the name of the file",
    (ConsumersPlan, "topics"): "this or `topic` must be given",
}
MORE_FIELDS: Mapping[type, tuple[tuple[str, ...], ...]] = {  # of a file alone
    Plan: (("`made_with`", "table", "", "the parameters of a plan that was printed as TOML"),),
    ConsumersPlan: (
        ("`topic`", "text", "this or `topics` must be given", "one topic"),
        ("`tags`", "text", "*", "the tag expression of that topic"),
    ),
}
KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}


def fields_text() -> str:
    """A table for each part of a file."""
    lines: list[str] = []
    for title, kind in PARTS.items():
        lines += [f"### {title}", "", *_table(("field", "", "default", ""), _rows(kind)), ""]
    return "\n".join(lines)


def words_text() -> str:
    """The tables of all faults and actions: effect and fields."""
    lines = [
        'The first field may be given alone, as in `kill = "broker-b"`. Defaults are in',
        "parentheses; a field without one must be given.",
        "",
    ]
    lines += ["### Faults", "", *_table(("word", "", "fields"), map(_word, FAULTS.items()))]
    lines += ["", "### Actions", "", *_table(("word", "", "fields"), map(_word, ACTIONS.items()))]
    return "\n".join(lines)


def features_text() -> str:
    """The table of weather's features and their probabilities."""
    rows = (
        (f"`{name}`", f"{feature.chance:.0%}", feature.what) for name, feature in FEATURES.items()
    )
    return "\n".join(_table(("feature", "of seeds", ""), rows))


def _rows(kind: type[msgspec.Struct]) -> Iterator[tuple[str, ...]]:
    explained = explanations(kind)
    for field in msgspec.structs.fields(kind):
        if field.name == "does":
            continue
        plain, unit = spelling(field.name)
        name = (
            f"`{plain}`" if unit is None or plain == field.name else f"`{plain}`, `{field.name}`"
        )
        kind_of_value = _type(field.type) if unit is None else f'{unit.what}: "{unit.example}"'
        if unit is not None and typing.get_origin(field.type) is tuple:
            kind_of_value = f"list, each {kind_of_value}"
        if (kind, field.name) == (Plan, "expect"):
            kind_of_value = "table"  # of a file: metrics with their bounds
        default = DEFAULTS.get((kind, field.name)) or _default(field)
        yield name, kind_of_value, default, explained.get(field.name, "")
    yield from MORE_FIELDS.get(kind, ())


def _word(item: tuple[str, type[FaultOrAction]]) -> tuple[str, ...]:
    word, kind = item
    fields = [
        f"`{spelling(field.name).plain}`" + (f" ({default})" if default else "")
        for field in msgspec.structs.fields(kind)
        for default in [_default_of_word(field)]
    ]
    return f"`{word}`", _first(kind), ", ".join(fields)


def _default_of_word(field: msgspec.structs.FieldInfo) -> str:
    """The default of an optional field of a fault or action; empty if it must be given."""
    return "" if field.required else _default(field) or "none"


def _first(kind: type) -> str:
    """The docstring's first paragraph on one line."""
    return " ".join(docstring_of(kind).split("\n\n")[0].split()).replace("*", "")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "must be given"
    value = field.default if field.default is not msgspec.NODEFAULT else None
    unit = spelling(field.name).unit
    if value in (None, "", ()) or isinstance(value, msgspec.Struct | dict):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if unit is not None and isinstance(value, int | float):
        return written(value, unit)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _type(kind: object) -> str:
    if kind in KINDS:
        return KINDS[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(arguments)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "table"
    if origin is tuple:
        return f"list of {_type(arguments[0])}s"
    if origin is dict:
        return "table"
    parts = [part for part in arguments if part is not type(None)]
    return _type(parts[0]) if parts else "table"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |"


def sections() -> Iterator[tuple[str, str]]:
    """Each generated part of the page."""
    yield "words", words_text()
    yield "fields", fields_text()
    yield "features", features_text()


if __name__ == "__main__":
    for name, text in sections():
        write_section(PAGE, name, text)
