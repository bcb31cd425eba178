"""A parsed filter as a tree, and the checks that refuse an expression before any message is seen.

A node is made by the function of its rule, when the rule has been read; that is also when upstream
checks its operands.  ``text`` shows a node as upstream's messages do.  Nodes know their depth, so
that no later walk through a tree can exceed Python's stack.

Upstream: the create methods of ComparisonExpression, LogicExpression, UnaryExpression and
ConstantExpression; SelectorParser.asBooleanExpression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from rocketmq_emulator.protocol.messages.subscription import BadExpression
from rocketmq_emulator.protocol.sql92.values import (
    NUMBER_FORMAT,
    RUNTIME_EXCEPTION,
    Long,
    NotComparable,
    Value,
    compare,
    java_text,
)

# Ours: upstream has no limits but its stack.
DEPTH_MAX = 100  # of nodes below each other; a chain of ANDs, or of ORs, is one
BETWEEN_DEPTH_MAX = 12  # of its operand, which is evaluated twice: so each such level doubles
PARSE_EXCEPTION = "org.apache.rocketmq.filter.parser.ParseException"
_INTEGER_VALUE_MAX = 2**31 - 1
_LONG_VALUE_MAX = 2**63 - 1
_LONG_DIGITS_MAX = 19
_MESSAGE_CHARACTERS_MAX = 500  # upstream shows the whole expression


class BadFilter(BadExpression):
    """An SQL92 expression that cannot be compiled: the subscriber is at fault, nothing changed.

    ``java_class`` and ``java_message`` are those of the cause that upstream gives; the text adds
    *hint* to the message.
    """

    def __init__(self, java_class: str, java_message: str, hint: str = "") -> None:
        if len(java_message) > _MESSAGE_CHARACTERS_MAX:
            java_message = java_message[: _MESSAGE_CHARACTERS_MAX - 1] + "…"
        super().__init__(f"Invalid MessageSelector. {java_message}{hint and ' ' + hint}")
        self.java_class, self.java_message, self.hint = java_class, java_message, hint

    @property
    def remark(self) -> str:
        """The remark of a broker's reply: upstream's line, then the hint, if there is one."""
        line = f"{self.java_class}: {self.java_message}"
        return f"{line}\n{self.hint}" if self.hint else line


class FilterTooLarge(BadExpression):
    """An SQL92 expression beyond one of our limits, which the text names."""


class Constant(msgspec.Struct, frozen=True):
    """A literal.  TRUE, FALSE and NULL are boolean expressions, too."""

    value: Value
    depth: int = 1


class Property(msgspec.Struct, frozen=True):
    """The text of a property, or None.  Its name keeps its case."""

    name: str
    depth: int = 1


class Negation(msgspec.Struct, frozen=True):
    """A number with the other sign; of anything else None."""

    operand: Node
    depth: int


class Not(msgspec.Struct, frozen=True):
    """True and False exchanged; None stays."""

    operand: Node
    depth: int


class AsBoolean(msgspec.Struct, frozen=True):
    """A property where a boolean is expected: a text is never one, so False, or None."""

    operand: Property
    depth: int


class Comparison(msgspec.Struct, frozen=True):
    """``==`` or one of ``> >= < <=``."""

    symbol: str
    left: Node
    right: Node
    depth: int


class LogicExpression(msgspec.Struct):
    """All parts joined by ``&&``, or all by ``||``.

    Only the function that makes chains changes one, while no other node has it.
    """

    symbol: str
    parts: list[Node]
    depth: int


class UnaryInExpression(msgspec.Struct, frozen=True):
    """``IN`` or ``NOT IN`` a list of texts."""

    operand: Property
    texts: tuple[str, ...]
    inverted: bool
    depth: int


class TextSearch(msgspec.Struct, frozen=True):
    """``CONTAINS``, ``STARTSWITH``, ``ENDSWITH``; the symbol begins with NOT if inverted."""

    symbol: str
    operand: Node
    searched: str
    depth: int


Node: TypeAlias = (
    Constant
    | Property
    | Negation
    | Not
    | AsBoolean
    | Comparison
    | LogicExpression
    | UnaryInExpression
    | TextSearch
)


def is_boolean(node: Node) -> bool:
    """Whether the node is a boolean expression for upstream's checks."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negation)


def as_boolean(node: Node) -> Node:
    """The node where a boolean is expected.  Raises ``BadFilter``."""
    if is_boolean(node):
        return node
    if isinstance(node, Property):
        return AsBoolean(node, depth_above(node))
    message = f"Expression will not result in a boolean value: {text(node)}"
    raise BadFilter(PARSE_EXCEPTION, message)


def depth_above(*nodes: Node) -> int:
    """The depth of a node above these.  Raises ``FilterTooLarge``."""
    depth = 1 + max(node.depth for node in nodes)
    if depth > DEPTH_MAX:
        raise FilterTooLarge(
            f"an SQL92 expression nested more than {DEPTH_MAX} deep: use fewer NOT, signs and"
            " comparisons of comparisons"
        )
    return depth


# Literals -----------------------------------------------------------------------------


def decimal(image: str) -> Constant:
    """A whole number; an L at its end changes nothing.  Raises ``BadFilter`` beyond 64 bits."""
    digits = image.rstrip("lL")
    if len(digits) > _LONG_DIGITS_MAX or int(digits) > _LONG_VALUE_MAX:
        raise BadFilter(NUMBER_FORMAT, f'For input string: "{digits}"')
    number = int(digits)
    return Constant(number if number <= _INTEGER_VALUE_MAX else Long(number))


def floating(image: str) -> Constant:
    """A Double.  Raises ``BadFilter`` for 0.0, as upstream does, and beyond its range."""
    number = float(image)
    if number > sys.float_info.max:
        raise BadFilter(RUNTIME_EXCEPTION, f"{image} is greater than 1.7976931348623157E308")
    if number == 0:
        raise BadFilter(
            RUNTIME_EXCEPTION,
            f"{image} is less than 4.9E-324",
            "(RocketMQ refuses 0.0 as a constant: write 0, or compare with another value.)",
        )
    return Constant(number)


def string(image: str) -> str:
    """The text between the quotes, in which two quotes are one."""
    return image[1:-1].replace("''", "'")


# Operators ----------------------------------------------------------------------------


def negated(operand: Node) -> Node:
    """``-``, which may stand before anything."""
    return Negation(operand, depth_above(operand))


def inverted(operand: Node) -> Node:
    """``NOT``.  Raises ``BadFilter``."""
    boolean = as_boolean(operand)
    return Not(boolean, depth_above(boolean))


def joined(symbol: str, left: Node, right: Node) -> Node:
    """``AND`` or ``OR``.  Raises ``BadFilter``."""
    left, right = as_boolean(left), as_boolean(right)
    if isinstance(left, LogicExpression) and left.symbol == symbol:
        left.parts.append(right)
        left.depth = max(left.depth, depth_above(right))
        return left
    return LogicExpression(symbol, [left, right], depth_above(left, right))


def equal(left: Node, right: Node) -> Node:
    """``=``.  Raises ``BadFilter``."""
    for operand in (left, right):
        if isinstance(operand, Constant) and operand.value is None:
            raise BadFilter(
                RUNTIME_EXCEPTION, "'NULL' cannot be compared.", "Use IS NULL or IS NOT NULL."
            )
    both_constant = isinstance(left, Constant) and isinstance(right, Constant)
    if both_constant and is_boolean(left) and not is_boolean(right):
        message = f"'{text(left)}' cannot be compared with '{text(right)}'"
        raise BadFilter(RUNTIME_EXCEPTION, message)
    return Comparison("==", left, right, depth_above(left, right))


def not_equal(left: Node, right: Node) -> Node:
    """``<>``.  Raises ``BadFilter``."""
    return inverted(equal(left, right))


def ordered(symbol: str, left: Node, right: Node) -> Node:
    """``> >= < <=``.  Raises ``BadFilter`` unless constants are numbers."""
    for operand in (left, right):
        number = isinstance(operand, Constant) and isinstance(operand.value, int | float)
        if is_boolean(operand) or (isinstance(operand, Constant) and not number):
            raise BadFilter(
                RUNTIME_EXCEPTION,
                f"Value '{text(operand)}' cannot be compared.",
                "Only numbers and properties have an order.",
            )
    return Comparison(symbol, left, right, depth_above(left, right))


def is_null(operand: Node) -> Node:
    """``IS NULL``, of any expression."""
    return Comparison("==", operand, Constant(None), depth_above(operand))


def is_not_null(operand: Node) -> Node:
    """``IS NOT NULL``."""
    return inverted(is_null(operand))


def between(operand: Node, low: Node, high: Node) -> Node:
    """``BETWEEN``.  Raises ``BadFilter``, also if *low* is above *high*."""
    _check_operand_of_between(operand)
    if isinstance(low, Constant) and isinstance(high, Constant):
        _check_bounds(low.value, high.value)
    return joined("&&", ordered(">=", operand, low), ordered("<=", operand, high))


def _check_operand_of_between(operand: Node) -> None:
    if operand.depth > BETWEEN_DEPTH_MAX:
        raise FilterTooLarge(
            f"an SQL92 expression with more than {BETWEEN_DEPTH_MAX} levels before a BETWEEN: put"
            " a property or a number there"
        )


def _check_bounds(low: Value, high: Value) -> None:
    if low is None or high is None:
        raise BadFilter(RUNTIME_EXCEPTION, "Illegal values of between, values can not be null!")
    try:
        difference = compare(high, low)
    except NotComparable as error:
        raise BadFilter(error.java_class, error.java_message) from None
    if difference < 0:
        raise BadFilter(
            RUNTIME_EXCEPTION,
            f"Illegal values of between, left value({java_text(low)}) must less than or equal"
            f" to right value({java_text(high)})",
        )


def not_between(operand: Node, low: Node, high: Node) -> Node:
    """``NOT BETWEEN``.  Raises ``BadFilter``."""
    _check_operand_of_between(operand)
    return joined("||", ordered("<", operand, low), ordered(">", operand, high))


def member(operand: Node, texts: tuple[str, ...], *, inverted: bool) -> Node:
    """``IN`` and ``NOT IN``.  Raises ``BadFilter`` unless *operand* is a property."""
    if not isinstance(operand, Property):
        message = f"Expected a property for In expression, got: {text(operand)}"
        raise BadFilter(RUNTIME_EXCEPTION, message, "(NOT binds tighter: use parentheses.)")
    return UnaryInExpression(operand, texts, inverted, depth_above(operand))


def searched(symbol: str, operand: Node, searched_text: str) -> Node:
    """``CONTAINS`` and its like, of any expression."""
    return TextSearch(symbol, operand, searched_text, depth_above(operand))


# Texts --------------------------------------------------------------------------------


def text(node: Node) -> str:
    """The node as upstream's ``toString`` shows it."""
    return _TEXTS[type(node)](node)


def _text_of_constant(node: Constant) -> str:
    if isinstance(node.value, str):
        return "'" + node.value.replace("'", "''") + "'"
    shown = "NULL" if node.value is None else java_text(node.value)
    return shown.upper() if is_boolean(node) else shown


def _text_of_logic(node: LogicExpression) -> str:
    shown = "(" * (len(node.parts) - 1) + text(node.parts[0])
    return shown + "".join(f" {node.symbol} {text(part)})" for part in node.parts[1:])


def _text_of_in(node: UnaryInExpression) -> str:
    symbol = "NOT IN" if node.inverted else "IN"
    return f"{node.operand.name} {symbol} ( {', '.join(node.texts)} )"


_TEXTS: dict[type, Callable[..., str]] = {
    Constant: _text_of_constant,
    Property: lambda node: node.name,
    Negation: lambda node: f"(- {text(node.operand)})",
    Not: lambda node: f"(NOT {text(node.operand)})",
    AsBoolean: lambda node: text(node.operand),
    Comparison: lambda node: f"({text(node.left)} {node.symbol} {text(node.right)})",
    LogicExpression: _text_of_logic,
    UnaryInExpression: _text_of_in,
    TextSearch: lambda node: f"({node.symbol} {text(node.operand)})",
}
