"""Subscriptions: expressions, tags codes, and incomplete JSON of some clients."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.java.java_convert import convert
from rocketmq_emulator.protocol.messages.subscription import (
    SQL92,
    TAG,
    TAGS_MAX,
    BadExpression,
    SubscriptionData,
    TooManyTags,
    build_subscription,
    by_sql,
    code_filter,
    expression_text,
    is_tag_type,
    matches_tag,
    tag_code,
    typed_expression,
)
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]


def seen(data: SubscriptionData) -> dict[str, Any]:
    return {
        "topic": data.topic,
        "sub_string": data.sub_string,
        "tags": set(data.tags_set),
        "codes": set(data.code_set),
        "expression_type": data.expression_type,
        "class_filter_mode": data.class_filter_mode,
    }


def check(case: dict[str, Any], *arguments: Any) -> None:
    want = case["out"]
    if "exception" in want:
        with pytest.raises(BadExpression) as caught:
            build_subscription(*arguments)
        assert str(caught.value) == want["message"], case["id"]
    else:
        sets = {name: set(want[name]) for name in ("tags", "codes")}
        assert seen(build_subscription(*arguments)) == want | sets, case["id"]


@pytest.mark.parametrize("line", LINES)
def test_a_tag_expression_is_parsed_as_upstream_parses_it(line: str) -> None:
    for case in cases("subscription.jsonl", "build_subscription", line):
        check(case, case["in"]["topic"], case["in"]["expression"])


@pytest.mark.parametrize("line", LINES)
def test_an_expression_with_a_type_is_parsed_as_upstream_parses_it(line: str) -> None:
    for case in cases("subscription.jsonl", "build_typed", line):
        check(case, case["in"]["topic"], case["in"]["expression"], case["in"]["type"])


@pytest.mark.parametrize("line", LINES)
def test_which_expression_types_mean_tags(line: str) -> None:
    for case in cases("subscription.jsonl", "is_tag_type", line):
        assert is_tag_type(case["in"]["type"]) == case["out"]


@pytest.mark.parametrize("line", LINES)
def test_the_broker_sends_what_upstream_sends(line: str) -> None:
    for case in cases("subscription.jsonl", "match_tags_code", line):
        expression = case["in"]["expression"]
        is_sql = expression == "SQL"
        data = build_subscription(
            "T", "a > 1" if is_sql else expression, SQL92 if is_sql else None
        )
        mode = case["in"]["class_filter_mode"]
        passes = code_filter(msgspec.structs.replace(data, class_filter_mode=mode))
        want = case["out"]["by_consume_queue"]
        assert [passes(code) for code in case["in"]["tags_codes"]] == want, case["id"]


@pytest.mark.parametrize("line", LINES)
def test_which_subscriptions_are_the_same(line: str) -> None:
    for case in cases("subscription.jsonl", "subscription_equality", line):
        given_ = [
            build_subscription(one["topic"], one["expression"], one["type"], one["version"])
            for one in case["in"]["subscriptions"]
        ]
        assert [[a == b for b in given_] for a in given_] == case["out"]["equals"]


def test_a_careless_client_s_subscription_is_still_read() -> None:
    text = b'{"topic":"T","subString":"A","tagsSet":["A"],"codeSet":["65"],"subVersion":"17"}'
    data = msgspec.json.decode(text, type=SubscriptionData, strict=False)
    assert data == build_subscription("T", "A", sub_version=17)


def test_absent_and_null_members_mean_everything() -> None:
    data = convert({"topic": "T", "tagsSet": None, "expressionType": None}, SubscriptionData)
    assert data == build_subscription("T", "*")
    assert code_filter(data)(12345)
    assert matches_tag(data, None)


def test_a_subscription_has_the_json_of_upstreams_heartbeat() -> None:
    data = build_subscription("T", "TagB || TagA", sub_version=1_700_000_000_000)
    assert msgspec.to_builtins(data) == {
        "classFilterMode": False,
        "codeSet": (2598919, 2598920),
        "expressionType": "TAG",
        "subString": "TagB || TagA",
        "subVersion": 1_700_000_000_000,
        "tagsSet": ("TagA", "TagB"),
        "topic": "T",
    }


def test_the_client_tells_tags_apart_that_share_a_code() -> None:
    data = build_subscription("T", "Aa")
    assert tag_code("Aa") == tag_code("BB")
    assert code_filter(data)(tag_code("BB"))
    assert not matches_tag(data, "BB")
    assert matches_tag(data, "Aa")


@given(st.lists(st.text("ab |", min_size=1), min_size=1))
def test_every_tag_named_is_sent(tags: list[str]) -> None:
    expression = "||".join(tags)
    try:
        data = build_subscription("T", expression)
    except BadExpression:
        assert not expression.strip("|")
        return
    assert all(code_filter(data)(tag_code(tag)) for tag in data.tags_set)


def test_more_tags_than_a_pull_may_cost_are_refused_with_the_limit() -> None:
    assert build_subscription("T", "||".join(["tag"] * TAGS_MAX)).tags_set == ("tag",)
    with pytest.raises(TooManyTags, match=f"the limit is {TAGS_MAX}"):
        build_subscription("T", "||".join(["tag"] * (TAGS_MAX + 1)))


@pytest.mark.parametrize("pair", [("TagA || TagB", TAG), ("price > 5", SQL92), ("*", TAG)])
def test_an_expression_and_its_type_are_one_text_in_plans_and_facts(pair) -> None:
    assert typed_expression(expression_text(*pair)) == pair
    assert expression_text(*by_sql("a > 1")) == "SQL92: a > 1"
