"""A sweep on Spark has the same rows as ``rmqemu run --seeds``, even if a run fails or dies."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.pipeline.sweep.driving import SparkSweep
from rocketmq_emulator.pipeline.sweep.folder import (
    BadFolder,
    SweepFolder,
    read_sweep,
    stored_sweep,
    sweep_rows,
)
from rocketmq_emulator.pipeline.sweep.grid import grid_of
from rocketmq_emulator.pipeline.sweep.rows import LogLine, LogReader, own_folder
from rocketmq_emulator.pipeline.sweep.work import RowSpec
from rocketmq_emulator.scenarios.catalog.finding import load, weather_of
from rocketmq_emulator.scenarios.sweeps.sweep import Sweep, WeatherSweep
from rocketmq_emulator.spark import sweep
from tests.support.pipeline.sweeping import QUESTIONS, SHORT, asked, swept_here


def comparable(row) -> dict:
    """The fields of a row that do not depend on the machine; parameters as texts, as in tables."""
    fields = {name: getattr(row, name) for name in type(row).__struct_fields__}
    for name in ("took_s", "journal", "made_from"):
        fields.pop(name, None)
    fields["parameters"] = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in row.parameters.items()
    }
    return fields


def by_seed(rows) -> list:
    return sorted(map(comparable, rows), key=lambda row: row["seed"])


def test_a_sweep_gives_the_same_rows_as_run_with_seeds(spark, short, tmp_path) -> None:
    short.write_text(SHORT.replace("lost = 0", "sends_max = 3"))
    sweep, rows = swept_here(spark, tmp_path / "sweep", asked(short, "queues=1,3"))
    assert len(rows) == sweep.done == 4
    for cell in sweep.grid.cells:
        plain = Sweep(load(str(short), cell.varied), [1, 2], tmp_path / "plain").rows()
        assert by_seed(r for r in rows if r.made_from == cell.made_from) == by_seed(plain)
    assert {row.verdict for row in rows} == {"failed"}
    assert all(Path(row.journal).parent == tmp_path / "sweep" / "journals" for row in rows)
    assert all(Path(row.journal).read_bytes().startswith(b"{") for row in rows)


@pytest.fixture
def failing_grid(short):
    """A grid of two runs that fail, so that their journals are kept."""
    short.write_text(SHORT.replace("lost = 0", "sends_max = 3"))
    return grid_of(asked(short))


@pytest.fixture
def unseen_folder(failing_grid, tmp_path):
    """A sweep's folder with a changed token, so that executors do not recognize it."""
    with SweepFolder(tmp_path / "sweep", stored_sweep(failing_grid, ["x"])) as folder:
        folder.token = secrets.token_hex(8)
        yield folder
    shutil.rmtree(own_folder(folder.token), ignore_errors=True)


def test_executors_that_do_not_see_the_folder_send_journals_back(
    spark, failing_grid, unseen_folder, tmp_path
) -> None:
    rows = list(SparkSweep(lambda: spark, failing_grid, unseen_folder).rows())
    assert not [*(tmp_path / "sweep" / "under_way").glob("*.jsonl")]
    assert not [*own_folder(unseen_folder.token).iterdir()], "an executor left files"
    plain = Sweep(load(str(tmp_path / "short.toml")), [1, 2], tmp_path / "plain").rows()
    plain = {row.seed: row for row in plain}
    assert by_seed(rows) == by_seed(plain.values())
    for row in rows:
        assert Path(row.journal).parent == tmp_path / "sweep" / "journals"
        assert Path(row.journal).read_bytes() == Path(plain[row.seed].journal).read_bytes()


def test_a_task_that_is_tried_again_sends_the_journals_of_its_first_try(
    spark, failing_grid, unseen_folder
) -> None:
    own = own_folder(unseen_folder.token)
    own.mkdir()
    (cell,) = failing_grid.cells
    order = RowSpec(cell.made_from, 1, cell.plan)
    journal = own / "of-the-first-try.jsonl"
    journal.write_text("{}\n")
    row = msgspec.structs.replace(order.lost("by then"), verdict="failed", journal=str(journal))
    for task in range(2):
        (own / f"wave000001-{task}.jsonl").write_bytes(msgspec.json.encode(LogLine(row)) + b"\n")
    rows = {row.seed: row for row in SparkSweep(lambda: spark, failing_grid, unseen_folder).rows()}
    assert rows[1].reason == "by then"
    assert Path(rows[1].journal).read_text() == "{}\n"
    assert rows[2].fact_count > 100
    assert not [*own.iterdir()]


def test_a_row_that_is_seen_half_written_is_read_when_it_is_whole(tmp_path, failing_grid) -> None:
    (cell,) = failing_grid.cells
    row = RowSpec(cell.made_from, 1, cell.plan).lost("by then")
    line = msgspec.json.encode(LogLine(row)) + b"\n"
    log, reader = tmp_path / "wave000001-0.jsonl", LogReader(tmp_path)
    log.write_bytes(line + line[:40])
    assert list(reader.new_rows()) == [row]
    log.write_bytes(line + line)
    assert list(reader.new_rows()) == [row]
    assert list(reader.new_rows()) == []


def test_weather_gives_the_same_rows_as_run_with_seeds(spark, tmp_path) -> None:
    small = {"seconds": "10", "rate": "2", "brokers": "2"}
    _, rows = swept_here(spark, tmp_path / "sweep", asked("weather", settings=small))
    plain = WeatherSweep(
        lambda seed: weather_of({**small, "seed": seed}),
        load("weather", small),
        [1, 2],
        journals=tmp_path / "plain",
    )
    assert by_seed(rows) == by_seed(plain.rows())


def test_a_sweep_is_read_with_a_typed_column_for_each_varied_parameter(
    spark, questions, tmp_path
) -> None:
    ask = asked(f"{questions}:halves", "width=2..5", seeds=range(50))
    sweep, _ = swept_here(spark, tmp_path / "sweep", ask)
    assert sweep.done == 200
    table = sweep_rows(spark, tmp_path / "sweep")
    assert dict(table.dtypes)["width"] == "bigint"
    found = table.where("width = 5 and seed = 7").select("metrics", "verdict", "world").collect()
    (row,) = found
    assert row.metrics == {"half": 2.5, "seeded": 70.0}
    assert (row.verdict, row.world) == ("passed", "function")
    assert table.count() == 200
    about = read_sweep(tmp_path / "sweep")
    assert (about.name, about.grid, about.last_seed) == ("halves", {"width": (2, 3, 4, 5)}, 49)


def test_a_program_sweeps_with_one_call_and_gets_the_table(spark, questions, tmp_path) -> None:
    seen = []
    table = sweep(
        spark,
        f"{questions}:halves",
        tmp_path / "sweep",
        seeds=range(5),
        vary={"width": range(1, 4)},
        look=lambda made: seen.append(made.done),
    )
    assert table.groupBy("width").count().orderBy("width").collect() == [(1, 5), (2, 5), (3, 5)]
    assert seen == [*range(1, 16)]


def test_finished_rows_are_not_run_again_and_more_seeds_only_add(
    spark, questions, tmp_path
) -> None:
    folder, name = tmp_path / "sweep", f"{questions}:halves"
    swept_here(spark, folder, asked(name, "width=1..2", seeds=range(10)))
    sweep, rows = swept_here(spark, folder, asked(name, "width=1..2", seeds=range(10)))
    assert (rows, sweep.done) == ([], 20)
    assert sweep.tallies[sweep.grid.cells[0].made_from].cached_count == 10
    sweep, rows = swept_here(spark, folder, asked(name, "width=1..3", seeds=range(12)))
    assert (len(rows), sweep.done) == (16, 36)
    assert sweep_rows(spark, folder).count() == 36
    sweep, rows = swept_here(spark, folder, asked(name, "width=1..3", seeds=range(3, 5)))
    assert (rows, sweep.done) == ([], 6)
    assert sweep_rows(spark, folder).count() == 6, "only rows of the present seeds"


def test_rows_of_another_version_are_made_again_and_counted_as_stale(
    spark, questions, tmp_path
) -> None:
    folder, name = tmp_path / "sweep", f"{questions}:halves"
    swept_here(spark, folder, asked(name, seeds=range(10)))
    questions.write_text(QUESTIONS.replace("width / 2", "width / 4.0"))
    sweep, rows = swept_here(spark, folder, asked(name, seeds=range(10)))
    assert (len(rows), sweep.stale_count) == (10, 10)
    assert sweep_rows(spark, folder).count() == 10


def test_a_question_that_raises_is_a_row_with_its_reason(spark, questions, tmp_path) -> None:
    name = f"{questions}:falls_over"
    _, rows = swept_here(spark, tmp_path / "sweep", asked(name, seeds=range(6)))
    (bad,) = [row for row in rows if row.verdict == "error"]
    assert bad.seed == 3
    assert bad.reason.startswith("ZeroDivisionError: as it should (at falls_over, some_questions")
    _, rows = swept_here(spark, tmp_path / "sweep", asked(name, seeds=range(6)))
    assert [row.seed for row in rows] == [3], "a run with an error is repeated"
    assert sweep_rows(spark, tmp_path / "sweep").count() == 6, "the newer row replaces the other"


def test_a_question_that_ends_its_worker_is_a_row_and_the_others_go_on(
    spark, questions, tmp_path
) -> None:
    ask = asked(f"{questions}:kills_its_worker", seeds=range(30))
    _, rows = swept_here(spark, tmp_path / "sweep", ask)
    assert len(rows) == 30
    (bad,) = [row for row in rows if row.verdict == "error"]
    assert (bad.seed, bad.verdict) == (3, "error")
    assert "the Spark worker that ran it ended, twice" in bad.reason


def test_a_question_that_hangs_is_a_row_when_its_time_is_over(spark, questions, tmp_path) -> None:
    ask = asked(f"{questions}:hangs", seeds=range(6))
    _, rows = swept_here(spark, tmp_path / "sweep", ask, run_s_max=5)
    assert len(rows) == 6
    (bad,) = [row for row in rows if row.verdict == "error"]
    assert (bad.seed, bad.reason) == (3, "it had no answer after 5 s")


PROGRAM = """
[[programs]]
name = "broken"
run = "programs_of_sweeps:{}"
"""
PROGRAMS = """
import os, signal
import trio

async def is_killed(_process, _namesrv):
    await trio.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)

async def exits(_process, _namesrv):
    os._exit(9)

async def hangs(_process, _namesrv):
    while True:
        pass
"""


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("is_killed", "its process ended with signal SIGKILL"),
        ("exits", "its process ended with exit code 9"),
        ("hangs", "it was still running after 2 s"),
    ],
)
def test_a_run_that_dies_or_hangs_is_a_row(
    spark, short, tmp_path, monkeypatch, program, reason
) -> None:
    (tmp_path / "programs_of_sweeps.py").write_text(PROGRAMS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    short.write_text(SHORT + PROGRAM.format(program))
    ask = asked(short, seeds=range(1, 2))
    _, (row,) = swept_here(spark, tmp_path / "sweep", ask, run_s_max=2.0)
    assert row.verdict == "error"
    assert row.reason.startswith(reason)


def test_a_folder_takes_one_sweep_at_a_time_and_of_one_scenario(questions, tmp_path) -> None:
    halves = stored_sweep(grid_of(asked(f"{questions}:halves")), ["x"])
    other = stored_sweep(grid_of(asked(f"{questions}:hangs")), ["x"])
    second = SweepFolder(tmp_path / "sweep", halves)
    with SweepFolder(tmp_path / "sweep", halves), pytest.raises(BadFolder, match="is writing"):
        second.__enter__()
    with pytest.raises(BadFolder, match="has a sweep of halves: give one of hangs another"):
        SweepFolder(tmp_path / "sweep", other).__enter__()
    with pytest.raises(BadFolder, match="holds no sweep"):
        read_sweep(tmp_path)
