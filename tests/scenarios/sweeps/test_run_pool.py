"""Each run has its own process: if one run dies or hangs, the others still finish."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.facts import RunEnded, RunStarted
from rocketmq_emulator.processes import spawning
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Expectation,
    Mark,
    ProgramPlan,
    Step,
)
from rocketmq_emulator.scenarios.plan.result import RunOrder
from rocketmq_emulator.scenarios.sweeps.row_files import FinishedRuns, junit_xml
from rocketmq_emulator.scenarios.sweeps.run_forks import warm_up
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.sweeps.sweep import Sweep
from tests.support.paths import ROOT
from tests.support.scenarios.running_plans import a_plan

SHORT = (Step(does=Mark(text="the end"), at_ms=2_000),)
NEVER = (Expectation(metric="lost", operator=">=", bound=1),)


def a_short_plan(program: str = "", **fields):
    run = f"tests.support.scenarios.programs_of_plans:{program}"
    programs = (ProgramPlan(name="mine", run=run),) if program else ()
    return a_plan(*SHORT, programs=programs, lasts_ms=3_000, **fields)


def an_order(program: str = "", seed: int = 1, **fields) -> RunOrder:
    return RunOrder(plan=a_short_plan(program, **fields), seed=seed, paths=(str(ROOT),))


def rows_of(*orders: RunOrder, run_s_max: float = 60.0):
    with RunPool(run_s_max=run_s_max) as run_pool:
        return {row.seed: row for row in run_pool.rows(orders, 2)}


def test_a_run_that_dies_or_hangs_is_an_error_and_the_others_are_finished() -> None:
    rows = rows_of(
        an_order("dies", seed=1),
        an_order("hangs", seed=2),
        an_order("says", seed=3),
        an_order(seed=4),
        run_s_max=8.0,
    )
    assert [rows[seed].verdict for seed in (1, 2, 3, 4)] == ["error", "error", "passed", "passed"]
    assert "its process ended with signal SIGSEGV" in rows[1].reason
    assert "it was still running after 8 s" in rows[2].reason
    assert "in hangs" in rows[2].reason


def test_what_is_done_once_before_runs_are_forked_is_a_whole_run() -> None:
    row = warm_up()
    assert (row.verdict, row.reason) == ("passed", "")
    assert row.metrics["sends"] > 0


def test_two_processes_with_other_hash_seeds_write_the_same_journal(tmp_path, monkeypatch) -> None:
    files = [tmp_path / name for name in ("four-1", "five-1", "four-2", "five-2")]
    orders = []
    for file, release in zip(files, ("4.9.7", "5.3.3") * 2, strict=True):
        order = an_order(seed=5)
        cluster = msgspec.structs.replace(order.plan.cluster, release=release)
        plan = msgspec.structs.replace(order.plan, cluster=cluster)
        kept = {"plan": plan, "journal": str(file), "keeps_passed": True}
        orders.append(msgspec.structs.replace(order, **kept))
    for hash_seed in (1, 2):
        environment = {**spawning.node_environment(), "PYTHONHASHSEED": str(hash_seed)}
        monkeypatch.setattr(
            "rocketmq_emulator.scenarios.sweeps.run_pool.node_environment", lambda e=environment: e
        )
        rows_of(*orders[2 * hash_seed - 2 : 2 * hash_seed])
    journals = [file.read_bytes() for file in files]
    assert journals[:2] == journals[2:]
    assert journals[0] != journals[1]


def test_a_seed_that_fails_keeps_its_journal_and_one_that_passed_does_not(tmp_path) -> None:
    failing = Sweep(a_short_plan(expect=NEVER), [7], tmp_path / "failing")
    (row,) = failing.rows()
    assert row.verdict == "failed"
    entries = [*read_journals([Path(row.journal)])]
    assert len(entries) == row.fact_count
    assert isinstance(entries[0].fact, RunStarted)
    assert isinstance(entries[-1].fact, RunEnded)
    (passed,) = Sweep(a_short_plan(), [7], tmp_path / "passing").rows()
    assert passed.journal == ""
    assert [*(tmp_path / "passing").iterdir()] == []


def test_finished_seeds_are_taken_from_disk_until_the_plan_changes(tmp_path) -> None:
    plan = a_short_plan()
    first = Sweep(plan, range(1, 3), tmp_path, finished=FinishedRuns(plan, tmp_path))
    rows = sorted(first.rows(), key=lambda row: row.seed)
    assert first.tally.cached_count == 0
    again = Sweep(plan, range(1, 3), tmp_path, finished=FinishedRuns(plan, tmp_path))
    assert [*again.rows()] == rows
    assert again.tally.cached_count == 2
    other = a_short_plan(expect=NEVER)
    assert FinishedRuns(other, tmp_path).row(1) is None


def test_finished_seeds_are_run_again_once_the_file_of_a_strategy_has_changed(tmp_path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def allocate(queues, members, me): return list(queues)\n")
    group = ConsumersPlan(group="billing", topics={"orders": "*"}, strategy=f"{mine}:allocate")
    plan = a_short_plan(consumers=(group,))
    row = next(Sweep(plan, [1], tmp_path).rows())
    FinishedRuns(plan, tmp_path).add(row)
    assert FinishedRuns(plan, tmp_path).row(1) == row
    mine.write_text("def allocate(queues, members, me): return []\n")
    assert FinishedRuns(plan, tmp_path).row(1) is None


def test_a_failed_seed_whose_journal_was_deleted_is_run_again(tmp_path) -> None:
    plan = a_short_plan(expect=NEVER)
    finished = FinishedRuns(plan, tmp_path / "cache")
    (row,) = Sweep(plan, [1], tmp_path, finished=finished).rows()
    assert finished.row(1) == row
    Path(row.journal).unlink()
    assert finished.row(1) is None


def test_a_damaged_line_of_finished_rows_is_passed_over(tmp_path) -> None:
    plan = a_short_plan()
    [*Sweep(plan, [1], tmp_path, finished=FinishedRuns(plan, tmp_path)).rows()]
    (file,) = tmp_path.glob("*.jsonl")
    file.write_bytes(b'{"scenario"\n' + file.read_bytes())
    assert FinishedRuns(plan, tmp_path).row(1) is not None


def test_the_worst_value_of_an_expectation_and_its_seed_are_known(tmp_path) -> None:
    expect = (Expectation(metric="sends", operator="<=", bound=1),)
    sweep = Sweep(a_short_plan(expect=expect), [3, 4], tmp_path)
    rows = [*sweep.rows()]
    worst = sweep.tally.worst["sends"]
    assert worst.value == max(row.metrics["sends"] for row in rows)
    assert worst.seed == min(row.seed for row in rows if row.metrics["sends"] == worst.value)
    assert sweep.tally.worst_row is not None
    assert sweep.tally.counts == {"failed": 2}


def test_junit_has_a_case_a_seed_and_survives_hostile_text(run_pool) -> None:
    orders = [an_order(seed=1), an_order(seed=2, expect=NEVER)]
    rows = {row.seed: row for row in run_pool.rows(orders, 2)}
    bad = msgspec.structs.replace(rows[2], reason="a \x00 and <b>")
    text = junit_xml([rows[1], bad]).decode()
    assert 'tests="2" failures="1" errors="0"' in text
    assert 'name="virtual 4.9.7 seed 1"' in text
    assert "a � and &lt;b&gt;" in text


def test_a_fleet_that_is_left_early_ends_what_still_runs() -> None:
    with RunPool() as run_pool:
        rows = run_pool.rows([an_order("hangs", seed=1), an_order(seed=2)], 2)
        assert next(rows).seed == 2
        (hanging,) = run_pool._running
        pid = hanging._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
