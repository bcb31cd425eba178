"""The table of docs/judging-sdks.md: the monitors of clients in any language."""

from __future__ import annotations

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.checks.servers.table import SDK_MONITORS

PAGE = DOCS / "judging-sdks.md"


def monitors_text() -> str:
    """The Markdown table, a row for each monitor of clients in any language."""
    rows = ["| monitor | rule |", "| --- | --- |"]
    rows += [f"| `{name}` | {kind.rule} |" for name, kind in SDK_MONITORS.items()]
    return "\n".join(rows)


if __name__ == "__main__":
    write_section(PAGE, "monitors", monitors_text())
