"""What ``inspect`` shows: the last fact, what it changed, and each node's tables, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from emulator.cli.columns import clean
from scenarios.inspecting.tables import NodeTables, Row
from scenarios.inspecting.walk import InspectedMoment, ItemChange
from scenarios.telling.sentences import in_words

WIDTH_MIN, WIDTH_MAX = 40, 120
CHANGES_SHOWN = 3
INDENT = 19  # of what stands in a row of a table


def moment_lines(moment: InspectedMoment, names: Sequence[str], width: int) -> list[str]:
    """Everything of the nodes *names* (none: all), no line wider than *width*."""
    width = max(WIDTH_MIN, min(width, WIDTH_MAX))
    lines = head_lines(moment, width)
    for name, node in moment.nodes.items():
        if not names or name in names:
            lines += ["", *node_lines(name, node, width)]
    return lines


def head_lines(moment: InspectedMoment, width: int) -> list[str]:
    """When it is, the fact that came last, and what it changed."""
    lines = [f"{moment.at_s:.6f} s, after fact {moment.number:,} of {moment.fact_count:,}"]
    if moment.last is None:
        return [*lines, "nothing has happened yet"]
    lines += wrap(clean(f"{moment.last.node}: {in_words(moment.last)}"), width)[:3]
    for change in moment.changes[:CHANGES_SHOWN]:
        lines.append(_cut(f"  → {_change(change)}", width))
    if (more := len(moment.changes) - CHANGES_SHOWN) > 0:
        lines.append(f"  → and {more} more changes")
    return lines


def node_lines(name: str, node: NodeTables, width: int) -> Iterator[str]:
    """The node, and a line or a few for each row of its tables."""
    yield _cut(f"{name} ({', '.join(part for part in (node.role, node.state) if part)})", width)
    for table in sorted(node.tables):
        title = table
        for row in sorted(node.tables[table]):
            text = f"{row}: {_row(node.tables[table][row])}"
            first, *more = wrap(clean(text), width - INDENT) or [""]
            yield f"  {title:<{INDENT - 2}}{first}"
            yield from (f"{'':<{INDENT}}{line}" for line in more)
            title = ""


def _row(items: Row) -> str:
    """Numbers in their order, others by name; an item without a value is its name."""
    names = sorted(items, key=lambda name: (len(name), name) if name.isdecimal() else (0, name))
    return "  ".join(f"{name}={items[name]}" if items[name] != "" else name for name in names)


def _change(change: ItemChange) -> str:
    place = " ".join(part for part in (change.node, change.table, change.row, change.item) if part)
    if change.before is None:
        return f"{place}: {change.now}" if change.now != "" else f"{place}: new"
    return f"{place}: gone" if change.now is None else f"{place}: {change.before} → {change.now}"


def _cut(text: str, width: int) -> str:
    text = clean(text)
    return text if len(text) <= width else text[: width - 1] + "…"
