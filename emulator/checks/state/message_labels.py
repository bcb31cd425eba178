"""What filters see of a message, and whether an SQL92 expression matches it.

A checker that asked the broker's compiled filters would share their mistakes.  So this walks the
parsed expression, once for each combination of labels, and has its own rules of unknown values;
only the grammar is shared.  It knows tags and the application's properties; an expression about
other properties, or with an operator that is not here, gives no answer.

Upstream: the evaluate methods of ComparisonExpression, LogicExpression and UnaryExpression.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.protocol.messages.properties import RESERVED, TAGS
from rocketmq_emulator.protocol.messages.subscription import BadExpression
from rocketmq_emulator.protocol.sql92.tree import (
    Comparison,
    Constant,
    LogicExpression,
    Node,
    Not,
    Property,
    UnaryInExpression,
)
from rocketmq_emulator.protocol.versions import TEXT_SEARCH_KNOWN, Release

FORMS = {  # of a text that is compared with a literal of that type
    int: re.compile(r"-?[0-9]{1,9}"),
    float: re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?"),
}
KEPT_MAX = 1_000  # combinations of labels, and expressions


class MessageLabels(NamedTuple):
    """The tags, and the application's properties as ``name=value``; None: not known."""

    tags: str
    properties: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """The labels in the text of a violation."""
        return f"the tags {self.tags!r}" + "".join(f", {each}" for each in self.properties or ())

    def without_properties(self) -> MessageLabels:
        """The same tags; the properties are not known."""
        return _labels(self.tags, None)


@functools.lru_cache(KEPT_MAX)
def _labels(tags: str, properties: tuple[str, ...] | None) -> MessageLabels:
    return MessageLabels(tags, properties)  # equal ones are one object: a queue may have many


def labels_of(fact: MessageStored) -> MessageLabels:
    """The labels of a stored message."""
    return _labels(fact.tags, fact.user_properties)


@functools.lru_cache(KEPT_MAX)
def matches(expression: str, release: str, labels: MessageLabels) -> bool | None:
    """Whether a broker of *release* delivers a message with *labels*; None: not known."""
    from rocketmq_emulator.protocol.sql92.grammar import parse  # noqa: PLC0415  # loads a parser

    try:
        text_search = Release.parse(release) >= TEXT_SEARCH_KNOWN
        return _truth(parse(expression, text_search=text_search), labels) is True
    except (BadExpression, LookupError):
        return None
    except ValueError:
        return False


def _truth(node: Node, labels: MessageLabels) -> bool | None:
    rule = _TRUTHS.get(type(node))
    if rule is None:
        raise LookupError(node)
    return rule(node, labels)


def _property(name: str, labels: MessageLabels) -> str | None:
    if name == TAGS:
        return labels.tags or None
    if name in RESERVED or labels.properties is None:
        raise LookupError(name)
    given = (each.partition("=") for each in labels.properties)
    return next((value for known, _, value in given if known == name), None)


def _not(node: Not, labels: MessageLabels) -> bool | None:
    inner = _truth(node.operand, labels)
    return None if inner is None else not inner


def _logic(node: LogicExpression, labels: MessageLabels) -> bool | None:
    """The first part that decides ends it, as in Java: later parts may fail."""
    decides, found = node.symbol == "||", set()
    for part in node.parts:
        one = _truth(part, labels)
        if one is decides:
            return one
        found.add(one)
    return None if None in found else not decides


def _is_in(node: UnaryInExpression, labels: MessageLabels) -> bool | None:
    text = _property(node.operand.name, labels)
    if text is None:
        return None
    return any(text == each for each in node.texts) != node.inverted


def _comparison(node: Comparison, labels: MessageLabels) -> bool | None:
    """A property and a literal, in this order."""
    left, right = node.left, node.right
    if not (isinstance(left, Property) and isinstance(right, Constant)):
        raise LookupError(node)  # noqa: TRY004  # there is no answer
    text, literal = _property(left.name, labels), right.value
    if literal is None:
        return text is None
    if text is None:
        return None
    order = _ORDERS[node.symbol]
    if isinstance(literal, str) and node.symbol == "==":
        return order(0 if text == literal else 1)
    form = FORMS.get(type(literal))
    if form is None:
        raise LookupError(node)
    if not form.fullmatch(text):
        raise ValueError(text)  # so does Java: the broker does not deliver the message
    number = float(text)
    return order((number > float(literal)) - (number < float(literal)))


_ORDERS: dict[str, Callable[[int], bool]] = {  # of: 1 above, 0 equal, -1 below
    "==": lambda order: order == 0,
    ">": lambda order: order == 1,
    ">=": lambda order: order != -1,
    "<": lambda order: order == -1,
    "<=": lambda order: order != 1,
}
_TRUTHS: dict[type, Callable[[Any, MessageLabels], bool | None]] = {
    Not: _not,
    LogicExpression: _logic,
    UnaryInExpression: _is_in,
    Comparison: _comparison,
}
