"""The grid of a sweep: its cells, the types of their values, and refused input."""

from __future__ import annotations

import pytest

from rocketmq_emulator.pipeline.sweep import grid
from rocketmq_emulator.pipeline.sweep.grid import BadGrid, grid_of, values_of, variation
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from tests.support.pipeline.sweeping import QUESTIONS, SHORT, asked


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("3..6", ("3", "4", "5", "6")),
        ("8..32..8", ("8", "16", "24", "32")),
        ("1,4..5", ("1", "4", "5")),
        ("-1..1", ("-1", "0", "1")),
        ("0.5,1", ("0.5", "1")),
        ("pinned(10.0.0.1, 10.0.0.2),averagely", ("pinned(10.0.0.1, 10.0.0.2)", "averagely")),
    ],
)
def test_values_are_lists_ranges_and_names_with_settings(text, values) -> None:
    assert values_of(text) == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("members", "NAME=VALUE"),
        ("=3", "NAME=VALUE"),
        ("members=", "NAME=VALUE"),
        ("members=6..3", "is empty"),
        ("members=1..9..0", "is empty"),
        ("members=3,,4", "empty value"),
        ("members=3,3", "given twice"),
        ("members=1..100000", "more than 10,000 values"),
    ],
)
def test_what_is_no_variation_says_what_to_write(text, said) -> None:
    with pytest.raises(BadGrid, match=said):
        variation(text)


def test_cells_are_the_product_of_parameters_and_releases_with_typed_values() -> None:
    found = grid_of(
        asked(
            "read_only",
            "strategy=averagely,circle",
            "members=3..5",
            releases=("4.9.7", "5.1.4"),
            settings={"backlog": "false"},
        )
    )
    assert (len(found.cells), found.row_count) == (12, 24)
    assert found.varied == ("strategy", "members", "release")
    first, second, *_ = found.cells
    assert first.varied == {"strategy": "averagely", "members": 3, "release": "4.9.7"}
    assert second.varied == {"strategy": "averagely", "members": 3, "release": "5.1.4"}
    assert second.plan.cluster.release == "5.1.4"
    assert second.plan.parameters["backlog"] is False
    assert len({cell.made_from for cell in found.cells}) == 12


def test_release_varies_like_a_parameter_where_the_scenario_has_none_of_that_name() -> None:
    by_flag = grid_of(asked("more_members_than_queues", releases=("4.9.7", "5.1.4")))
    by_name = grid_of(asked("more_members_than_queues", "release=4.9.7,5.1.4"))
    assert [cell.made_from for cell in by_flag.cells] == [c.made_from for c in by_name.cells]
    assert by_name.cells[1].varied == {"release": "5.1.4"}


def test_a_parameter_called_release_is_the_scenarios_own() -> None:
    found = grid_of(asked("a_broker_hangs", "release=4.9.7,5.3.3"))
    assert [cell.plan.parameters["release"] for cell in found.cells] == ["4.9.7", "5.3.3"]


@pytest.mark.parametrize(
    ("scenario", "vary", "said"),
    [
        ("more_members_than_queues", "member=3..4", "did you mean members"),
        ("more_members_than_queues", "members=3,x", "is a number"),
        ("more_members_than_queues", "members=3,03", "given twice"),
        ("read_only", "strategy=averagely,averagly", "did you mean averagely"),
        ("more_members_than_queues", "release=4.9.7,4.9.77x", "--release"),
        ("sharing", "release=4.9.7,5.1.4", "it has no release"),
    ],
)
def test_a_misspelt_parameter_or_value_is_refused_with_the_nearest_word(
    scenario, vary, said
) -> None:
    with pytest.raises(BadGrid, match=said):
        grid_of(asked(scenario, vary))


def test_a_scenario_that_is_not_there_is_refused_as_by_run() -> None:
    with pytest.raises(BadScenario, match="there is no such scenario"):
        grid_of(asked("more_members_than_quees"))


def test_what_is_set_and_varied_at_once_is_refused(short) -> None:
    with pytest.raises(BadGrid, match="both set and varied"):
        grid_of(asked(short, "queues=1..2", settings={"queues": "3"}))


def test_more_rows_than_the_limit_are_refused_before_any_is_made(short, monkeypatch) -> None:
    monkeypatch.setattr(grid, "ROWS_MAX", 10)
    with pytest.raises(BadGrid, match="3 combinations and 12 rows are too many"):
        grid_of(asked(short, "queues=1..3", seeds=range(4)))


def test_a_changed_file_makes_other_cells(short) -> None:
    before = grid_of(asked(short, "queues=1..2")).cells
    again = grid_of(asked(short, "queues=1..2")).cells
    short.write_text(SHORT.replace("10/s", "11/s"))
    after = grid_of(asked(short, "queues=1..2")).cells
    assert [cell.made_from for cell in before] == [cell.made_from for cell in again]
    assert not {cell.made_from for cell in before} & {cell.made_from for cell in after}


def test_a_changed_file_of_a_question_makes_other_cells(questions) -> None:
    before = grid_of(asked(f"{questions}:halves", "width=1..2"))
    questions.write_text(QUESTIONS + "\n# changed\n")
    after = grid_of(asked(f"{questions}:halves", "width=1..2"))
    assert before.kind == "question"
    assert not {c.made_from for c in before.cells} & {c.made_from for c in after.cells}


def test_weather_stands_for_a_plan_a_seed_unless_its_seed_is_given() -> None:
    assert grid_of(asked("weather", "brokers=2,3")).kind == "weather"
    assert grid_of(asked("weather", "brokers=2,3", settings={"seed": "7"})).kind == "scenario"
