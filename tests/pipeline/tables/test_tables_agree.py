"""The checkers and Spark, written independently, compute the same metrics from one journal."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from rocketmq_emulator.checks.judging.table import METRICS as CHECKED
from rocketmq_emulator.facts import HalfMessageSent
from rocketmq_emulator.pipeline.tables.steps import METRICS
from tests.support.pipeline.weather_journals import (
    agrees,
    disagreements,
    folder_of,
    has_fact,
    weather,
    written,
)

LIBRARY = (
    "a_broker_dies_and_nobody_retries",
    "a_member_stands_still",
    "a_group_mixes_two_strategies",
)


def metrics_of_spark() -> set[str]:
    return {name for _, names in METRICS.values() for name in names}


def test_metrics_have_the_names_and_the_totals_of_the_checkers() -> None:
    for of, names in METRICS.values():
        for name, how in names.items():
            assert (CHECKED[name].of, CHECKED[name].total) == (of, how), name


def test_checkers_and_spark_agree_on_weather_and_on_scenarios(spark, tmp_path) -> None:
    journals = [weather(tmp_path, "3..5", release) for release in ("4.9.7", "5.3.3")]
    assert all(has_fact(folder, HalfMessageSent) for folder in journals)  # and sends of messages
    journals += [written(tmp_path / name, name) for name in LIBRARY]
    folder = folder_of(tmp_path / "tables", spark, journals)
    assert len(folder.runs()) == 6 + len(LIBRARY)
    wrong, compared = disagreements(folder)
    assert wrong == []
    assert compared == metrics_of_spark()


@pytest.mark.parity  # takes four minutes: `make parity`
@pytest.mark.timeout(1_800)
def test_checkers_and_spark_agree_on_200_weather_runs(spark, tmp_path) -> None:
    journals = [weather(tmp_path, "1..100", release) for release in ("4.9.7", "5.3.3")]
    folder = folder_of(tmp_path / "tables", spark, journals)
    assert len(folder.runs()) == 200
    wrong, compared = disagreements(folder)
    assert wrong == []
    assert compared == metrics_of_spark()


def test_a_count_that_is_off_by_one_or_a_second_by_two_milliseconds_disagrees() -> None:
    assert agrees("sends.orders", 3, 3)
    assert not agrees("sends.orders", 3, 4)
    assert agrees("overlap_s", 1.0, 1.0009)
    assert not agrees("overlap_s", 1.0, 1.002)
    assert agrees("deliver_ms_p99", 100.0, 101.5)
    assert not agrees("deliver_ms_p99", 100.0, 102.0)
