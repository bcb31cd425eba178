"""Random filters give what a naive evaluator gives, which walks the expression for each message.

The evaluator here is written from the rules alone, and shares no code with the compiler: it knows
a parsed expression as nested tuples, and Java's exceptions as ``FAILS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.sql92.filters import compile_filter
from rocketmq_emulator.protocol.sql92.values import NotComparable
from rocketmq_emulator.protocol.versions import R_5_3_3

NAMES = ("a", "b", "Shop", "$x", "andy", "nope")
TEXTS = (
    "",
    "x",
    "xyz",
    "it's",
    "1",
    "-3",
    "2.5",
    "1e2",
    "true",
    "TRUE",
    "NaN",
    "99999999999",
    " 7",
)
WHOLE = (0, 1, 3, 250, 2**31 - 1, 2**31, 2**40)
DOUBLES = (".5", "2.5", "1e2", "7.", "1E-3")
ORDERS: dict[str, Callable[[int], bool]] = {
    ">": lambda difference: difference > 0,
    ">=": lambda difference: difference >= 0,
    "<": lambda difference: difference < 0,
    "<=": lambda difference: difference <= 0,
}


class Fails(Exception):
    """Java throws."""


# Expressions --------------------------------------------------------------------------

properties = st.sampled_from(NAMES).map(lambda name: ("property", name))
numbers = st.one_of(
    st.sampled_from(WHOLE).map(lambda number: ("whole", number)),
    st.sampled_from(DOUBLES).map(lambda image: ("double", image)),
)
signed = st.one_of(numbers, numbers.map(lambda number: ("minus", number)))
texts = st.sampled_from(TEXTS).map(lambda text: ("text", text))
ordered = st.one_of(properties, signed, properties.map(lambda one: ("minus", one)))
truths = st.sampled_from([("constant", True), ("constant", False)])
lists = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6)
words = st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"])
leaves = st.one_of(
    st.tuples(st.just("order"), st.sampled_from(list(ORDERS)), ordered, ordered),
    st.tuples(st.sampled_from(["equal", "unequal"]), properties, st.one_of(texts, signed, truths)),
    st.tuples(st.sampled_from(["equal", "unequal"]), st.one_of(texts, signed), properties),
    st.tuples(st.just("equal"), properties, properties),
    st.tuples(st.just("between"), st.booleans(), ordered, properties, ordered),
    st.tuples(st.just("in"), st.booleans(), properties, lists),
    st.tuples(st.just("search"), st.booleans(), words, properties, st.sampled_from(TEXTS)),
    st.tuples(st.just("null"), st.booleans(), st.one_of(properties, signed, texts)),
    properties.map(lambda one: ("bare", one)),
    st.sampled_from([True, False, None]).map(lambda value: ("constant", value)),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        inner.map(lambda one: ("not", one)),
        st.tuples(
            st.sampled_from(["equal", "unequal"]),
            inner.filter(lambda one: one != ("constant", None)),  # which cannot be compared
            properties,
        ),
        st.tuples(st.just("null"), st.booleans(), inner),
    ),
    max_leaves=8,
)
messages = st.dictionaries(st.sampled_from(NAMES[:-1]), st.sampled_from(TEXTS), max_size=5)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def written(tree: Any) -> str:
    """The expression as a text, with parentheses around every operand that is no leaf."""
    kind, *rest = tree
    return WRITTEN[kind](*rest)


def prefix(*, inverted: bool) -> str:
    return "NOT " if inverted else ""


WRITTEN: dict[str, Callable[..., str]] = {
    "property": str,
    "whole": str,
    "double": str,
    "text": quoted,
    "constant": lambda truth: "NULL" if truth is None else str(truth).lower(),
    "bare": written,
    "minus": lambda one: f"- {written(one)}",
    "order": lambda sign, one, other: f"{written(one)}{sign} {written(other)}",
    "equal": lambda one, other: f"{operand(one)} =/* or not */{operand(other)}",
    "unequal": lambda one, other: f"{operand(one)}<>{operand(other)}",
    "between": lambda inverted, one, low, high: (
        f"{written(one)} {prefix(inverted=inverted)}BETWEEN {written(low)} and {written(high)}"
    ),
    "in": lambda inverted, one, members: (
        f"{written(one)} {prefix(inverted=inverted)}in ({','.join(map(quoted, members))})"
    ),
    "search": lambda inverted, word, one, wanted: (
        f"{written(one)} {prefix(inverted=inverted)}{word} {quoted(wanted)}"
    ),
    "null": lambda inverted, one: f"{operand(one)} IS {prefix(inverted=inverted)}NULL",
    "not": lambda one: f"not ({written(one)})",
    "and": lambda one, other: f"({written(one)}) AND ({written(other)})",
    "or": lambda one, other: f"({written(one)}) OR ({written(other)})",
}


def operand(tree: Any) -> str:
    simple = ("property", "whole", "double", "text", "minus")
    return written(tree) if tree[0] in simple else f"({written(tree)})"


# The evaluator ------------------------------------------------------------------------


def value(tree: Any, message: dict[str, str]) -> tuple[str, Any] | None:
    """The Java type and the value of an operand, None for null."""
    kind, *rest = tree
    if kind in VALUES:
        return VALUES[kind](message, rest[0])
    truth = result(tree, message)
    return None if truth is None else ("Boolean", truth)


def text_of(message: dict[str, str], name: str) -> tuple[str, Any] | None:
    return ("String", message[name]) if name in message else None


def minus(message: dict[str, str], one: Any) -> tuple[str, Any] | None:
    inner = value(one, message)
    return (inner[0], -inner[1]) if inner and inner[0] != "String" else None


VALUES: dict[str, Callable[..., tuple[str, Any] | None]] = {
    "bare": lambda message, one: value(one, message),  # in parentheses a property is still one
    "property": text_of,
    "whole": lambda _message, number: ("Integer" if number < 2**31 else "Long", number),
    "double": lambda _message, image: ("Double", float(image)),
    "text": lambda _message, text: ("String", text),
    "minus": minus,
}


def as_number(text: str, kind: str) -> float:
    if kind == "Double":
        trimmed = text.strip()
        if not re.fullmatch(r"-?\d+(\.\d+)?(e\d+)?|NaN", trimmed):
            raise Fails
        return float(trimmed)
    limit = 2**31 if kind == "Integer" else 2**63
    if not re.fullmatch(r"-?\d+", text) or not -limit <= int(text) < limit:
        raise Fails
    return int(text)


def difference(one: tuple[str, Any], other: tuple[str, Any]) -> int:
    (left_kind, left), (right_kind, right) = one, other
    kinds = {left_kind, right_kind}
    if left_kind == "Boolean" and right_kind == "String":
        raise Fails
    if kinds == {"Boolean", "String"}:
        left = left.lower() == "true"
    elif "String" in kinds and len(kinds) > 1:
        kind = (kinds - {"String"}).pop()
        left = as_number(left, kind) if left_kind == "String" else left
        right = as_number(right, kind) if right_kind == "String" else right
    elif "Boolean" in kinds and len(kinds) > 1:
        return -1
    if left != left or right != right:  # noqa: PLR0124 - NaN is above all others
        return (left != left) - (right != right)  # noqa: PLR0124
    return (left > right) - (left < right)


def order(sign: str, left: Any, right: Any, message: dict[str, str]) -> bool | None:
    one = value(left, message)
    other = value(right, message) if one else None
    if one is None or other is None:
        return None
    if one[0] == other[0] == "String":
        one = ("Double", as_number(one[1], "Double"))
        other = ("Double", as_number(other[1], "Double"))
    return ORDERS[sign](difference(one, other))


def equality(left: Any, right: Any, message: dict[str, str]) -> bool | None:
    one, other = value(left, message), value(right, message)
    if one is None:
        return True if other is None else None
    return other is not None and (one == other or difference(one, other) == 0)


def opposite(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def both(one: bool | None, other: Callable[[], bool | None]) -> bool | None:
    if one is False:
        return False
    second = other()
    return False if second is False else None if one is None or second is None else True


def disjunction(one: bool | None, other: Callable[[], bool | None]) -> bool | None:
    return opposite(both(opposite(one), lambda: opposite(other())))  # De Morgan's law


def result(tree: Any, message: dict[str, str]) -> bool | None:
    kind, *rest = tree
    return RESULTS[kind](message, *rest)


def between(message: dict[str, str], inverted: bool, one: Any, low: Any, high: Any) -> bool | None:
    if inverted:
        below = order("<", one, low, message)
        return disjunction(below, lambda: order(">", one, high, message))
    return both(order(">=", one, low, message), lambda: order("<=", one, high, message))


def is_in(message: dict[str, str], inverted: bool, one: Any, members: list[str]) -> bool | None:
    found = value(one, message)
    return None if found is None else (found[1] in members) is not inverted


def search(message: dict[str, str], inverted: bool, word: str, one: Any, wanted: str) -> bool:
    found = value(one, message)
    if found is None or not wanted:
        return False
    text = found[1]
    places = {
        "CONTAINS": text.find(wanted) >= 0,
        "STARTSWITH": text[: len(wanted)] == wanted,
        "ENDSWITH": text[-len(wanted) :] == wanted,
    }
    return places[word] is not inverted


RESULTS: dict[str, Callable[..., bool | None]] = {
    "constant": lambda _message, truth: truth,
    "bare": lambda message, one: None if value(one, message) is None else False,
    "order": lambda message, sign, one, other: order(sign, one, other, message),
    "equal": lambda message, one, other: equality(one, other, message),
    "unequal": lambda message, one, other: opposite(equality(one, other, message)),
    "between": between,
    "in": is_in,
    "search": search,
    "null": lambda message, inverted, one: (value(one, message) is None) is not inverted,
    "not": lambda message, one: opposite(result(one, message)),
    "and": lambda message, one, other: both(result(one, message), lambda: result(other, message)),
    "or": lambda message, one, other: disjunction(
        result(one, message), lambda: result(other, message)
    ),
}


# The comparison -----------------------------------------------------------------------


@given(expressions, st.lists(messages, min_size=1, max_size=5))
def test_a_compiled_filter_gives_what_a_walk_through_its_tree_gives(
    tree: Any, sent: list[dict[str, str]]
) -> None:
    text = written(tree)
    compiled = compile_filter(text, R_5_3_3)
    for message in sent:
        wanted: bool | str | None
        try:
            wanted = result(tree, message)
        except Fails:
            wanted = "fails"
        found: bool | str | None
        try:
            found = compiled.evaluate(message)
        except NotComparable:
            found = "fails"
        assert found is wanted or found == wanted == "fails", (text, message)
        assert compiled.matches(message) is (wanted is True)
