"""The first part of docs/power.md: the rules that find each planted bug, and at which seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.power.bug import Bug
from tools.power.bugs import BUGS
from tools.power.rules import right_rules
from tools.power.running import SHAPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "power.md"
REASONS = Path(__file__).parent / "reasons.toml"
BEGIN, END = "<!-- written by make power -->", "<!-- end of what make power wrote -->"
STEPS_MAX = 5
HEADINGS = (
    *("part", "bug", "what it does", "rules that object", "seeds: small, default"),
    *("library", "steps left", "explain"),
)

Row = Mapping[str, Any]


def write(rows: Mapping[str, Row]) -> None:
    """Replace the generated part of the page."""
    PAGE.write_text(with_part(PAGE.read_text(), BEGIN, END, text_of(rows, load_reasons())))


def with_part(text: str, begin: str, end: str, part: str) -> str:
    """*text* with *part* between the lines *begin* and *end*."""
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n\n{part.strip()}\n\n{end}{tail}"


def load_reasons() -> dict[str, str]:
    """The reason why a bug is not found, by the name of the bug."""
    reasons: dict[str, str] = tomllib.loads(REASONS.read_text())
    return reasons


def text_of(rows: Mapping[str, Row], reasons: Mapping[str, str]) -> str:
    """The number of bugs that are found, the table, and the reasons."""
    tried = {name: rows[name] for name in BUGS if name in rows}
    lines = [*_counts(tried), "", _line_of(HEADINGS), "|" + "---|" * len(HEADINGS)]
    lines += [_line_of(_cells(BUGS[name], row)) for name, row in tried.items()]
    if unfound := [name for name, row in tried.items() if not is_found(row)]:
        lines += ["", "Not found, and why:", ""]
        lines += [f"- {name}: {reasons.get(name, 'no reason yet')}" for name in unfound]
    return "\n".join(lines) + "\n"


def is_found(row: Row) -> bool:
    """A rule objected in some run; an expectation alone is not enough."""
    return bool(rules_of(row))


def rules_of(row: Row) -> list[str]:
    """All rules that objected, in weather or the library."""
    found = {rule for shape in SHAPES for rule in row.get(shape, {}).get("rules") or []}
    return sorted(found.union(*row.get("library", {}).values()))


def _counts(tried: Mapping[str, Row]) -> Iterator[str]:
    found = {name: row for name, row in tried.items() if is_found(row)}
    by_rule = [n for n, row in found.items() if right_rules(BUGS[n].part, rules_of(row))]
    by_library = [n for n, row in found.items() if not any(_seed_of(row, s) for s in SHAPES)]
    yield (
        f"{len(tried)} of {len(BUGS)} bugs were tried; {len(found)} are found "
        f"({_share(found, tried)}), {len(by_rule)} of them by the rule that they break "
        f"({_share(by_rule, tried)}), {len(by_library)} of them only by the library."
    )
    shrunk = {name: steps for name, row in found.items() if (steps := _steps(row)) is not None}
    if shrunk:
        short = [name for name, steps in shrunk.items() if steps < STEPS_MAX]
        named = [n for n in shrunk if _explains(BUGS[n], found[n]) == "names the part"]
        yield ""
        yield (
            f"{len(shrunk)} were shrunk: {len(short)} have fewer than {STEPS_MAX} steps "
            f"left ({_share(short, shrunk)}), and for {len(named)} `explain` names the part "
            f"({_share(named, shrunk)})."
        )


def _share(some: Mapping[str, Any] | list[str], of: Mapping[str, Any]) -> str:
    return f"{len(some) / max(1, len(of)):.0%}"


def _line_of(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(bug: Bug, row: Row) -> tuple[str, ...]:
    rules = right_rules(bug.part, rules_of(row))
    others = [rule for rule in rules_of(row) if rule not in rules]
    steps = _steps(row)
    return (
        *(bug.part, bug.name, bug.does),
        ", ".join([*(f"`{rule}`" for rule in rules), *others]) or "none",
        ", ".join(_seeds(row.get(shape)) for shape in SHAPES),
        _library(row.get("library")),
        "" if steps is None else str(steps),
        _explains(bug, row),
    )


def _seed_of(row: Row, shape: str) -> int | None:
    found = row.get(shape, {})
    return found.get("seed") if found.get("rules") else None


def _seeds(found: Row | None) -> str:
    """The seed with an objection, or the number of seeds without one."""
    if not found:
        return "not run"
    if found.get("error"):
        return "error"
    if found.get("seed") is not None:
        return str(found["seed"])
    unmet = next(iter(found.get("unmet", {})), None)
    text = f"none in {found['searched']}"
    return text if unmet is None else f"{text} (an expectation at {unmet})"


def _library(found: Mapping[str, list[str]] | None) -> str:
    if found is None:
        return "not run"
    first, *more = found or ["–"]
    return first if not more else f"{first} and {len(more)} more"


def _best(row: Row) -> Row | None:
    """The row of the shape with the fewest steps left after shrinking."""
    shrunk = [row[shape] for shape in SHAPES if row.get(shape, {}).get("steps") is not None]
    return min(shrunk, key=lambda found: int(found["steps"]), default=None)


def _steps(row: Row) -> int | None:
    best = _best(row)
    return None if best is None else int(best["steps"])


def _explains(bug: Bug, row: Row) -> str:
    """Whether the first rule of ``explain`` is one that a bug of this part breaks."""
    if (best := _best(row)) is None:
        return ""
    told = best["explained"] or {}
    if right_rules(bug.part, [told.get("rule", "")]):
        return "names the part"
    if right_rules(bug.part, told.get("others", [])):
        return "names it second"
    return f"tells {told['rule']}" if told else "nothing"
