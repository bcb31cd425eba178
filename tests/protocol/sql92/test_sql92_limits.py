"""Hostile expressions are refused by name, after little work, and never exhaust Python's stack."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from rocketmq_emulator.protocol.sql92.filters import compile_filter
from rocketmq_emulator.protocol.sql92.grammar import CHARACTERS_MAX, OPEN_MAX, TOKENS_MAX
from rocketmq_emulator.protocol.sql92.tree import (
    BETWEEN_DEPTH_MAX,
    DEPTH_MAX,
    BadFilter,
    FilterTooLarge,
)
from rocketmq_emulator.protocol.versions import R_5_3_3

CALLS_MAX = 500_000  # of Python functions, about 50 ms: a token costs about 60


def calls_while_compiling(expression: str) -> tuple[int, ValueError | None]:
    """How many Python functions are called, and the error."""
    compile_filter("warm = 'up'", R_5_3_3)  # the grammar is read once
    calls, error = 0, None

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        compile_filter(expression, R_5_3_3)
    except ValueError as caught:
        error = caught
    finally:
        sys.setprofile(before)
    return calls, error


def quoted(text: str) -> str:
    return f"'{text}', "


def between(inner: str) -> str:
    return f"-({inner} BETWEEN 1 AND 2)"


def many_betweens() -> str:
    expression = "a"
    for _ in range(8):
        expression = between(expression)
    return f"{expression} = 1"


TOO_LARGE = {
    "a long name": ("a" * 2_000_000, f"{CHARACTERS_MAX}"),
    "many terms": (" OR ".join(["a=1"] * 4000), f"{TOKENS_MAX}"),
    "many texts": (f"s IN ({quoted('x') * 3000}'x')", f"{TOKENS_MAX}"),
    "parentheses": ("(" * 30_000 + "a", f"{OPEN_MAX}"),
    "closed parentheses": ("(" * 1000 + "a" + ")" * 1000, f"{OPEN_MAX}"),
    "NOTs": ("NOT " * 8000 + "a", f"{OPEN_MAX}"),
    "fewer NOTs": ("NOT " * 101 + "a", f"{DEPTH_MAX}"),
    "signs": ("+" * 30_000 + "1", f"{OPEN_MAX}"),
    "dashes that are no comment": ("-" * 32_000, f"{OPEN_MAX}"),
    "comparisons of comparisons": ("a" + "=1" * 2000, f"{DEPTH_MAX}"),
    "IS NULLs": ("a" + " IS NULL" * 1000, f"{DEPTH_MAX}"),
    "BETWEENs, each evaluated twice": (many_betweens(), f"{BETWEEN_DEPTH_MAX}"),
}
BAD = {
    "an open text of quotes": "s = " + "'" * 32_001,
    "an open comment of stars": "a = /*" + "*" * 32_000,
    "only comments": "/**/" * 8000,
    "a long number": "a = " + "1" * 32_000,
    "zeros": "a = " + "0" * 30_000 + "." + "0" * 2000,
    "the last of many terms": " AND ".join(["a=1"] * 1200) + " AND 'x' > 1",
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_an_expression_beyond_a_limit_is_refused_with_its_name(name: str) -> None:
    expression, limit = TOO_LARGE[name]
    calls, error = calls_while_compiling(expression)
    assert isinstance(error, FilterTooLarge)
    assert limit in str(error)
    assert calls < CALLS_MAX


@pytest.mark.parametrize("name", BAD)
def test_a_long_and_wrong_expression_is_refused_after_little_work(name: str) -> None:
    calls, error = calls_while_compiling(BAD[name])
    assert isinstance(error, BadFilter)
    assert len(str(error)) < 1000
    assert calls < CALLS_MAX


def test_expressions_just_within_the_limits_work() -> None:
    deep = "NOT " * (DEPTH_MAX - 2) + "(a = 1)"
    open_parts = "(" * 400 + "a = 1" + ")" * 400
    chain = " AND ".join(["a = 1"] * (TOKENS_MAX // 4))
    texts = f"a IN ({quoted('x') * 2400}'1')"
    for expression in (deep, open_parts, chain, texts):
        assert compile_filter(expression, R_5_3_3).matches({"a": "1"})
