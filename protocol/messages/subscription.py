"""Subscriptions of a group to a topic: all messages, some tags, or an expression.

The broker compares numbers (a tag's hash code, kept in the consume queue), the client
then compares texts, because two tags may share a number.  The number must be Java's hash code
exactly: ``h = 31 * h + unit`` over UTF-16 code units, wrapping as an int32.

Upstream: SubscriptionData, FilterAPI, ExpressionMessageFilter, ExpressionType.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable

import msgspec

from rocketmq_emulator.protocol.error_families import Misuse

SUB_ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
NEEDS_PROPERTY_FILTER = "brokers filter by SQL92 with the setting enablePropertyFilter=true"
TAGS_MAX = 10_000  # ours: of one subscription
_TAG_SEPARATOR = "||"
_JAVA_BLANKS = "".join(map(chr, range(33)))  # the characters that String.trim removes


class BadExpression(Misuse, ValueError):
    """An expression that cannot be parsed: the subscriber is at fault, nothing was changed."""

    @property
    def remark(self) -> str:
        """The remark of a broker's reply that refuses the expression."""
        return str(self)


class TooManyTags(BadExpression):
    """More than ``TAGS_MAX``."""


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One subscription as heartbeats carry it.

    Tags and codes are sets upstream.  Here they are sorted, so that equal sets compare as equal
    and every run writes the same bytes.  Two subscriptions to one topic differ in
    ``sub_version``, the time in ms at which the client built it.
    """

    topic: str = ""
    sub_string: str = SUB_ALL
    tags_set: tuple[str, ...] = ()
    code_set: tuple[int, ...] = ()
    sub_version: int = 0
    expression_type: str = TAG
    class_filter_mode: bool = False

    def __post_init__(self) -> None:
        force = msgspec.structs.force_setattr
        if len(self.tags_set) > 1:  # most subscriptions are to one tag, or all
            force(self, "tags_set", tuple(sorted(set(self.tags_set))))
        if len(self.code_set) > 1:
            force(self, "code_set", tuple(sorted(set(self.code_set))))


def is_tag_type(expression_type: str | None) -> bool:
    """Whether messages are filtered by tags: the default for a subscription without a type.

    Upstream: ExpressionType.isTagType.
    """
    return not expression_type or expression_type == TAG


def build_subscription(
    topic: str, expression: str | None, expression_type: str | None = TAG, sub_version: int = 0
) -> SubscriptionData:
    """The subscription of ``*``, of ``TagA || TagB``, or of an expression of another type.

    Raises ``BadExpression`` when a list of tags holds none or too many, or another type has
    no expression.  Upstream: FilterAPI.buildSubscriptionData, FilterAPI.build.
    """
    if expression_type is not None and expression_type != TAG:
        if not expression:
            raise BadExpression(f"Expression can't be null! {expression_type}")
        return SubscriptionData(
            topic, expression, sub_version=sub_version, expression_type=expression_type
        )
    if not expression or expression == SUB_ALL:
        return SubscriptionData(topic, sub_version=sub_version)
    tags = _split_tags(expression)
    codes = tuple(map(tag_code, tags))
    return SubscriptionData(topic, expression, tags, codes, sub_version)


def _split_tags(expression: str) -> tuple[str, ...]:
    if (count := expression.count(_TAG_SEPARATOR)) >= TAGS_MAX:
        raise TooManyTags(f"a subscription to {count + 1} tags: the limit is {TAGS_MAX}")
    parts = expression.split(_TAG_SEPARATOR)
    if not any(parts):
        raise BadExpression("subString split error")
    return tuple(tag for part in parts if (tag := part.strip(_JAVA_BLANKS)))


def by_sql(expression: str) -> tuple[str, str]:
    """The expression with its type, as subscriptions take it.  Upstream: MessageSelector.bySql."""
    return expression, SQL92


_SQL92_MARK = f"{SQL92}: "


def typed_expression(text: str) -> tuple[str, str]:
    """The expression and its type, of a text such as ``TagA || TagB`` or ``SQL92: price > 5``.

    Plans of scenarios and facts have an expression as one text.
    """
    if text.startswith(_SQL92_MARK):
        return text.removeprefix(_SQL92_MARK), SQL92
    return text, TAG


def expression_text(expression: str, kind: str) -> str:
    """The text of which ``typed_expression`` makes *expression* and *kind*."""
    return expression if is_tag_type(kind) else f"{kind}: {expression}"


def code_filter(subscription: SubscriptionData) -> Callable[[int | None], bool]:
    """The broker's filter: whether a message with this tags code may be sent.

    An entry without a code passes; all pass if the subscription does not filter by tags.
    Upstream: ExpressionMessageFilter.isMatchedByConsumeQueue.
    """
    takes_all = (
        subscription.class_filter_mode
        or not is_tag_type(subscription.expression_type)
        or subscription.sub_string == SUB_ALL
    )
    if takes_all:
        return _match_all
    codes = frozenset(subscription.code_set)
    return lambda code: code is None or to_int32(code) in codes


def matches_tag(subscription: SubscriptionData, tag: str | None) -> bool:
    """The client's filter of the messages it pulled, by the tag's text.

    Upstream: PullAPIWrapper.processPullResult.
    """
    return not filters_tags(subscription) or tag in subscription.tags_set


def filters_tags(subscription: SubscriptionData) -> bool:
    """Whether the client must filter the messages that it pulled."""
    return bool(subscription.tags_set) and not subscription.class_filter_mode


def _match_all(_code: int | None) -> bool:
    return True


# Tag codes ----------------------------------------------------------------------------


_TAGS_KEPT_MAX = 4096


def tag_code(tag: str | None) -> int:
    """The tags code of a TAGS property, 0 when a message has none.

    Upstream: MessageExtBrokerInner.tagsString2tagsCode.
    """
    return _cached_hash(tag) if tag else 0


def java_hash(text: str, before: int = 0) -> int:
    """``text.hashCode()`` as Java computes it, a signed 32-bit number.

    *before* is the hash of the text in front of it: ``java_hash("bc", java_hash("a"))`` is that
    of ``abc``.
    """
    code = before
    for unit in _utf16_units(text):
        code = 31 * code + unit & 0xFFFFFFFF
    return to_int32(code)


_cached_hash = functools.lru_cache(_TAGS_KEPT_MAX)(java_hash)


def to_int32(number: int) -> int:
    """The low 32 bits as Java's ``int`` shows them."""
    return (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def _utf16_units(text: str) -> bytes | tuple[int, ...]:
    if text.isascii():
        return text.encode()  # one byte is one unit
    units = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(units) // 2}H", units)
