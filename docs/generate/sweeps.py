"""The tables of docs/sweep.md: what sweeps take on more cores than are here."""

from __future__ import annotations

from docs.generate.sections import DOCS, write_section
from docs.generate.sweep_schedule import WEATHER_RUN_S, comparison_table, schedule_table

PAGE = DOCS / "sweep.md"


def schedule_text() -> str:
    """What ``python -m docs.generate.sweep_schedule`` prints."""
    return "\n".join([*schedule_table(WEATHER_RUN_S), "", *comparison_table(WEATHER_RUN_S)])


if __name__ == "__main__":
    write_section(PAGE, "schedules", schedule_text())
