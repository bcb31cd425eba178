"""The tables of docs/sweep.md: computed times of sweeps on many cores."""

from __future__ import annotations

from docs.generate.sections import DOCS, write_section
from docs.generate.sweep_schedule import WEATHER_RUN_S, comparison_table, schedule_table

PAGE = DOCS / "sweep.md"


def schedule_text() -> str:
    """The output of ``python -m docs.generate.sweep_schedule``."""
    return "\n".join([*schedule_table(WEATHER_RUN_S), "", *comparison_table(WEATHER_RUN_S)])


if __name__ == "__main__":
    write_section(PAGE, "schedules", schedule_text())
