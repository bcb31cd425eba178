"""The files that all processes of ``rmqemu sweep`` visit are those of the page."""

from __future__ import annotations

from pathlib import Path

from tests.support.visited_files import (
    by_process,
    difference,
    the_scenario_of_the_readme,
    visits_of_command,
)

HEADING = "A sweep, from the command to a row"
ONE_RUN = "A scenario, from the command to its row"
A_SWEEP = "sweep hangs.py --seeds 1..1 --jobs 1 -o swept"


def test_a_sweep_visits_the_files_of_the_page(spark_parts, tmp_path: Path) -> None:
    del spark_parts
    the_scenario_of_the_readme(tmp_path)
    visits = visits_of_command(A_SWEEP.split(), tmp_path)
    shown = [*by_process(HEADING).values(), by_process(ONE_RUN)["the run"]]
    assert len(visits) == len(shown)
    for process, files in zip(visits, shown, strict=True):
        assert difference(process.files, files) == ""
    assert "pyspark.worker" in visits[1].command
