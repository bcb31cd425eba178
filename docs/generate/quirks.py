"""The table of docs/quirks.md: every bug that has a name."""

from __future__ import annotations

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.scenarios.weather.shape import PLANTED
from rocketmq_emulator.settings.quirks import QUIRKS, Quirk

PAGE = DOCS / "quirks.md"


def quirks_text() -> str:
    """One row each, by role."""
    head = ["| quirk | of a | what it does | what it breaks |", "| --- | --- | --- | --- |"]
    rows = sorted(QUIRKS.values(), key=lambda quirk: (quirk.role, quirk.name))
    lines = [f"| `{q.name}` | {q.role} | {q.does}{_source(q)} | {q.breaks} |" for q in rows]
    return "\n".join(head + lines)


def _source(quirk: Quirk) -> str:
    """Whose mistake it is, unless it was planted here."""
    return "" if quirk.source == "planted" else f" ({quirk.source})"


def found_text() -> str:
    """One row for each that weather is tried with: how many seeds it takes, and who objects."""
    head = [
        "| quirk | seeds, 4.9.7 | seeds, 5.3.3 | who objects | to |",
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
