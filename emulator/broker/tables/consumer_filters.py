"""Filters of groups that subscribe by an expression (SQL92), each compiled once.

A heartbeat brings the expression with the version of its subscription; pulls of the group use the
compiled filter, and carry the version that they expect.  An expression that cannot be compiled is
not kept: pulls of it are told that there is no filter.  An older version never replaces a newer
one.  A filter stays for a day after the last heartbeat of its group.

Upstream: ConsumerFilterManager, ConsumerFilterData, ExpressionMessageFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rocketmq_emulator.protocol.messages.subscription import (
    SQL92,
    BadExpression,
    SubscriptionData,
    is_tag_type,
)

if TYPE_CHECKING:
    from rocketmq_emulator.settings.releases import Release

DEAD_MS_MAX = 24 * 3_600_000  # BrokerConfig.filterDataCleanTimeSpan
FILTERS_MAX = 10_000  # ours: then the one without a heartbeat for longest goes

ByProperties: TypeAlias = Callable[[Mapping[str, str]], bool]


class UnknownExpressionType(BadExpression):
    """There is no language of that name; only SQL92 is known besides tags."""


class ConsumerFilter(msgspec.Struct):
    """The filter of one group for one topic."""

    expression: str
    expression_type: str
    client_version: int  # the version of the subscription, a client's time in ms
    heartbeat_ms: int  # when a member last sent it
    matches: ByProperties


class ConsumerFilters:
    """The filters by topic and group."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._filters: dict[tuple[str, str], ConsumerFilter] = {}

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """The filter of *group* for *topic*; None if its expression cannot be compiled."""
        return self._filters.get((topic, group))

    def register(self, group: str, given: Iterable[SubscriptionData], now_ms: int) -> None:
        """Take the expressions of a member's heartbeat.  Upstream: register."""
        for each in given:
            if not is_tag_type(each.expression_type) and each.sub_string:
                self._register(group, each, now_ms)

    def _register(self, group: str, given: SubscriptionData, now_ms: int) -> None:
        key = (given.topic, group)
        known = self._filters.get(key)
        if known is not None:
            known.heartbeat_ms = now_ms
            if given.sub_version <= known.client_version:
                return
            is_same = known.expression == given.sub_string
            if is_same and known.expression_type == given.expression_type:
                known.client_version = given.sub_version
                return
        try:
            matches = compiled(given.sub_string, given.expression_type, self._release)
        except BadExpression:
            self._filters.pop(key, None)  # the client learns it from its pulls
            return
        self._filters[key] = ConsumerFilter(
            given.sub_string, given.expression_type, given.sub_version, now_ms, matches
        )
        self._clean(now_ms)

    def _clean(self, now_ms: int) -> None:
        filters = self._filters
        dead = [k for k, kept in filters.items() if now_ms - kept.heartbeat_ms >= DEAD_MS_MAX]
        for key in dead:
            del filters[key]
        if len(filters) > FILTERS_MAX:
            del filters[min(filters, key=lambda key: filters[key].heartbeat_ms)]


def compiled(expression: str, kind: str | None, release: Release) -> ByProperties:
    """The filter by properties of an *expression* of the type *kind*.

    Raises ``BadExpression``.  Upstream: FilterFactory.get, SqlFilter.compile.
    """
    if kind != SQL92:
        raise UnknownExpressionType(f"expressions of type {kind} are unknown: {SQL92} is known")
    from rocketmq_emulator.protocol.sql92.filters import compile_filter  # noqa: PLC0415  # loads a parser

    return compile_filter(expression, release).matches
