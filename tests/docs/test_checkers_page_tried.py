"""docs/checkers.md: the counts of how often each rule was tried are those of the data file."""

from __future__ import annotations

import msgspec

from docs.generate import tried
from docs.generate.sections import with_section
from docs.generate.tried import read_tried, tried_in, tried_text
from rocketmq_emulator.checks.judging.table import CHECKERS
from tests.docs.test_scenarios_page_coverage import a_row


def test_the_table_on_the_page_is_that_of_the_counts_beside_it() -> None:
    page = tried.PAGE.read_text()
    assert with_section(page, "tried", tried_text(read_tried())) == page, "run make page"


def test_each_rule_has_the_runs_that_tried_it_and_how_often_they_did(tmp_path) -> None:
    rows = [
        msgspec.structs.replace(a_row(), tried=each) for each in ({"lost": 3}, {"lost": 4}, {})
    ]
    found = tried_in(rows)
    assert (found.runs, found.rules["lost"], found.rules["order"]) == (3, (2, 7), (0, 0))
    assert found.rules.keys() == CHECKERS.keys()
    page, data, file = tmp_path / "page.md", tmp_path / "tried.json", tmp_path / "rows.json"
    page.write_text("a\n<!-- tried: written by make page -->\n\n<!-- end of tried -->\nb\n")
    file.write_bytes(msgspec.json.encode(rows))
    tried.main([str(file)], page, data)
    assert read_tried(data) == found
    assert "| `lost` | 2 | 7 |\n\n<!-- end" in page.read_text()
