"""The tables of docs/quirks.md: every quirk, and the seeds in which weather finds them."""

from __future__ import annotations

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.scenarios.weather.shape import PLANTED
from rocketmq_emulator.settings.quirks import QUIRKS, Quirk

PAGE = DOCS / "quirks.md"


def quirks_text() -> str:
    """The Markdown table, a row for each quirk, by role."""
    head = ["| quirk | of a | behaviour | broken rule |", "| --- | --- | --- | --- |"]
    rows = sorted(QUIRKS.values(), key=lambda quirk: (quirk.role, quirk.name))
    lines = [f"| `{q.name}` | {q.role} | {q.does}{_source(q)} | {q.breaks} |" for q in rows]
    return "\n".join(head + lines)


def _source(quirk: Quirk) -> str:
    """The source of the mistake in brackets; empty for a planted one."""
    return "" if quirk.source == "planted" else f" ({quirk.source})"


def found_text() -> str:
    """The Markdown table of planted quirks: seeds until an objection, and the checker."""
    head = [
        "| quirk | seeds, 4.9.7 | seeds, 5.3.3 | checker | objection |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    rows = [
        f"| `{name}` | {bug.seeds['4.9.7']} | {bug.seeds['5.3.3']} | `{bug.checker}` "
        f"| {bug.breaks} |"
        for name, bug in PLANTED.items()
    ]
    return "\n".join(head + rows)


if __name__ == "__main__":
    write_section(PAGE, "quirks", quirks_text())
    write_section(PAGE, "found", found_text())
