"""The table of docs/strategies.md: members without load while a broker is read-only."""

from __future__ import annotations

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.cli.commands.strategy import finished_plans, idle_table
from rocketmq_emulator.scenarios.catalog.strategy_judge import (
    AT_WORK,
    CASES,
    COMPARED,
    idle_row,
    plans_of_idleness,
)

PAGE = DOCS / "strategies.md"
WIDTH = 80


def idleness_text() -> str:
    """The output of ``rmqemu strategy idle``, without its legend."""
    plans = [plan for name in COMPARED for plan in plans_of_idleness(name, AT_WORK)]
    rows = finished_plans(plans, is_shown=False)
    names = [name for name in COMPARED for _ in CASES]
    found = [idle_row(name, row) for name, row in zip(names, rows, strict=True)]
    lines = [line.plain.rstrip() for line in idle_table(found).lines(WIDTH)]
    return "\n".join(["```console", "$ rmqemu strategy idle", *lines, "```"])


if __name__ == "__main__":
    write_section(PAGE, "idle members", idleness_text())
