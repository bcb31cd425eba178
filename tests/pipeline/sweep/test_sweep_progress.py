"""The progress bar of a sweep, and the check of executors before the first row."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import msgspec
import pytest

pytest.importorskip("pyspark")

from rocketmq_emulator.cli.screens import sweep_screen
from rocketmq_emulator.cli.screens.sweep_screen import GridProgress, grid_progress
from rocketmq_emulator.pipeline.session import SparkUnavailable
from rocketmq_emulator.pipeline.sweep import preflight
from rocketmq_emulator.pipeline.sweep.preflight import ExecutorFound, check_executors


def a_sweep(done: int, known: int = 0, total: int = 100, **bad: int) -> SimpleNamespace:
    """The attributes of a sweep that the progress bar reads."""
    tallies = {"cell": SimpleNamespace(counts=Counter(bad))}
    grid = SimpleNamespace(row_count=total)
    return SimpleNamespace(done=done, new_count=done - known, grid=grid, tallies=tallies)


def test_a_bar_has_the_rate_and_what_is_left_of_it() -> None:
    text = grid_progress(a_sweep(60, failed=2, error=1), 50, 25.0)
    assert text == "60 of 100 rows, 2.0/s, 20 s left, 2 failed, 1 error"
    assert grid_progress(a_sweep(100), 50, 25.0) == "100 of 100 rows, 2.0/s"
    assert grid_progress(a_sweep(40, known=40), 0, 0.0) == (
        "40 of 100 rows; Spark is getting ready"
    )


def test_the_seconds_in_which_spark_gets_ready_slow_no_rate_down(monkeypatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(sweep_screen.time, "monotonic", lambda: now_s)
    progress = GridProgress(is_silent=True)
    assert progress._text(a_sweep(40, known=40)).endswith("Spark is getting ready")
    now_s = 120.0
    assert progress._text(a_sweep(41, known=40)) == "41 of 100 rows"
    now_s = 124.0
    assert progress._text(a_sweep(49, known=40)) == "49 of 100 rows, 2.0/s, 26 s left"


class OtherExecutors:
    """A Spark session whose executors are *found*."""

    def __init__(self, *found: ExecutorFound) -> None:
        self.sparkContext = SimpleNamespace(master="spark://there:7077", defaultParallelism=2)
        self._found = found

    def range(self, *_: int) -> OtherExecutors:
        return self

    def mapInArrow(self, *_: object) -> OtherExecutors:  # noqa: N802  # Spark's name
        return self

    def distinct(self) -> OtherExecutors:
        return self

    def collect(self) -> list[tuple]:
        return [msgspec.structs.astuple(each) for each in self._found]


@pytest.mark.parametrize("field", ["python", "code_version"])
def test_executors_with_another_python_or_other_code_are_refused(field) -> None:
    ours = ExecutorFound(*preflight._of_this_process())
    assert check_executors(OtherExecutors(ours)) == [ours]
    other = msgspec.structs.replace(ours, host="there", **{field: "another"})
    with pytest.raises(
        SparkUnavailable, match=rf"there has {field.replace('_', ' ')} another, this"
    ):
        check_executors(OtherExecutors(ours, other))
