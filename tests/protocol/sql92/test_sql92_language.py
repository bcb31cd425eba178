"""What the recordings do not show: where an expression ends, Java's numbers, texts of errors."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import weakref

import pytest

from rocketmq_emulator.protocol.messages.subscription import BadExpression
from rocketmq_emulator.protocol.sql92.filters import FILTERS_KEPT_MAX, compile_filter
from rocketmq_emulator.protocol.sql92.tree import BadFilter
from rocketmq_emulator.protocol.sql92.values import NotComparable, parse_double, parse_integer
from rocketmq_emulator.protocol.versions import R_4_9_7, R_5_3_3, Release


def evaluate(expression: str, **properties: str) -> bool | None:
    return compile_filter(expression, R_5_3_3).evaluate(properties)


def error_of(expression: str) -> BadFilter:
    with pytest.raises(BadFilter) as caught:
        compile_filter(expression, R_5_3_3)
    return caught.value


# The text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "a = 1 b",
        "a = 1 ) OR",
        "a = 1 b !",  # read no further than the token that ends it
        "a = 1L",
        "a = 1 -- without a line's end these are two signs",
        "a = -- 5 is a comment\n1",
        "a = /* * / ** */ 1",
        "a/**/=/**/1",
        "A <> 1 AND a = 1 OR nope",  # names keep their case
        "a nOt /* far */ iN ('2', '3')",
        "a = - - - -1",
        "+a = +(1)",
        "NOT (a = 2)",
        "andy IS NULL AND a = 1",
        "$b IS NULL AND _c IS NULL AND a = 1",
        "a > .5 AND a < 1.e1 AND a < 15e-1",
        "s = 'it''s' AND t = '''' AND a = 1",
    ],
)
def test_an_expression_is_read_as_upstream_reads_it(expression: str) -> None:
    properties = {"s": "it's", "t": "'", "a": "1"}
    if expression.startswith("A"):
        properties["A"] = "2"
    assert compile_filter(expression, R_5_3_3).evaluate(properties) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a NOT b", 'Encountered " "NOT" "NOT "" at line 1, column 3.'),
        ("a =\r\n\t= 1", 'Encountered " "=" "= "" at line 2, column 9.'),
        ("+(a = ) OR b", 'Encountered " "+" "+ "" at line 1, column 1.'),
        ("'\U0001f600' =)", 'Encountered " ")" ") "" at line 1, column 7.'),
        ("a ! b", 'Lexical error at line 1, column 3.  Encountered: "!" (33), after : ""'),
        ("a !", 'Lexical error at line 1, column 4.  Encountered: <EOF> after : ""'),
        ("a\n/", 'Lexical error at line 2, column 2.  Encountered: <EOF> after : ""'),
    ],
)
def test_a_syntax_error_has_upstreams_text_and_place(expression: str, message: str) -> None:
    assert error_of(expression).java_message == message


def test_a_syntax_error_lists_what_could_have_followed() -> None:
    assert str(error_of("(a = 1")).endswith("Was expecting one of: ), OR")
    assert "single quotes" in str(error_of('a = "x"'))
    assert str(error_of("a != 1")).endswith("Unequal is written <>.")
    assert isinstance(error_of("a ="), BadExpression)


def test_a_long_message_is_cut() -> None:
    error = error_of("a = '" + "x" * 5000 + "' > 1")
    assert len(error.java_message) == 500
    assert error.java_message.endswith("…")


def test_a_search_in_texts_is_known_since_5_1_3() -> None:
    expression = "s CONTAINS 'x'"
    assert compile_filter(expression, Release(5, 1, 3)).evaluate({"s": "axb"}) is True
    # Before, CONTAINS is the name of a property, which ends the expression.
    assert compile_filter(expression, Release(5, 1, 2)).evaluate({"s": "axb"}) is False
    assert compile_filter("contains = 'x'", R_4_9_7).matches({"contains": "x"})


# Values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1d", 1.0),
        (" 1.5F\n", 1.5),
        ("-Infinity", -math.inf),
        ("+.5e1", 5.0),
        ("1.", 1.0),
        ("0x1.8p1", 3.0),
        ("-0X.8P0d", -0.5),
        ("0x1p99999", math.inf),
        ("1e999", math.inf),
    ],
)
def test_javas_forms_of_a_double_are_numbers(text: str, number: float) -> None:
    assert parse_double(text) == number


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "empty String"),
        ("  ", "empty String"),
        (" 1_0 ", 'For input string: "1_0"'),
        ("inf", 'For input string: "inf"'),
        ("nan", 'For input string: "nan"'),
        ("NaNd", 'For input string: "NaNd"'),
        ("0x1", 'For input string: "0x1"'),
        ("\u0661", 'For input string: "\u0661"'),
        ("1L", 'For input string: "1L"'),
    ],
)
def test_other_texts_are_no_doubles(text: str, shown: str) -> None:
    with pytest.raises(NotComparable) as caught:
        parse_double(text)
    assert caught.value.java_message == f"java.lang.NumberFormatException: {shown}"


def test_an_integer_is_any_decimal_digits_within_32_bits() -> None:
    assert parse_integer("+0012") == 12
    assert parse_integer("-2147483648") == -(2**31)
    assert parse_integer("\u0661\u0662") == 12
    for text in ("2147483648", "-", "", "1_0", " 1", "\U0001d7ce", "\u00b2", "9" * 5000):
        with pytest.raises(NotComparable):
            parse_integer(text)


def test_a_constant_beyond_32_bits_compares_as_long() -> None:
    assert evaluate("a = 2147483648", a="2147483648") is True
    assert evaluate("a < -2147483649", a="-9223372036854775808") is True
    with pytest.raises(NotComparable):
        evaluate("a > 2147483647", a="2147483648")


def test_nan_is_above_every_number() -> None:
    assert evaluate("a > 1.5", a="NaN") is True
    assert evaluate("a <= 1.5", a="NaN") is False
    assert evaluate("1.5 < a", a="NaN") is True
    assert evaluate("a >= b", a="NaN", b="NaN") is True
    assert evaluate("a < b", a="-0.0", b="0.0") is True


def test_equality_is_not_symmetric_if_a_property_is_missing() -> None:
    assert evaluate("a = 1") is None
    assert evaluate("1 = a") is False
    assert evaluate("a = b") is True
    assert evaluate("a = b", a="") is False


def test_a_failed_comparison_carries_javas_exception() -> None:
    with pytest.raises(NotComparable) as caught:
        evaluate("TRUE = a", a="true")
    assert caught.value.java_class == "java.lang.ClassCastException"
    assert not compile_filter("TRUE = a", R_5_3_3).matches({"a": "true"})


def test_a_decided_chain_ends_before_a_failing_part() -> None:
    assert evaluate("b = 'x' OR a > 1", a="no number", b="x") is True
    assert evaluate("b = 'x' AND a > 1", a="no number", b="y") is False
    with pytest.raises(NotComparable):
        evaluate("c = 'x' AND a > 1", a="no number")


# Filters ------------------------------------------------------------------------------


def test_equal_expressions_share_a_filter_within_a_language() -> None:
    one = compile_filter("a = 77", R_5_3_3)
    assert compile_filter("a = 77", Release(5, 1, 3)) is one
    assert compile_filter("a = 77", R_4_9_7) is not one


def test_filters_that_nobody_uses_are_forgotten_beyond_the_limit() -> None:
    used, unused = compile_filter("a = 78", R_5_3_3), weakref.ref(compile_filter("a", R_5_3_3))
    assert unused() is not None
    for number in range(FILTERS_KEPT_MAX):
        compile_filter(f"b = {number}", R_5_3_3)
    gc.collect()
    assert unused() is None
    assert compile_filter("a = 78", R_5_3_3) is used, "users of equal expressions share one"


def test_the_parser_library_is_imported_at_the_first_expression() -> None:
    program = (
        "import sys; from rocketmq_emulator.protocol.sql92.filters import compile_filter as c;"
        "from rocketmq_emulator.protocol.versions import R_5_3_3 as r;"
        "before = 'lark' in sys.modules; c('a = 1', r); print(before, 'lark' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["False", "True"]
