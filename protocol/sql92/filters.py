"""A filter: an expression compiled to one Python closure over a message's properties.

The types of constants are known when an expression is compiled, so a comparison of a property
with a constant becomes a function for just these types.  A boolean is True, False or None: None
is SQL's unknown, which upstream's operators give in their own way (``a = 1`` is None without an
``a``, ``1 = a`` is False).

Upstream: the evaluate methods of ComparisonExpression, LogicExpression and UnaryExpression;
ExpressionMessageFilter.isMatchedByCommitLog.
"""

from __future__ import annotations

import functools
import math
import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rocketmq_emulator.protocol.sql92.grammar import parse
from rocketmq_emulator.protocol.sql92.tree import (
    AsBoolean,
    Comparison,
    Constant,
    LogicExpression,
    Negation,
    Node,
    Not,
    Property,
    TextSearch,
    UnaryInExpression,
)
from rocketmq_emulator.protocol.sql92.values import (
    Long,
    NotComparable,
    Value,
    compare,
    compare_texts_as_doubles,
    parse_double,
    parse_integer,
    parse_long,
)
from rocketmq_emulator.protocol.versions import TEXT_SEARCH_KNOWN, Release

FILTERS_KEPT_MAX = 100  # without a user; upstream keeps as many: SelectorParser.PARSE_CACHE

Get: TypeAlias = Callable[[str], str | None]
Evaluate: TypeAlias = Callable[[Get], Any]  # a Value; of a boolean expression a bool or None


class Filter:
    """One compiled expression; ``compile_filter`` makes it.  It has no state."""

    __slots__ = ("__weakref__", "_evaluate", "expression")

    def __init__(self, expression: str, evaluate: Evaluate) -> None:
        self.expression = expression
        self._evaluate = evaluate

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a broker delivers the message: not if the result is unknown or an error."""
        try:
            return self._evaluate(properties.get) is True
        except NotComparable:
            return False

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """The result, None if it is unknown.  Raises ``NotComparable``."""
        result: bool | None = self._evaluate(properties.get)
        return result


def compile_filter(expression: str, release: Release) -> Filter:
    """The filter of an expression, in the language of *release*; equal ones share one filter.

    Raises ``BadFilter`` for an error in the expression, ``FilterTooLarge`` beyond our limits.
    Upstream: SqlFilter.compile.
    """
    return _compiled(expression, release >= TEXT_SEARCH_KNOWN)


def check_readable(expression: str) -> None:
    """Raises as ``compile_filter`` for an expression that no release can read.

    For clients, whose brokers deliver every message to a pull that carries a wrong expression.
    """
    compile_filter(expression, TEXT_SEARCH_KNOWN)


_in_use: weakref.WeakValueDictionary[tuple[str, bool], Filter] = weakref.WeakValueDictionary()


@functools.lru_cache(FILTERS_KEPT_MAX)
def _compiled(expression: str, text_search: bool) -> Filter:
    found = _in_use.get((expression, text_search))
    if found is None:
        found = Filter(expression, _closure(parse(expression, text_search=text_search)))
        _in_use[expression, text_search] = found
    return found


def _closure(node: Node) -> Evaluate:
    return _CLOSURES[type(node)](node)


def _constant(node: Constant) -> Evaluate:
    value = node.value
    return lambda _get: value


def _property(node: Property) -> Evaluate:
    name = node.name
    return lambda get: get(name)


def _negation(node: Negation) -> Evaluate:
    if (number := _constant_number(node)) is not None:
        return lambda _get: number
    operand = _closure(node.operand)

    def unknown(get: Get) -> None:
        operand(get)  # it may fail

    return unknown


def _constant_number(node: Node) -> int | float | None:
    """The number of a literal, or of one behind signs."""
    if isinstance(node, Negation):
        number = _constant_number(node.operand)
        return None if number is None else type(number)(-number)
    if isinstance(node, Constant) and type(node.value) in _PARSERS:
        assert isinstance(node.value, int | float)
        return node.value
    return None


def _not(node: Not) -> Evaluate:
    operand = _closure(node.operand)

    def inverted(get: Get) -> bool | None:
        value = operand(get)
        return None if value is None else not value

    return inverted


def _as_boolean(node: AsBoolean) -> Evaluate:
    name = node.operand.name
    return lambda get: None if get(name) is None else False


def _logic(node: LogicExpression) -> Evaluate:
    """A value decides the result, and ends the evaluation; else one unknown makes it unknown."""
    parts = tuple(map(_closure, node.parts))
    decisive = node.symbol == "||"

    def chained(get: Get) -> bool | None:
        unknown = False
        for part in parts:
            value: Value = part(get)
            if value is decisive:
                return decisive
            if value is None:
                unknown = True
        return None if unknown else not decisive

    return chained


def _in(node: UnaryInExpression) -> Evaluate:
    name, texts, inverted = node.operand.name, frozenset(node.texts), node.inverted

    def member(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else (text in texts) is not inverted

    return member


_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _text_search(node: TextSearch) -> Evaluate:
    """Never unknown: False for a missing property, and for an empty text, NOT or not."""
    inverted = node.symbol.startswith("NOT ")
    search = _SEARCHES[node.symbol.removeprefix("NOT ")]
    searched, operand = node.searched, _closure(node.operand)
    if not searched:
        return lambda _get: False

    def found(get: Get) -> bool:
        text = operand(get)
        return isinstance(text, str) and search(text, searched) is not inverted

    return found


# Comparisons --------------------------------------------------------------------------


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_MIRRORED = {"==": "==", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_PARSERS: dict[type, Callable[[str], float]] = {
    int: parse_integer,
    Long: parse_long,
    float: parse_double,
}


def _comparison(node: Comparison) -> Evaluate:
    """The special cases are what filters are made of; the general one is any two operands."""
    symbol, left, right = node.symbol, node.left, node.right
    if isinstance(left, Property):
        if isinstance(right, Constant) and isinstance(right.value, str):
            return _text_equals(left.name, right.value, missing=None)
        if (number := _constant_number(right)) is not None:
            return _compared_number(left.name, symbol, number, missing=None)
    if isinstance(right, Property) and (number := _constant_number(left)) is not None:
        missing = False if symbol == "==" else None  # upstream's equality is not symmetric
        return _compared_number(right.name, _MIRRORED[symbol], number, missing=missing)
    general = _equality if symbol == "==" else _order
    return general(_closure(left), _closure(right), _TESTS[symbol])


def _text_equals(name: str, wanted: str, *, missing: bool | None) -> Evaluate:
    def equals(get: Get) -> bool | None:
        text = get(name)
        return missing if text is None else text == wanted

    return equals


def _compared_number(name: str, symbol: str, number: float, *, missing: bool | None) -> Evaluate:
    test, parse_number = _TESTS[symbol], _PARSERS[type(number)]

    def compared(get: Get) -> bool | None:
        text = get(name)
        return missing if text is None else test(parse_number(text), number)

    def compared_double(get: Get) -> bool | None:
        text = get(name)
        if text is None:
            return missing
        value = parse_double(text)
        return test(value if value == value else math.inf, number)  # noqa: PLR0124 - NaN

    # In Java's order NaN is above all numbers, and a literal is never infinite.
    return compared_double if isinstance(number, float) else compared


def _equality(left: Evaluate, right: Evaluate, _test: object) -> Evaluate:
    def equality(get: Get) -> bool | None:
        one, other = left(get), right(get)
        if one is None or other is None:
            return True if one is other else None if one is None else False
        return compare(one, other) == 0

    return equality


def _order(left: Evaluate, right: Evaluate, test: Callable[[Any, Any], bool]) -> Evaluate:
    def order(get: Get) -> bool | None:
        one: Value = left(get)
        if one is None:
            return None
        other: Value = right(get)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return test(compare_texts_as_doubles(one, other), 0)
        return test(compare(one, other), 0)

    return order


_CLOSURES: dict[type, Callable[..., Evaluate]] = {
    Constant: _constant,
    Property: _property,
    Negation: _negation,
    Not: _not,
    AsBoolean: _as_boolean,
    Comparison: _comparison,
    LogicExpression: _logic,
    UnaryInExpression: _in,
    TextSearch: _text_search,
}
