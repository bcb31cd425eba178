"""docs/scenarios.md: the table of faults and states that weather met is that of the data file."""

from __future__ import annotations

import msgspec
import pytest

from docs.generate import coverage
from docs.generate.coverage import coverage_text, met_by, read_met
from docs.generate.sections import with_section
from rocketmq_emulator.scenarios.plan.result import RunResult
from rocketmq_emulator.scenarios.weather.coverage import COVERED, STATES


def a_row(release: str = "4.9.7", scenario: str = "weather_1", **met: float) -> RunResult:
    metrics = {f"met.{name.replace('_in_', '.')}": count for name, count in met.items()}
    return RunResult(
        scenario=scenario,
        code_version="1",
        world="virtual",
        release=release,
        parameters={},
        seed=1,
        verdict="passed",
        reason="",
        metrics=metrics | {"lost": 0},
        violations=(),
        unmet=(),
        run_s=1,
        took_s=1,
        fact_count=1,
    )


def test_the_table_on_the_page_is_that_of_the_counts_beside_it() -> None:
    page = coverage.PAGE.read_text()
    assert with_section(page, "coverage", coverage_text(read_met())) == page, "run make page"


def test_the_counts_have_every_fault_and_every_state() -> None:
    met = read_met()
    assert list(met.counts) == list(COVERED), "count weather again: docs/generate/coverage.py"
    assert all(list(row) == list(STATES) for row in met.counts.values())


def test_rows_of_several_releases_are_counted_together() -> None:
    met = met_by([a_row(kill_in_calm=2), a_row("5.3.3", kill_in_calm=1, cut_in_backlog=4)])
    assert met.runs == {"4.9.7": 1, "5.3.3": 1}
    assert (met.counts["kill"]["calm"], met.counts["cut"]["backlog"]) == (3, 4)
    assert sum(sum(row.values()) for row in met.counts.values()) == 7
    text = coverage_text(met)
    assert text.startswith(
        f"In 1 runs of 4.9.7 and 1 runs of 5.3.3, 2 of the {len(COVERED) * len(STATES)} pairs"
    )
    assert "| `kill` | 3 | 0 |" in text


def test_files_of_rows_are_counted_kept_and_written(tmp_path) -> None:
    page, data = tmp_path / "page.md", tmp_path / "met.json"
    page.write_text("a\n<!-- coverage: written by make page -->\n\n<!-- end of coverage -->\nb\n")
    rows = tmp_path / "rows.json"
    rows.write_bytes(msgspec.json.encode([a_row(stall_in_node_down=5)]))
    coverage.main([str(rows), str(rows)], page, data)
    assert read_met(data).counts["stall"]["node_down"] == 10
    assert "In 2 runs of 4.9.7, 1 of" in page.read_text()


def test_rows_of_another_scenario_are_refused() -> None:
    with pytest.raises(ValueError, match="a row of a_member_dies"):
        met_by([a_row(scenario="a_member_dies")])
