"""Writes report data as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.

The Trace Event Format, as JSON: a process for each node and each group, and one for the world.
Faults, rolling restarts, owners of queues and absences are slices on threads, sends are
asynchronous slices, rebalances and violations are instants, backlogs are counters.  Times are µs
since the first fact.  Slices of one thread must not overlap in part, so two owners at once get
two threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

import msgspec

from rocketmq_emulator.facts import MessageSent, RebalancePassed
from rocketmq_emulator.scenarios.plan.plan import RollingRestart, word_of
from rocketmq_emulator.scenarios.report.columns import FactTable, KindTable
from rocketmq_emulator.scenarios.report.message_flow import Points
from rocketmq_emulator.scenarios.report.ownership import Lane
from rocketmq_emulator.scenarios.report.report_data import (
    Absence,
    NodeLifetime,
    ReportData,
    ShownAction,
)

Event = dict[str, Any]
LINES_AT_ONCE = 1_000
RESTARTS = word_of(RollingRestart)
DOWN = "down"  # an ``Absence`` of a process that ended and was started again
ROLES = {"brokers": "broker", "name_servers": "nameserver", "controllers": "controller"}
SLAVE = re.compile(r"broker-[a-z]-\d+")  # the names that a cluster gives to slaves


def write_trace(data: ReportData) -> Iterator[bytes]:
    """The bytes of the trace file, in parts of up to ``LINES_AT_ONCE`` events."""
    yield b'{"displayTimeUnit":"ms","traceEvents":[\n'
    comma = b""
    lines: list[bytes] = []
    for event in trace_events(data):
        lines.append(comma + msgspec.json.encode(event))
        comma = b",\n"
        if len(lines) >= LINES_AT_ONCE:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines) + b"\n]}\n"


def trace_events(data: ReportData) -> Iterator[Event]:
    """All events; those that name a process or thread come before its first other event."""
    pids = {name: number for number, name in enumerate(_processes(data), 1)}
    names = _Names()
    yield from names.process(pids["world"], "world", "faults, actions and violations")
    yield from _faults(data, pids["world"], names)
    for node in data.nodes:
        yield from names.process(pids[node.name], node.name, node.role or "client")
        for absence in node.absences:
            span = (absence.from_us, absence.until_us)
            yield from names.thread(pids[node.name], 1, "absences")
            yield _slice(data, pids[node.name], 1, absence.how, span, {})
    yield from _of_facts(data, pids, names)
    for group in _groups(data):
        pid = pids[_group_process(group)]
        yield from names.process(pid, _group_process(group), "owners of its queues, backlog")
        lanes = [lane for lane in data.lanes if lane.group == group]
        yield from _owners(data, pid, lanes, names)
    for points in data.series:
        if points.what == "backlog":
            yield from _backlog(data, pids[_group_process(points.of)], points)


def _processes(data: ReportData) -> list[str]:
    groups = map(_group_process, _groups(data))
    return ["world", *(node.name for node in data.nodes), *groups]


def _groups(data: ReportData) -> list[str]:
    backlogs = (points.of for points in data.series if points.what == "backlog")
    return sorted({*(lane.group for lane in data.lanes), *backlogs})


def _group_process(group: str) -> str:
    return f"group {group}"


class _Names:
    """Names each thread once."""

    def __init__(self) -> None:
        self._named: set[tuple[int, int]] = set()

    def process(self, pid: int, name: str, labels: str) -> Iterator[Event]:
        yield _meta("process_name", pid, {"name": name})
        yield _meta("process_labels", pid, {"labels": labels})
        yield _meta("process_sort_index", pid, {"sort_index": pid})

    def thread(self, pid: int, tid: int, name: str) -> Iterator[Event]:
        if (pid, tid) not in self._named:
            self._named.add((pid, tid))
            yield _meta("thread_name", pid, {"name": name}, tid)
            yield _meta("thread_sort_index", pid, {"sort_index": tid}, tid)


def _faults(data: ReportData, pid: int, names: _Names) -> Iterator[Event]:
    spans = [(fault.from_us, fault.until_us) for fault in data.faults]
    for fault, span, row in zip(data.faults, spans, rows_without_overlap(spans), strict=True):
        yield from names.thread(pid, row + 1, "faults")
        told = {"fault": fault.text, "nodes": list(fault.nodes), "ended": fault.reason}
        yield _slice(data, pid, row + 1, fault.text, span, told)
    yield from _restarts(data, pid, max(rows_without_overlap(spans), default=-1) + 2, names)
    for action in data.actions:
        if action.action == RESTARTS:
            continue
        at_us = action.at_us - data.start_us
        yield _instant(pid, 0, action.text, at_us, {"action": action.action}) | {"s": "g"}
    for evidence in data.places:
        violation = evidence.violation
        told = {"rule": violation.rule, "what": violation.what, "node": violation.node}
        at_us = evidence.at_us - data.start_us
        yield _instant(pid, 0, f"violation: {violation.checker}", at_us, told) | {"s": "g"}


def _restarts(data: ReportData, pid: int, first: int, names: _Names) -> Iterator[Event]:
    """Each rolling restart as a slice, and below it each of its nodes while it is down.

    One that has restarted nothing is an instant, as other actions.
    """
    found = []
    for action in data.actions:
        if action.action == RESTARTS:
            down = _taken_down(data, action)
            until_us = max((absence.until_us for _, absence in down), default=action.at_us)
            found.append((action, down, (action.at_us, until_us)))
    rows = rows_without_overlap([span for *_, span in found])
    for (action, down, span), row in zip(found, rows, strict=True):
        told = {"action": action.action, "nodes": [node for node, _ in down]}
        if not down:
            at_us = action.at_us - data.start_us
            yield _instant(pid, 0, action.text, at_us, told) | {"s": "g"}
            continue
        tid = first + 2 * row
        yield from names.thread(pid, tid, "rolling restarts")
        yield _slice(data, pid, tid, action.text, span, told)
        yield from names.thread(pid, tid + 1, "nodes of rolling restarts")
        for node, absence in down:
            down_us = (absence.from_us, absence.until_us)
            yield _slice(data, pid, tid + 1, f"restart {node}", down_us, {"node": node})


def _taken_down(data: ReportData, action: ShownAction) -> list[tuple[str, Absence]]:
    """The nodes that a rolling restart stopped, each with its first stop since then."""
    text = action.text.removeprefix(f"{RESTARTS} ")
    wanted = [name for name in text.split(", ") if " " not in name]  # then fields: down_ms 500
    found = [
        (node.name, absence)
        for node in data.nodes
        if any(_is_meant(node, name) for name in wanted)
        for absence in [
            each for each in node.absences if each.from_us >= action.at_us and each.how == DOWN
        ][:1]
    ]
    return sorted(found, key=lambda each: each[1].from_us)


def _is_meant(node: NodeLifetime, name: str) -> bool:
    """Is *node* that *name*, one of a set as ``brokers``, or a member of the group *name*?"""
    if name in ROLES:
        return node.role == ROLES[name]
    is_slave = SLAVE.fullmatch(node.name) is not None
    if name in ("masters", "slaves"):
        return node.role == ROLES["brokers"] and is_slave == (name == "slaves")
    if is_slave:
        return node.name == name
    return node.name == name or re.fullmatch(rf"{re.escape(name)}-\d+", node.name) is not None


def _owners(data: ReportData, pid: int, lanes: Iterable[Lane], names: _Names) -> Iterator[Event]:
    tid = 0
    for lane in lanes:
        queue = f"{lane.queue.topic} {lane.queue.broker}/{lane.queue.queue_id}"
        spans = [(span.from_us, span.until_us) for span in lane.spans]
        rows = rows_without_overlap(spans)
        for owner, span, row in zip(lane.spans, spans, rows, strict=True):
            name = queue if row == 0 else f"{queue}, owner {row + 1} at once"
            yield from names.thread(pid, tid + row + 1, name)
            told = {"queue": queue, "then": owner.why}
            yield _slice(data, pid, tid + row + 1, owner.owner, span, told)
        tid += max(rows, default=0) + 1


def _backlog(data: ReportData, pid: int, points: Points) -> Iterator[Event]:
    times = list(accumulate(data.facts.at_us))
    for number, count in zip(points.facts, points.values, strict=True):
        told = {"messages": count}
        yield {"ph": "C", "name": "backlog", "pid": pid, "ts": times[number], "args": told}


def _of_facts(data: ReportData, pids: dict[str, int], names: _Names) -> Iterator[Event]:
    """Events for the sends and rebalances of each node."""
    for number, (at_us, node, told) in enumerate(_rows(data, MessageSent.__name__), 1):
        took_us = told["took_ms"] * 1_000
        what: Event = {
            "ph": "b",
            "cat": "send",
            "id": hex(number),
            "name": f"send {told['topic']}",
        }
        what |= {"pid": pids[node], "tid": 0}
        yield {**what, "ts": max(0, at_us - took_us), "args": told}
        yield {**what, "ts": at_us, "ph": "e"}
    for at_us, node, told in _rows(data, RebalancePassed.__name__):
        yield from names.thread(pids[node], 2, "rebalances")
        yield _instant(pids[node], 2, f"rebalance {told['topic']}", at_us, told)


def _rows(data: ReportData, kind: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yields time, node and fields of each fact of *kind*."""
    facts = data.facts
    for wanted, table in enumerate(facts.kinds):
        if table.name == kind:
            fields = _fields(facts, table)
            for at_us, node, of in zip(
                accumulate(facts.at_us), facts.node, facts.kind, strict=True
            ):
                if of == wanted:
                    yield at_us, data.node_names[node], next(fields)


def _fields(facts: FactTable, table: KindTable) -> Iterator[dict[str, Any]]:
    columns = [
        [facts.values[index] for index in accumulate(column)]
        if name in table.texts
        else list(accumulate(column))
        for name, column in zip(table.fields, table.columns, strict=True)
    ]
    return (dict(zip(table.fields, row, strict=True)) for row in zip(*columns, strict=True))


def rows_without_overlap(spans: list[tuple[int, int]]) -> list[int]:
    """For each span the first row in which it overlaps no other; *spans* are sorted by begin."""
    ends: list[int] = []
    rows = []
    for from_us, until_us in spans:
        row = next((i for i, end_us in enumerate(ends) if end_us <= from_us), len(ends))
        ends[row : row + 1] = [until_us]
        rows.append(row)
    return rows


def _slice(
    data: ReportData, pid: int, tid: int, name: str, span: tuple[int, int], told: Event
) -> Event:
    from_us, until_us = span
    when = {"ts": from_us - data.start_us, "dur": until_us - from_us}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, **when, "args": told}


def _instant(pid: int, tid: int, name: str, at_us: int, told: Event) -> Event:
    return {"ph": "i", "s": "t", "name": name, "pid": pid, "tid": tid, "ts": at_us, "args": told}


def _meta(name: str, pid: int, told: Event, tid: int = 0) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": told}
