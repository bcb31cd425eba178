"""Writes a plan as the Python scenario that records it.

The text has no nested blocks, one call a line: faults have ``for_ms`` where a person would write
a ``with``.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from rocketmq_emulator.scenarios.plan.plan import (
    FAULTS,
    ConsumersPlan,
    Expectation,
    LoadPlan,
    Plan,
    ProgramPlan,
    Step,
    When,
    changed_fields,
    first_field,
    word_of,
)

LINE_CHARS_MAX = 95
ABOUT = ("title", "issue", "teaches")
MODULE = "rocketmq_emulator.scenarios"


def plan_as_python(plan: Plan) -> str:
    """The text of a module with one scenario, which records *plan*."""
    body = [*_setup(plan), *_timeline(plan.timeline), *_end(plan)]
    names = ["Run", *_used(body), "scenario"]
    name = _function_name(plan.name)
    about = {field: getattr(plan, field) for field in ABOUT if getattr(plan, field)}
    if name != plan.name:
        about["name"] = plan.name
    if plan.parameters:
        about["made_with"] = plan.parameters
    return "\n".join(
        [
            f"from {MODULE} import {', '.join(sorted(names))}",
            "",
            "",
            *_call("@scenario", [], about),
            f"async def {name}(run: Run) -> None:",
            *(f"    {line}" for line in body),
            "",
        ]
    )


def _setup(plan: Plan) -> Iterator[str]:
    """The calls for servers, topics, clients and loads."""
    yield from _call("await run.cluster", [], changed_fields(plan.cluster))
    for name, topic in plan.topics.items():
        yield from _call("run.topic", [name, topic.queues], _rest(topic, "queues"))
    for each in plan.consumers:
        yield from _call("await run.consumers", [each.group], _consumers(each))
    for load in plan.load:
        yield from _call("run.load", [load.topic], _load(load))
    for program in plan.programs:
        yield from _call("run.program", [program.name, program.run], _program(program))


def _consumers(each: ConsumersPlan) -> dict[str, Any]:
    fields = _rest(each, "group")
    if len(each.topics) == 1:
        ((topic, tags),) = fields.pop("topics").items()
        return {"topic": topic} | ({} if tags == "*" else {"tags": tags}) | fields
    return fields


def _load(load: LoadPlan) -> dict[str, Any]:
    return _rest(load, "topic")


def _program(program: ProgramPlan) -> dict[str, Any]:
    return _rest(program, "name", "run")


def _timeline(steps: Iterable[Step]) -> Iterator[str]:
    now_ms = 0
    for step in steps:
        if step.at_ms is not None and step.at_ms > now_ms:
            yield _sleep(step.at_ms - now_ms)
            now_ms = step.at_ms
        if step.when is not None:
            yield from _call("await run.until", [_fact(step.when)], {})
        if step.after_ms:
            yield _sleep(step.after_ms)
        yield from _call(f"run.{word_of(step.does)}", *_arguments(step))


def _arguments(step: Step) -> tuple[list[Any], dict[str, Any]]:
    fields = changed_fields(step.does)
    values = []
    if fields:
        kind = type(step.does)
        first = next(iter(fields))
        if first_field(kind, fields[first]) == first and word_of(kind) != "answer":
            values.append(fields.pop(first))
    if step.name:
        fields["name"] = step.name
    if step.for_ms is not None and word_of(step.does) in FAULTS:
        fields["for_ms"] = step.for_ms
    return values, fields


def _fact(when: When) -> _Code:
    fields: dict[str, Any] = {"node": when.node} if when.node else {}
    if when.wait_ms_max != 120_000:
        fields["wait"] = f"{when.wait_ms_max}ms"
    return _Code(" ".join(_call("fact", [when.kind], fields | when.fields, chars_max=10_000)))


def _end(plan: Plan) -> Iterator[str]:
    if plan.lasts_ms is not None:
        yield f'run.lasts("{plan.lasts_ms}ms")'
    else:
        usual = Plan(name="")
        given = [] if plan.quiet_ms_max == usual.quiet_ms_max else [f"{plan.quiet_ms_max}ms"]
        settled = (
            {} if plan.settled_ms == usual.settled_ms else {"settled": f"{plan.settled_ms}ms"}
        )
        yield "await " + "".join(_call("run.until_quiet", given, settled))
    if plan.quirks:
        yield from _call("run.quirks", list(plan.quirks), {})
    if limits := changed_fields(plan.limits):
        yield from _call("run.limits", [], limits)
    if plan.expect:
        yield from _call("run.expect", [_Code(_expectation(each)) for each in plan.expect], {})


def _expectation(each: Expectation) -> str:
    of = f", {_quoted(each.scope)}" if each.scope else ""
    bound = int(each.bound) if float(each.bound).is_integer() else each.bound
    return f"metric({_quoted(each.metric)}{of}) {each.operator} {bound!r}"


# Python ---------------------------------------------------------------------------------------


class _Code(str):
    """Python code, written without quotes."""

    __slots__ = ()


def _call(
    function: str, values: list[Any], fields: Mapping[str, Any], chars_max: int = LINE_CHARS_MAX
) -> list[str]:
    """The lines of a call: one line, or one for each argument."""
    if not values and not fields and function.startswith("@"):
        return [function]
    plain = {name: value for name, value in fields.items() if name.isidentifier()}
    plain = {name: value for name, value in plain.items() if not keyword.iskeyword(name)}
    rest = {name: value for name, value in fields.items() if name not in plain}
    parts = [_literal(value) for value in values]
    parts += [f"{name}={_literal(value)}" for name, value in plain.items()]
    parts += [f"**{_literal(rest)}"] if rest else []
    line = f"{function}({', '.join(parts)})"
    if len(line) <= chars_max:
        return [line]
    return [f"{function}(", *(f"    {part}," for part in parts), ")"]


def _literal(value: object) -> str:
    if isinstance(value, _Code):
        return value
    if isinstance(value, msgspec.Struct):
        value = changed_fields(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_literal(name)}: {_literal(part)}" for name, part in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_literal, value))
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{comma})"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


def _sleep(ms: int) -> str:
    seconds, rest = divmod(ms, 1_000)
    return f'await run.sleep("{ms}ms")' if rest else f"await run.sleep({seconds})"


def _rest(part: msgspec.Struct, *without: str) -> dict[str, Any]:
    return {name: value for name, value in changed_fields(part).items() if name not in without}


def _used(body: Iterable[str]) -> list[str]:
    text = "\n".join(body)
    return [name for name in ("fact", "metric") if re.search(rf"\b{name}\(", text)]


def _function_name(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    word = f"_{word}" if word[0].isdigit() else word
    return f"{word}_" if keyword.iskeyword(word) else word
