"""A plan as a picture of its timeline, for a terminal: one row for each load, group and step.

A step that waits for a fact has no time before the run; such steps are listed below, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rocketmq_emulator.cluster.faults.effects import targeted_names
from rocketmq_emulator.scenarios.files.quantities import UNITS, written
from rocketmq_emulator.scenarios.plan.plan import (
    FAULTS,
    Join,
    Plan,
    RollingRestart,
    Step,
    fields_text,
    word_of,
)
from rocketmq_emulator.scenarios.plan.validity import PlanNames, spec_of

LOAD, FAULT, ACT, MEMBERS = "█", "▒", "◆", "─"
LABEL_CHARS_MAX = 30
TICKS_MAX = 8
RESTARTS_MAX = 8  # rows of one rolling restart
TICK_MS = (
    *(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000),
    *(120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 43_200_000),
)


class PlanBar(NamedTuple):
    """One row; *until_ms* None: until the end of the timeline; equal to *from_ms*: a moment."""

    label: str
    mark: str
    from_ms: float
    until_ms: float | None


def timeline_picture(plan: Plan, width: int = 80) -> str:
    """The picture of *plan*, in lines of at most *width* characters."""
    spans = [*_spans(plan)]
    end_ms = plan.lasts_ms or max((span.until_ms or span.from_ms for span in spans), default=0)
    end_ms = max(end_ms, 1_000)
    lines = [_cut(line, width) for line in _about(plan)]
    chars = min(LABEL_CHARS_MAX, max((len(span.label) for span in spans), default=0))
    scale = (width - chars - 3) / end_ms
    lines += ["", *_axis(chars, scale, end_ms, width)]
    lines += [_row(span, chars, scale, end_ms, width) for span in spans]
    waiting = [*_waiting(plan)]
    lines += ["", *(_cut(line, width) for line in waiting)] if waiting else []
    lines += ["", *_wrapped("expected: " + (", ".join(_expected(plan)) or "nothing"), width)]
    return "\n".join(lines) + "\n"


def duration(ms: float) -> str:
    """``30s``, ``2m``, ``1500ms``: as in scenario files."""
    return written(ms, UNITS["ms"])


def step_text(step: Step) -> str:
    """``kill broker-b``, ``slow_link broker-a, billing, ms 200``."""
    return f"{word_of(step.does)} {fields_text(step.does)}".rstrip()


# Content ------------------------------------------------------------------------------------


def _about(plan: Plan) -> Iterator[str]:
    yield plan.title or plan.name
    if plan.issue or plan.teaches:
        yield " · ".join(filter(None, (plan.issue, plan.teaches)))
    cluster = plan.cluster
    brokers = count_of(cluster.brokers, "broker")
    if cluster.slaves:
        each = " each" if cluster.brokers > 1 else ""
        brokers = f"{brokers} with {count_of(cluster.slaves, 'slave')}{each}"
    servers = count_of(cluster.name_servers, "NameServer")
    if cluster.controllers:
        servers = f"{servers}, {count_of(cluster.controllers, 'controller')}"
    yield f"{brokers}, {servers}, release {cluster.release}"
    for name, topic in plan.topics.items():
        where = f" on {', '.join(topic.brokers)}" if topic.brokers else " on each broker"
        yield f"{name}: {count_of(topic.queues, 'queue')}{where}"


def _spans(plan: Plan) -> Iterator[PlanBar]:
    for load in plan.load:
        label = f"load {load.topic} {written(load.rate, UNITS['rate'])}"
        yield PlanBar(label, LOAD, load.from_ms, load.until_ms)
    for group in plan.consumers:
        label = f"{group.group}: {count_of(group.members, 'member')}"
        yield PlanBar(label, MEMBERS, group.starts_ms, None)
    for program in plan.programs:
        yield PlanBar(f"program {program.name}", MEMBERS, program.starts_ms, None)
    for step in plan.timeline:
        if step.at_ms is None:
            continue
        if isinstance(step.does, RollingRestart):
            yield from _restarts(step.does, plan, step.at_ms)
        else:
            yield _span(step, step.at_ms)


def _span(step: Step, at_ms: int) -> PlanBar:
    if word_of(step.does) in FAULTS:
        until_ms = None if step.for_ms is None else at_ms + step.for_ms
        return PlanBar(step_text(step), FAULT, at_ms, until_ms)
    label = f"join {step.does.group} {step.does.members}" if isinstance(step.does, Join) else ""
    return PlanBar(label or step_text(step), ACT, at_ms, at_ms)


def _restarts(act: RollingRestart, plan: Plan, at_ms: float) -> Iterator[PlanBar]:
    """A row for each node that is restarted, while it is down; one row for many.

    Servers are restarted in the order of their names, clients in the order of their starts,
    which only a run shows: then a row has no name.
    """
    names = PlanNames(plan)
    spec = spec_of(plan.cluster)
    assert spec is not None, "the cluster of a checked plan is valid"
    nodes = targeted_names(spec, act.nodes, names.nodes)
    clients = names.clients if len(nodes) > 1 else ()
    each_ms = act.down_ms + act.between_ms
    shown = nodes if len(nodes) <= RESTARTS_MAX else nodes[: RESTARTS_MAX - 1]
    for number, node in enumerate(shown):
        from_ms = at_ms + number * each_ms
        name = node if node not in clients else f"client {number + 1} of {len(nodes)}"
        yield PlanBar(f"restart {name}", FAULT, from_ms, from_ms + act.down_ms)
    if more := len(nodes) - len(shown):
        until_ms = at_ms + len(nodes) * each_ms - act.between_ms
        label = f"restart {more} more, in turn"
        yield PlanBar(label, FAULT, at_ms + len(shown) * each_ms, until_ms)


def _waiting(plan: Plan) -> Iterator[str]:
    for step in plan.timeline:
        if step.at_ms is not None:
            continue
        after = f"{duration(step.after_ms)} " if step.after_ms else ""
        what = "that"
        if step.when is not None:
            fields = "".join(f" {name}={value}" for name, value in step.when.fields.items())
            node = f" of {step.when.node}" if step.when.node else ""
            what = f"{step.when.kind}{node}{fields}"
        lasts = f" for {duration(step.for_ms)}" if step.for_ms else ""
        yield f"{after}after {what}: {step_text(step)}{lasts}"


def _expected(plan: Plan) -> Iterator[str]:
    for each in plan.expect:
        scope = f" of {each.scope}" if each.scope else ""
        yield f"{each.metric}{scope} {each.operator} {each.bound:g}"


# Drawing ------------------------------------------------------------------------------------


def _axis(chars: int, scale: float, end_ms: float, width: int) -> Iterator[str]:
    step_ms = next((ms for ms in TICK_MS if end_ms / ms <= TICKS_MAX), int(end_ms))
    labels, ruler = [" "] * width, [" "] * width
    for number in range(int(end_ms // step_ms) + 1):
        at = chars + 1 + int(number * step_ms * scale)
        text = _tick(number * step_ms)
        ruler[at] = "┊"
        start = min(at, width - len(text))
        labels[start : start + len(text)] = text
    yield "".join(labels).rstrip()
    yield "".join(ruler).rstrip()


def _tick(ms: float) -> str:
    return duration(ms) if ms % 60_000 == 0 and ms else f"{ms / 1_000:g}s"


def _row(span: PlanBar, chars: int, scale: float, end_ms: float, width: int) -> str:
    start = int(span.from_ms * scale)
    if span.until_ms == span.from_ms:
        return f"{_cut(span.label, chars):<{chars}} {' ' * start}{span.mark}"
    until_ms = end_ms if span.until_ms is None else min(span.until_ms, end_ms)
    bar = span.mark * max(1, int(until_ms * scale) - start)
    arrow = "→" if span.until_ms is None else ""
    return f"{_cut(span.label, chars):<{chars}} {' ' * start}{bar}{arrow}"[:width]


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


def count_of(number: int, what: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {what}{'' if number == 1 else 's'}"
