"""``rmqemu run QUESTION``: numbers at once, without a cluster."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from rocketmq_emulator.cli.app import application
from rocketmq_emulator.scenarios.catalog.finding import find_question
from rocketmq_emulator.scenarios.plan.result import RunResult


def rmqemu(*words: str):
    return CliRunner().invoke(application("run"), ["run", *words])


def test_a_question_is_answered_with_its_numbers() -> None:
    done = rmqemu("allocation", "--seed", "3", "--set", "queues=24", "--set", "members=5")
    assert done.exit_code == 0, done.output
    shown = dict(line.split() for line in done.output.splitlines())
    assert (shown["queues_min"], shown["queues_max"], shown["moves_leave"]) == ("4", "5", "10")


def test_many_seeds_are_summed_up_and_as_json_are_rows() -> None:
    words = ("allocation", "--set", "strategy=consistent_hash", "--seeds", "1..20")
    head = rmqemu(*words).output.splitlines()[0].split()
    assert head == ["metric", "smallest", "mean", "largest"]
    rows = msgspec.json.decode(rmqemu(*words, "--json").output, type=list[RunResult])
    assert [row.seed for row in rows] == [*range(1, 21)]
    question = find_question("allocation")
    again = question.answer(question.given({"strategy": "consistent_hash"}), 7)
    assert rows[6].metrics == again.metrics


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (("--set", "strategy=circus"), "there is no strategy 'circus'", 1),
        (("--set", "member=3"), "did you mean members", 2),
        (("--release", "5.1.4"), "is a question, which runs no cluster", 2),
    ],
)
def test_what_cannot_be_answered_is_said(words, says, code) -> None:
    done = rmqemu("allocation", *words)
    assert says in done.output
    assert done.exit_code == code
