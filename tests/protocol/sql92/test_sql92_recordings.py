"""Every recorded expression of a real RocketMQ: the same results, exceptions and messages."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.protocol.messages.subscription import SQL92
from rocketmq_emulator.protocol.sql92.filters import Filter, compile_filter
from rocketmq_emulator.protocol.sql92.tree import BadFilter
from rocketmq_emulator.protocol.sql92.values import NotComparable
from rocketmq_emulator.protocol.versions import R_4_9_7, R_5_3_3, Release
from tests.support.golden_data import cases

RELEASES = {"4.9": R_4_9_7, "5.3": R_5_3_3}
FILE = "sql92.jsonl"


def results(found: Filter, properties: list[dict[str, str]]) -> list[Any]:
    shown: list[Any] = []
    for one in properties:
        try:
            shown.append(found.evaluate(one))
        except NotComparable as error:
            shown.append({"exception": error.java_class, "message": error.java_message})
    return shown


def outcome(case: dict[str, Any], release: Release) -> dict[str, Any]:
    try:
        found = compile_filter(case["in"]["expression"], release)
    except BadFilter as error:
        cause = {"cause": error.java_class, "cause_message": error.java_message}
        kind = "org.apache.rocketmq.filter.expression.MQFilterException"
        return {"compile_error": {"exception": kind} | cause}
    return {"results": results(found, case["in"]["properties"])}


@pytest.mark.parametrize("line", RELEASES)
def test_every_recorded_expression_has_the_recorded_outcome(line: str) -> None:
    recorded = cases(FILE, "sql92", line)
    assert len(recorded) > 500
    for case in recorded:
        assert outcome(case, RELEASES[line]) == case["out"], case["id"]


@pytest.mark.parametrize("line", RELEASES)
def test_a_message_matches_only_if_the_recorded_result_is_true(line: str) -> None:
    for case in cases(FILE, "sql92", line):
        if "results" in case["out"]:
            found = compile_filter(case["in"]["expression"], RELEASES[line])
            matches = [found.matches(one) for one in case["in"]["properties"]]
            assert matches == [one is True for one in case["out"]["results"]], case["id"]


def test_the_language_has_the_recorded_name() -> None:
    assert [case["out"]["type"] for case in cases(FILE, "sql92_type")] == [SQL92]
