"""Questions: pure functions by name, with typed parameters, whose answers are rows."""

from __future__ import annotations

import pytest

from rocketmq_emulator.scenarios.catalog.finding import find, find_question
from rocketmq_emulator.scenarios.catalog.questions import question
from rocketmq_emulator.scenarios.catalog.strategy_judge import GroupShape, finding
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.strategies import strategy_named

MINE = """
from rocketmq_emulator.scenarios import question, scenario

@question
def doubled(seed: int, factor: float = 2.0) -> dict[str, float]:
    "A seed, times a factor"
    return {"found": seed * factor}
"""
A_SCENARIO = """
@scenario
async def nothing_happens(run) -> None:
    await run.cluster(brokers=1, topics={"orders": 1})
"""


@question
def ratio(seed: int, over: int = 1) -> dict[str, float]:
    return {"ratio": seed / over}


@question
def endless(seed: int) -> dict[str, float]:
    return {"found": float("inf")}


def test_an_answer_is_a_row_of_the_world_function() -> None:
    row = ratio.answer(ratio.given({"over": "4"}), seed=2)
    assert (row.world, row.verdict, row.metrics) == ("function", "passed", {"ratio": 0.5})
    assert (row.scenario, row.parameters, row.seed) == ("ratio", {"over": 4}, 2)


def test_a_function_that_raises_is_an_error_with_its_place() -> None:
    row = ratio.answer({"over": 0}, seed=2)
    assert row.verdict == "error"
    assert row.reason.startswith("ZeroDivisionError: ")
    assert "(at ratio, test_questions.py:" in row.reason


def test_what_is_no_finite_number_is_an_error() -> None:
    row = endless.answer({}, seed=2)
    assert row.reason.startswith("ValueError: found is inf")


def test_a_misspelt_parameter_of_a_question_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadScenario, match="no parameter 'ovr'; did you mean over"):
        ratio.given({"ovr": "3"})


def test_a_function_without_a_seed_or_a_default_is_no_question() -> None:
    with pytest.raises(TypeError, match="the first argument of a question is the seed"):
        question(lambda members=3: {})
    with pytest.raises(TypeError, match="the parameter members needs a default"):
        question(lambda seed, members: {})


def test_a_question_of_a_file_is_found_by_name_or_as_the_only_one(tmp_path) -> None:
    file = tmp_path / "mine_asks.py"
    file.write_text(MINE)
    found = find_question(f"{file}:doubled")
    assert found is not None
    assert found is find_question(str(file))
    assert (found.title, found.parameters) == ("A seed, times a factor", {"factor": 2.0})
    assert find_question(f"{file}:tripled") is None


def test_a_file_with_a_scenario_too_has_no_question_without_a_name(tmp_path) -> None:
    file = tmp_path / "mine_asks_and_runs.py"
    file.write_text(MINE + A_SCENARIO)
    assert find_question(str(file)) is None
    assert find_question(f"{file}:doubled") is not None


def test_run_says_that_a_question_is_answered_by_a_sweep() -> None:
    with pytest.raises(BadScenario, match="it is a question, which needs no cluster"):
        find("sharing")
    assert find_question("more_members_than_queues") is None


def test_sharing_answers_as_the_judge_of_strategies_does() -> None:
    sharing = find_question("sharing")
    assert sharing is not None
    given = sharing.given({"strategy": "circle", "brokers": "1", "queues": "8", "members": "3"})
    judged = finding(strategy_named("by_circle").allocate, GroupShape(1, 8, 3))
    row = sharing.answer(given, seed=1)
    assert row.metrics["moved_leave"] == judged.moved_leave == 4
    assert row.metrics["least"] == judged.least
    assert row.metrics["idle_read_only"] == judged.idle_read_only


def test_circle_is_another_name_of_by_circle() -> None:
    assert strategy_named("circle") is strategy_named("by_circle")
