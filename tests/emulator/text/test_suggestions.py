"""Suggestions for unknown names."""

from __future__ import annotations

import pytest

from rocketmq_emulator.text.suggestions import did_you_mean, nearest, nearest_names, suggestion

FAULTS = ("kill", "pause", "stop")


@pytest.mark.parametrize(("name", "found"), [("kil", "kill"), ("stopp", "stop"), ("xyz", "")])
def test_the_nearest_name_is_one_that_is_like_it(name: str, found: str) -> None:
    assert nearest(name, iter(FAULTS)) == found


def test_the_most_similar_names_come_first() -> None:
    known = ["lost", "lost.billing", "lost.billing2", "stuck"]
    assert nearest_names("lost.biling", known, 2) == ["lost.billing", "lost.billing2"]


def test_a_sentence_ends_with_the_nearest_name_or_with_all() -> None:
    assert did_you_mean("kil", iter(FAULTS)) == "did you mean kill?"
    assert did_you_mean("xyz", iter(FAULTS)) == "there are kill, pause, stop"


def test_words_before_the_question_belong_to_it_alone() -> None:
    assert did_you_mean("kil", FAULTS, before="; ", otherwise="") == "; did you mean kill?"
    assert did_you_mean("xyz", FAULTS, before="; ", otherwise="") == ""


def test_a_suggestion_names_a_dozen_at_most() -> None:
    assert suggestion("kil", FAULTS) == "; did you mean kill?"
    assert suggestion("xyz", ["stop", "kill"]) == "; there are kill, stop"
    assert suggestion("xyz", ["kill"]) == "; there is kill"
    assert suggestion("xyz", []) == "; there is none"
    many = suggestion("xyz", [f"n{number:02}" for number in range(13)])
    assert many.endswith("n11 …")
