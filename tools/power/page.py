"""docs/power.md: each planted bug, by which rule it is found, and how many seeds that takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.power.bug import Bug
from tools.power.bugs import BUGS
from tools.power.rules import right_rules

PAGE = Path(__file__).resolve().parents[2] / "docs" / "power.md"
BEGIN, END = "<!-- written by make power -->", "<!-- end of what make power wrote -->"
SHAPES = ("small", "default")
STEPS_MAX = 5


def write(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the part of the page that is written here."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{text_of(rows)}\n{END}{tail}")


def text_of(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """How many were found, and the table."""
    tried = {name: row for name, row in rows.items() if name in BUGS}
    found = [name for name, row in tried.items() if any(is_found(row, each) for each in SHAPES)]
    by_rule = [name for name in found if _rules(BUGS[name], tried[name])]
    lines = [
        (
            f"{len(tried)} of {len(BUGS)} bugs were tried; {len(found)} are found "
            f"({len(found) / max(1, len(tried)):.0%}), {len(by_rule)} of them by the rule that "
            f"they break ({len(by_rule) / max(1, len(tried)):.0%})."
        ),
        "",
        "| part | bug | what it does | rules that object | seeds: small, default | steps left |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_line(bug, tried[bug.name]) for bug in BUGS.values() if bug.name in tried]
    return "\n".join(lines) + "\n"


def is_found(row: Mapping[str, Any], shape: str) -> bool:
    """A rule objected to it in a run of *shape*; an expectation alone is not enough."""
    return bool(row.get(shape, {}).get("rules"))


def _rules(bug: Bug, row: Mapping[str, Any]) -> list[str]:
    found = {rule for shape in SHAPES for rule in row.get(shape, {}).get("rules") or []}
    return right_rules(bug.part, sorted(found))


def _line(bug: Bug, row: Mapping[str, Any]) -> str:
    rules = _rules(bug, row)
    others = sorted(
        {rule for shape in SHAPES for rule in row.get(shape, {}).get("rules") or []} - set(rules)
    )
    text = ", ".join([*(f"`{rule}`" for rule in rules), *others]) or "none"
    seeds = ", ".join(_seed(row.get(shape)) for shape in SHAPES)
    steps = [
        row[shape]["steps"] for shape in SHAPES if row.get(shape, {}).get("steps") is not None
    ]
    left = str(min(steps)) if steps else ""
    return f"| {bug.part} | {bug.name} | {bug.does} | {text} | {seeds} | {left} |"


def _seed(found: Mapping[str, Any] | None) -> str:
    if not found:
        return "not run"
    if found.get("error"):
        return "error"
    if found.get("seed") is None:
        return "–"
    return str(found["seed"]) if found.get("rules") else f"{found['seed']} (expectation only)"
