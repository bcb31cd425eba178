"""The generated part of docs/mutation.md: the figures and the survivors."""

from __future__ import annotations

from collections import defaultdict

from benchmarks.table import markdown
from tools.mutation.diffs import Change
from tools.mutation.modules import MODULES
from tools.mutation.records import BEFORE, ROOT, Found, load_found

PAGE = ROOT / "docs" / "mutation.md"
BEGIN, END = "<!-- written by make mutation -->", "<!-- end of what make mutation wrote -->"
SHARE_MAX = 0.15
HEADINGS = (
    *("module", "mutants", "mypy refuses", "tests catch", "survive"),
    *("share", "survived before", "share before"),
)


def write(found: dict[str, Found], reasons: dict[Change, str]) -> None:
    """Replace the generated part of the page."""
    PAGE.write_text(with_findings(PAGE.read_text(), found, reasons))


def with_findings(text: str, found: dict[str, Found], reasons: dict[Change, str]) -> str:
    """The page *text* with *found* in its generated part."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    parts = [_table(found), *(_module(name, found[name], reasons) for name in found)]
    findings = "\n\n".join(part.strip() for part in parts)
    return f"{head}{BEGIN}\n\n{findings}\n\n{END}{tail}"


def _table(found: dict[str, Found]) -> str:
    before = load_found(BEFORE)
    rows = [_row(m.name, found[m.name], before[m.name]) for m in MODULES if m.name in found]
    return markdown(HEADINGS, rows)


def _row(name: str, found: Found, before: Found) -> tuple[str, ...]:
    counts = (found.mutants, found.caught_by_types, found.caught_by_tests, len(found.survivors))
    now = (*map(str, counts), f"{found.share:.1%}")
    return (name, *now, str(len(before.survivors)), f"{before.share:.1%}")


def _module(name: str, found: Found, reasons: dict[Change, str]) -> str:
    """Its survivors, grouped by reason; equal changes of several mutants are one line."""
    files = next(", ".join(f"`{file}`" for file in m.files) for m in MODULES if m.name == name)
    by_reason: dict[str, list[Change]] = defaultdict(list)
    for change in dict.fromkeys(found.survivors):
        by_reason[reasons.get(change, "No reason yet.")].append(change)
    lines = [f"### {name}", "", f"{files}, as of {found.commit}.", ""]
    for why, changes in by_reason.items():
        lines += [f"{why}", ""]
        lines += [f"- `{change.file.rpartition('/')[2]}` {_code(change)}" for change in changes]
        lines += [""]
    return "\n".join(lines).rstrip()


def _code(change: Change) -> str:
    text = f"{change.function}: {change.text}"
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"
