"""The page that lists several runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.scenarios.report.index import ListedRun, listed_run, write_index
from rocketmq_emulator.scenarios.report.report_data import read_and_judge
from tests.support.headless import Browser
from tests.support.scenarios.journals_of_runs import a_run

HOSTILE = "<img src=x onerror=alert(1)>"


def listed(journal: Path) -> ListedRun:
    data = read_and_judge(read_journals([journal]))
    return listed_run(journal.stem, f"all/{journal.stem}.html", data)


def cells(page: str) -> list[dict[str, str]]:
    """The rows of the table, each a text by the name of its column."""
    rows = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2], re.DOTALL)
    return [
        {
            name: re.sub(r"<[^>]*>", "", text)
            for name, text in re.findall(r'<td[^>]*data-name="([^"]*)">(.*?)</td>', row)
        }
        for row in rows
    ]


def test_failed_runs_come_first_then_errors_then_those_that_passed(tmp_path: Path) -> None:
    runs = [
        listed(a_run(tmp_path, 1)),
        listed(a_run(tmp_path, 2, error="no such node")),
        listed(a_run(tmp_path, 3, lost=1)),
    ]
    found = [(row["verdict"], row["seed"]) for row in cells(write_index(runs, "all"))]
    assert found == [("failed", "3"), ("error", "2"), ("passed", "1")]


def test_a_row_says_why_its_run_did_not_pass(tmp_path: Path) -> None:
    runs = [listed(a_run(tmp_path, 1, lost=2)), listed(a_run(tmp_path, 2, error="no such node"))]
    failed, error = cells(write_index(runs, "all"))
    assert failed["violations"] == "1"
    assert failed["expectations"] == "lost == 0: it is 2"
    assert failed["why"].startswith("lost: broker-a acknowledged")
    assert error["why"] == "the run did not finish (error): no such node"


def test_what_runs_have_in_common_is_said_once_and_what_differs_has_a_column(
    tmp_path: Path,
) -> None:
    runs = [listed(a_run(tmp_path, seed, rate=10, members=seed)) for seed in (1, 2)]
    page = write_index(runs, "all")
    assert "scenario orders · RocketMQ 4.9.7 · world virtual · code 0.0.0 · rate 10" in page
    assert [row["members"] for row in cells(page)] == ["1", "2"]
    assert "rate" not in cells(page)[0]


def test_the_worst_value_of_an_expectation_names_its_run(tmp_path: Path) -> None:
    runs = [listed(a_run(tmp_path, seed, lost=lost)) for seed, lost in ((1, 1), (2, 3), (3, 0))]
    text = re.sub(r"<[^>]*>", "", write_index(runs, "all"))
    assert "lost == 0: worst 3 in orders-seed2, not met" in text


@pytest.mark.sdk
@pytest.mark.parametrize("width", [390, 1400])
def test_hostile_names_are_text_and_the_page_fits_its_window(tmp_path: Path, width: int) -> None:
    runs = [listed(a_run(tmp_path, 1, lost=1, shop=HOSTILE)), listed(a_run(tmp_path, 2, shop="x"))]
    page = tmp_path / "index.html"
    page.write_text(write_index(runs, HOSTILE))
    browser = Browser()
    try:
        browser.tell("open", page.as_uri(), width=width, height=800, scheme="light")
        fits = browser.tell("eval", "document.documentElement.scrollWidth <= innerWidth")
        shown = browser.tell("eval", "document.querySelector('[data-name=shop]').textContent")
    finally:
        browser.stop()
    assert fits is True
    assert shown == HOSTILE
