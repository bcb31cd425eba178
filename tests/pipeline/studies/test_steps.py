"""Steps from rows to the numbers of a study, on small tables written by hand."""

from __future__ import annotations

import math

import pytest

from rocketmq_emulator.pipeline.studies import steps
from rocketmq_emulator.pipeline.studies.metrics_shown import (
    METRICS_MAX,
    NoSuchMetric,
    metrics_shown,
)
from rocketmq_emulator.pipeline.studies.study import (
    CELLS_MAX,
    NUMBERS_MAX,
    NothingToStudy,
    make_study,
    parts_of_curves,
)
from rocketmq_emulator.pipeline.studies.uncertainty import Sample, of_difference, of_mean, t_975
from tests.support.pipeline.studies_by_hand import a_row, a_sweep, about

VALUES = (30, 10, 40, 20)  # of seeds 1 to 4


@pytest.fixture(scope="module")
def study(spark):
    cells = {
        ("block", 10): [a_row(seed, {"idle": 7 * seed, "lost": 0}) for seed in range(1, 5)],
        ("circle", 2): [a_row(seed, {"idle": v}) for seed, v in enumerate(VALUES, 1)],
        ("circle", 10): [
            a_row(1, {"idle": 5}),
            a_row(2, {"idle": 5}, verdict="failed", reason="idle == 0 was expected, it is 5"),
            a_row(3, {}, verdict="error", reason="it died"),
        ],
    }
    return make_study(a_sweep(spark, cells), about(expected=("idle == 0",)))


def test_cells_stand_in_the_order_in_which_they_were_asked_for(study) -> None:
    assert [cell.at for cell in study.cells] == [("circle", 2), ("circle", 10), ("block", 10)]


def test_a_quantile_is_the_value_of_a_run_and_has_its_seed(study) -> None:
    numbers = study.cells[0].numbers["idle"]
    assert [numbers.at(share) for share in (0, 0.25, 0.26, 0.5, 0.75, 1)] == [
        (10, 2),
        (10, 2),
        (20, 4),
        (20, 4),
        (30, 1),
        (40, 3),
    ]
    assert len(numbers.values) == len(numbers.seeds) == 101


def test_a_mean_has_its_interval_and_one_run_has_none(study) -> None:
    numbers = study.cells[0].numbers["idle"]
    deviation = math.sqrt(500 / 3)
    assert numbers.mean == 25
    assert numbers.deviation == pytest.approx(deviation)
    assert numbers.high - 25 == pytest.approx(3.182 * deviation / 2)
    assert of_mean(3, None, 1).low is None


def test_runs_that_did_not_pass_are_counted_and_named_with_their_reasons(study) -> None:
    cell = study.cells[1]
    assert (cell.runs, cell.passed, cell.failed, cell.error) == (3, 1, 1, 1)
    assert [(one.seed, one.verdict, one.reason) for one in cell.not_passed] == [
        (2, "failed", "idle == 0 was expected, it is 5"),
        (3, "error", "it died"),
    ]
    assert study.runs == 11
    assert cell.numbers["idle"].count == 2


def test_only_the_first_seeds_that_did_not_pass_are_named(spark) -> None:
    rows = [a_row(seed, {"x": 1}, verdict="failed") for seed in range(1, 60)]
    (cell,) = make_study(a_sweep(spark, {(): rows}, ""), about(varied={})).cells
    assert cell.failed == 59
    assert [one.seed for one in cell.not_passed] == [*range(1, steps.SEEDS_NAMED_MAX + 1)]


def test_releases_are_compared_all_else_equal(spark) -> None:
    cells = {
        (2,): [
            *(a_row(seed, {"gap": seed}, release="4.9.7") for seed in (1, 2, 3)),
            *(a_row(seed, {"gap": seed + 10}, release="5.1.4") for seed in (1, 2, 3)),
        ],
        (3,): [a_row(1, {"gap": 1}, release="4.9.7")],
    }
    varied = {"members": (2, 3), "release": ("4.9.7", "5.1.4")}
    study = make_study(a_sweep(spark, cells, "members long"), about(varied=varied))
    (change,) = study.changes
    assert study.cells[change.before].at == (2, "4.9.7")
    assert study.cells[change.after].at == (2, "5.1.4")
    half = 2.776 * math.sqrt(2 / 3)
    assert change.difference == 10
    assert change.low == pytest.approx(10 - half)
    assert change.high == pytest.approx(10 + half)


def test_a_sweep_without_a_run_or_with_too_many_cells_is_refused(spark) -> None:
    with pytest.raises(NothingToStudy, match="no finished run"):
        make_study(a_sweep(spark, {}, "members long"), about(varied={"members": (2,)}))
    many = spark.range(2_001).selectExpr(
        "id as members", "1L as seed", "'passed' as verdict", "'' as reason",
        "map('x', 1.0D) as metrics", "0.1D as took_s", "'' as release",
    )  # fmt: skip
    with pytest.raises(NothingToStudy, match="2,001 combinations do not fit"):
        make_study(many, about(varied={"members": tuple(range(2_001))}))


def test_the_more_curves_a_page_has_the_fewer_points_each() -> None:
    few, many, most = 60 * 12, 1_000 * 12, CELLS_MAX * METRICS_MAX
    assert [parts_of_curves(count) for count in (few, many, most)] == [100, 20, 10]
    assert most * parts_of_curves(most) <= NUMBERS_MAX


def test_how_much_of_a_metric_is_between_cells_does_not_depend_on_where_zero_is(spark) -> None:
    values = spark.createDataFrame(
        [("a", "m", 10.0), ("a", "m", 12.0), ("b", "m", 20.0), ("b", "m", 22.0), ("b", "k", 3.0)],
        "cell string, metric string, value double",
    )
    rows = {row.metric: row for row in steps.overview(values).collect()}
    found = rows["m"]
    assert (found["count"], found.least, found.most, found.mean) == (4, 10, 22, 16)
    assert found.between == pytest.approx(25 / 26)  # variances: between cells 25, within cells 1
    assert rows["k"].between is None


# Choice of metrics -------------------------------------------------------------------------


def of_runs(metric, least, most, mean=1.0, between=0.5, count=4) -> dict:
    return {
        "metric": metric, "count": count, "least": least, "most": most, "mean": mean,
        "between": None if least == most else between,
    }  # fmt: skip


def names(*overview, **options) -> list[str]:
    return [metric.name for metric in metrics_shown(overview, **options)]


def test_expected_metrics_come_first_then_those_that_differ_between_cells() -> None:
    overview = (
        of_runs("noise", 0, 9, between=0.001),
        of_runs("constant", 3, 3),
        of_runs("some", 0, 9, between=0.4),
        of_runs("most", 0, 9, between=0.9),
        of_runs("lost", 0, 0),
    )
    assert names(*overview, expected=("lost == 0",)) == ["lost", "most", "some", "noise"]
    assert names(*overview, wanted=("noise",)) == ["noise"]


def test_the_metric_of_the_only_group_is_that_of_the_run() -> None:
    overview = (of_runs("idle", 0, 3), of_runs("idle.billing", 0, 3), of_runs("idle.other", 0, 2))
    found = metrics_shown(overview, ("idle.billing == 0",))
    assert [(one.name, one.expected) for one in found] == [
        ("idle", ("== 0",)),
        ("idle.other", ()),
    ]


def test_where_nothing_varies_the_constants_are_shown() -> None:
    (found,) = metrics_shown((of_runs("lost", 0, 0),))
    assert (found.name, found.is_constant) == ("lost", True)
    assert found.sentence


def test_a_metric_that_nobody_measured_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(NoSuchMetric, match="did you mean idle_members"):
        names(of_runs("idle_members", 0, 3), wanted=("idle_member",))


# Uncertainty -------------------------------------------------------------------------------


def test_student_s_t_is_never_narrower_than_its_table() -> None:
    assert [t_975(freedom) for freedom in (1, 4.9, 29, 121)] == [12.706, 2.776, 2.060, 1.960]


def test_the_difference_of_two_constants_is_certain_and_that_of_single_runs_unknown() -> None:
    assert of_difference(Sample(1, 0.0, 9), Sample(3, 0.0, 9)) == (2, 2, 2)
    assert of_difference(Sample(1, None, 1), Sample(3, 0.5, 9)) == (2, None, None)
