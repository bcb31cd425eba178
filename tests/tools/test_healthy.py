"""Healthy runs: their batches, their records, and the page, which names each objection."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.checks.judging.table import METRICS
from rocketmq_emulator.checks.state.violation import Violation
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.result import RunResult, Unmet
from rocketmq_emulator.scenarios.plan.validity import problems_of
from tests.support.rows_of_runs import a_row
from tools.healthy.batches import BATCHES, RELEASES
from tools.healthy.page import BEGIN, END, PAGE, text_of
from tools.healthy.records import Records, record_of


def a_healthy_row(
    seed: int, *checkers: str, unmet: str = "", verdict: str = "passed"
) -> RunResult:
    return a_row(
        seed,
        verdict="failed" if checkers or unmet else verdict,
        reason=verdict,
        metrics={"excused_passes": 2.0, "excused_passes.billing": 2.0, "excused_overlap_s": 3.5},
        violations=tuple(
            Violation(checker=each, rule="", what="", mono_us=0, node="") for each in checkers
        ),
        unmet=(Unmet(unmet, 1.0),) if unmet else (),
        fact_count=100,
        tried={"lost": 7},
    )


def test_three_thousand_seeds_are_run_over_both_releases_shapes_and_rates() -> None:
    assert sum(batch.seeds for batch in BATCHES.values()) == 3_000
    for release in RELEASES:
        for shape in ("small", "default"):
            mine = [b for b in BATCHES.values() if (b.release, b.shape) == (release, shape)]
            assert sum(batch.seeds for batch in mine if batch.rate > 10) == 150
            assert {batch.rate for batch in mine} >= {50.0, 200.0}


@pytest.mark.parametrize("name", BATCHES)
def test_every_batch_is_a_weather_that_can_be_run(name: str) -> None:
    batch = BATCHES[name]
    plan = load("weather", {**batch.parameters, "seed": 1})
    assert problems_of(plan) == []
    assert plan.cluster.release == batch.release
    assert plan.cluster.brokers == batch.settings["brokers"]
    assert plan.parameters["rate"] == batch.rate


def test_a_record_keeps_what_was_objected_to_with_its_seeds_whatever_the_order() -> None:
    rows = [
        a_healthy_row(3, "lost", "lost", "commits"),
        a_healthy_row(1, "lost"),
        a_healthy_row(2),
        a_healthy_row(4, unmet="backlog == 0"),
        a_healthy_row(5, verdict="error"),
    ]
    record = record_of(rows, "1")
    assert record == record_of(reversed(rows), "1")
    assert record.objections == {"lost": [1, 3], "commits": [3]}
    assert record.unmet == {"backlog == 0": [4]}
    assert record.errors == {"error": [5]}
    assert (record.runs, record.facts, record.tried) == (5, 500, {"lost": 35})
    assert record.let_off == {"excused_passes": 10}


def test_the_page_names_an_objection_by_rule_and_seed() -> None:
    name = "4.9.7 small 4/s"
    text = text_of({name: record_of([a_healthy_row(1), a_healthy_row(2, "lost")], "1")})
    assert "2 of 3,000 runs were made, with 200 facts; 1 of them did not pass" in text
    assert f"| {name} | 1..2 | 200 | lost: 2 |" in text
    assert "| `lost` | 14 | 1 |" in text


def test_what_was_found_is_on_the_page_and_is_of_one_version_of_the_code() -> None:
    records = Records().all
    text = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert text.strip() == text_of(records).strip()
    assert records.keys() <= BATCHES.keys()
    assert len({record.code_version for record in records.values()}) == 1


def test_what_the_page_says_is_counted_is_a_metric_and_its_scenarios_exist() -> None:
    table = PAGE.read_text().partition("| behaviour of a real RocketMQ")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    assert len(rows) >= 5
    for row in rows:
        for metric in re.findall(r"`(\w+)`", row[3]):
            assert metric in METRICS
        (scenario,) = re.findall(r"`(\w+)`", row[4])
        assert load(scenario).name == scenario


def test_records_are_read_back_as_they_were_kept(tmp_path: Path) -> None:
    records = Records(tmp_path / "found.json")
    records.keep("4.9.7 small 4/s", record_of([a_healthy_row(1)], "1"))
    assert Records(tmp_path / "found.json").all == records.all
    assert msgspec.json.decode((tmp_path / "found.json").read_bytes())
