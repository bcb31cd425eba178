"""The table of docs/quirks.md: every bug that has a name."""

from __future__ import annotations

from docs.generate.sections import DOCS, write_section
from emulator.quirks import QUIRKS

PAGE = DOCS / "quirks.md"


def quirks_text() -> str:
    """One row each, by role."""
    head = ["| quirk | of a | what it does | what it breaks |", "| --- | --- | --- | --- |"]
    rows = sorted(QUIRKS.values(), key=lambda quirk: (quirk.role, quirk.name))
    return "\n".join(head + [f"| `{q.name}` | {q.role} | {q.does} | {q.breaks} |" for q in rows])


if __name__ == "__main__":
    write_section(PAGE, "quirks", quirks_text())
