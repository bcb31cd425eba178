"""The files that ``rmqemu run`` visits in all its processes, from its arguments to the row."""

from __future__ import annotations

from pathlib import Path

from tests.support.visited_files import (
    by_process,
    difference,
    the_scenario_of_the_readme,
    visits_of_command,
)

HEADING = "A scenario, from the command to its row"


def test_a_scenario_visits_the_files_of_the_page(tmp_path: Path) -> None:
    the_scenario_of_the_readme(tmp_path)
    visits = visits_of_command(["run", "hangs.py"], tmp_path)
    shown = by_process(HEADING)
    assert len(visits) == len(shown)
    for process, files in zip(visits, shown.values(), strict=True):
        assert difference(process.files, files) == ""
    assert list(shown) == ["the command", "the process that forks runs", "the run"]
    assert [process.parent for process in visits[1:]] == [process.pid for process in visits[:-1]]
