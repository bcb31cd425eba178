"""A sweep on Spark has the figures of the known table of skew, and ``rmqemu study`` shows them."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from docs.generate.study_skew import KNOWN_RING
from rocketmq_emulator.cli.app import application
from rocketmq_emulator.pipeline.studies.study import study_of
from rocketmq_emulator.pipeline.sweep.driving import SparkSweep
from rocketmq_emulator.pipeline.sweep.folder import SweepFolder, stored_sweep
from rocketmq_emulator.pipeline.sweep.grid import SweepSpec, grid_of

SEEDS = 40
# queues, members: the smallest and the largest share; the queues that move when the last member
# leaves: averagely, by_circle, and the moves that are necessary
EVEN = {
    (8, 3): (2, 3, 3, 4, 2),
    (24, 5): (4, 5, 10, 16, 4),
    (24, 7): (3, 4, 6, 18, 3),
    (64, 10): (6, 7, 24, 55, 6),
}
METRICS = (
    *("queues_min", "queues_max", "queues_sigma", "idle_members"),
    *("moves_leave", "necessary_leave"),
)
VARY = {
    "strategy": ("averagely", "by_circle", "consistent_hash"),
    "queues": ("8", "24", "64"),
    "members": ("3", "5", "7", "10", "12"),
}


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    asked = SweepSpec(scenario="allocation", vary=VARY, first_seed=1, last_seed=SEEDS)
    grid, path = grid_of(asked), tmp_path_factory.mktemp("skew") / "sweep"
    with SweepFolder(path, stored_sweep(grid, ["rmqemu", "sweep", "allocation"])) as target:
        assert len(list(SparkSweep(lambda: spark, grid, target).rows())) == 45 * SEEDS
    return path


@pytest.fixture(scope="module")
def numbers(spark, folder):
    """The numbers of each cell, by strategy, queues and members."""
    return {cell.at: cell.numbers for cell in study_of(spark, folder, METRICS).cells}


@pytest.mark.parametrize("shape", EVEN, ids=str)
def test_even_strategies_have_the_figures_of_the_table_from_every_seed(numbers, shape) -> None:
    least, most, *moves, necessary = EVEN[shape]
    for strategy, moved in zip(("averagely", "by_circle"), moves, strict=True):
        found = numbers[strategy, *shape]
        names = ("queues_min", "queues_max", "moves_leave", "necessary_leave")
        for metric, value in zip(names, (least, most, moved, necessary), strict=True):
            assert set(found[metric].values) == {value}, (strategy, metric)
            assert found[metric].count == SEEDS


def test_with_more_members_than_queues_some_idle(numbers) -> None:
    for strategy in ("averagely", "by_circle"):
        assert set(numbers[strategy, 8, 12]["idle_members"].values) == {4}
    ring = numbers["consistent_hash", 8, 12]["idle_members"]
    assert ring.at(0)[0] >= 4
    assert ring.at(0)[0] <= 6 <= ring.at(1)[0]


@pytest.mark.parametrize("shape", KNOWN_RING, ids=str)
def test_the_figures_of_one_set_of_ids_lie_within_the_distribution(numbers, shape) -> None:
    found = numbers["consistent_hash", *shape]
    metrics = ("queues_min", "queues_max", "queues_sigma", "moves_leave")
    for metric, value in zip(metrics, KNOWN_RING[shape], strict=True):
        if value is not None:
            assert found[metric].at(0)[0] - 0.005 <= value <= found[metric].at(1)[0], metric


def test_who_leaves_a_ring_moves_its_own_queues_only(numbers) -> None:
    for (strategy, *_), found in numbers.items():
        if strategy == "consistent_hash":
            assert found["moves_leave"].values == found["necessary_leave"].values


def test_the_command_writes_a_page_and_its_tables(spark, folder) -> None:
    words = ["study", str(folder), "--metric", "queues_max", "--title", "Skew"]
    done = CliRunner().invoke(application("study"), words)
    assert done.exit_code == 0, done.output
    assert "1,800 runs of 45 combinations" in done.output
    assert "<title>Skew</title>" in (folder / "study.html").read_text()
    tables = {path.name for path in (folder / "study").iterdir()}
    assert {"combinations.csv", "curves.parquet", "verdicts.csv"} <= tables


def test_what_cannot_be_studied_is_said_before_anything_is_written(
    spark, folder, tmp_path
) -> None:
    def output_of(*words: str) -> str:
        done = CliRunner().invoke(application("study"), ["study", *words])
        assert done.exit_code == 2
        return done.output

    assert "holds no sweep" in output_of(str(tmp_path))
    assert "did you mean queues_max" in output_of(str(folder), "--metric", "queue_max")
    assert list(tmp_path.iterdir()) == []


def test_rows_of_other_seeds_do_not_count(spark, folder, tmp_path) -> None:
    path = tmp_path / "narrower"
    shutil.copytree(folder, path)
    about = path / "sweep.json"
    about.write_text(about.read_text().replace(f'"last_seed": {SEEDS}', '"last_seed": 5'))
    made = study_of(spark, path, METRICS)
    assert {cell.runs for cell in made.cells} == {5}
