"""Filters of groups that subscribe by an expression (SQL92), in upstream's own file.

A heartbeat brings the expression with the version of its subscription; pulls of the group use the
compiled filter, and carry the version that they expect.  An expression that cannot be compiled is
not kept: pulls of it are told that there is no filter.  An older version never replaces a newer
one.  A filter is dead when the last member has left, or subscribes to the topic no more; a dead
one still filters, and is removed after a day.  The file is written every 10 s if it has changed.

Ours are two limits, which no group of upstream has: the filters together, of which the one that
has been dead for longest goes first, and the text that one heartbeat may have compiled: the rest
is compiled with the next heartbeats.

Upstream: ConsumerFilterManager, ConsumerFilterData, ExpressionMessageFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rocketmq_emulator.broker.tables.documents import Document
from rocketmq_emulator.protocol.bodies.groups import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterTable,
    FilterDataMapByTopic,
)
from rocketmq_emulator.protocol.messages.subscription import (
    SQL92,
    BadExpression,
    SubscriptionData,
    is_tag_type,
)
from rocketmq_emulator.protocol.sql92.bloom import BloomFilter

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig
    from rocketmq_emulator.settings.releases import Release

DOCUMENT = "consumerFilter.json"
PERSIST_INTERVAL_MS = 10_000  # BrokerController.initialize
LOADED_DEAD_MS = 30_000  # a loaded filter has been dead for as long; ConsumerFilterManager.decode
CHARACTERS_MAX = 16 * 1024 * 1024  # ours: of all expressions together
COMPILED_CHARACTERS_MAX = 64 * 1024  # ours: of new expressions in a heartbeat, about 0.1 s

ByProperties: TypeAlias = Callable[[Mapping[str, str]], bool]


class UnknownExpressionType(BadExpression):
    """There is no language of that name; only SQL92 is known besides tags."""


class ConsumerFilter(msgspec.Struct):
    """The filter of one group for one topic; times in ms."""

    topic: str
    group: str
    expression: str
    expression_type: str
    client_version: int  # the version of the subscription, a client's time in ms
    born_ms: int
    bloom: BloomFilterData
    matches: ByProperties
    dead_ms: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether no member subscribes by it.  Upstream: ConsumerFilterData.isDead."""
        return self.dead_ms >= self.born_ms

    def body(self) -> ConsumerFilterData:
        """The filter as it is saved, and shown to tools."""
        return ConsumerFilterData(
            consumer_group=self.group,
            topic=self.topic,
            expression=self.expression,
            expression_type=self.expression_type,
            born_time=self.born_ms,
            dead_time=self.dead_ms,
            dead=self.is_dead,
            bloom_filter_data=self.bloom,
            client_version=self.client_version,
        )


class ConsumerFilters:
    """The filters by group and topic, as saved on *disk*."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, note: Note, now_ms: int) -> None:
        self._release = config.parsed_release
        self._dead_ms_max = config.filter_dead_ms_max
        self._bloom = BloomFilter(config.filter_error_percent, config.filter_groups_expected)
        self._document = Document(disk, DOCUMENT, ConsumerFilterTable, self._release, note)
        self._filters: dict[str, dict[str, ConsumerFilter]] = {}  # by group and topic
        self._characters = 0  # of all expressions
        self._has_changed = False  # since it was saved
        self._compile_room, self._room_at_ms = 0, -1
        self._load(now_ms)

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """The filter of *group* for *topic*; None if its expression cannot be compiled."""
        return self._filters.get(group, {}).get(topic)

    def register(self, group: str, given: Collection[SubscriptionData], now_ms: int) -> None:
        """Take the expressions of a member's heartbeat, which names all topics of the group.

        Upstream: ConsumerFilterManager.register.
        """
        for each in given:
            if not is_tag_type(each.expression_type) and each.sub_string:
                self._register(group, each, now_ms)
        if group in self._filters:
            topics = {each.topic for each in given}
            self._make_dead(
                (kept for kept in self._filters[group].values() if kept.topic not in topics),
                now_ms,
            )

    def unregister(self, group: str, now_ms: int) -> None:
        """The last member of *group* has left.  Upstream: ConsumerFilterManager.unRegister."""
        self._make_dead(self._filters.get(group, {}).values(), now_ms)

    def reset(self, kept: Collection[str]) -> None:
        """Remove the filters of all groups but *kept*."""
        for group in self._filters.keys() - kept:
            for topic in list(self._filters[group]):
                self._remove(topic, group)
        self._save()

    def persist(self, now_ms: int) -> None:
        """Remove filters that have been dead for long, and write the file if it has changed.

        Upstream: ConsumerFilterManager.clean, ConfigManager.persist.
        """
        for kept in list(self._all()):
            if kept.is_dead and now_ms - kept.dead_ms >= self._dead_ms_max:
                self._remove(kept.topic, kept.group)
        self._save()

    # Inside ---------------------------------------------------------------------------

    def _register(self, group: str, given: SubscriptionData, now_ms: int) -> None:
        topic, known = given.topic, self.get(given.topic, group)
        if known is not None:
            if given.sub_version < known.client_version:
                return
            is_same = known.expression == given.sub_string
            is_same = is_same and known.expression_type == given.expression_type
            if given.sub_version == known.client_version or is_same:
                self._has_changed |= known.is_dead or given.sub_version > known.client_version
                known.client_version = given.sub_version
                known.dead_ms = 0
                return
        if not self._may_compile(given.sub_string, now_ms):
            return
        self._remove(topic, group)
        try:
            matches = compiled(given.sub_string, given.expression_type, self._release)
        except BadExpression:
            return  # the client learns it from its pulls
        self._keep(
            ConsumerFilter(
                topic,
                group,
                given.sub_string,
                given.expression_type,
                given.sub_version,
                now_ms,
                self._bloom.generate(f"{group}#{topic}"),
                matches,
            )
        )

    def _may_compile(self, expression: str, now_ms: int) -> bool:
        if now_ms != self._room_at_ms:
            self._compile_room, self._room_at_ms = COMPILED_CHARACTERS_MAX, now_ms
        self._compile_room -= len(expression)
        return self._compile_room >= 0

    def _make_dead(self, filters: Iterable[ConsumerFilter], now_ms: int) -> None:
        for kept in filters:
            if not kept.is_dead:
                kept.dead_ms = now_ms
                self._has_changed = True

    def _keep(self, new: ConsumerFilter) -> None:
        self._filters.setdefault(new.group, {})[new.topic] = new
        self._characters += len(new.expression) + len(new.topic) + len(new.group)
        self._has_changed = True
        while self._characters > CHARACTERS_MAX:
            first = min(self._all(), key=lambda kept: (not kept.is_dead, kept.dead_ms))
            self._remove(first.topic, first.group)

    def _remove(self, topic: str, group: str) -> None:
        gone = self._filters.get(group, {}).pop(topic, None)
        if gone is None:
            return
        self._characters -= len(gone.expression) + len(topic) + len(group)
        self._has_changed = True
        if not self._filters[group]:
            del self._filters[group]

    def _all(self) -> Iterator[ConsumerFilter]:
        for topics in self._filters.values():
            yield from topics.values()

    # The file -------------------------------------------------------------------------

    def _save(self) -> None:
        if self._has_changed:
            self._has_changed = not self._document.save(self._table())

    def _table(self) -> ConsumerFilterTable:
        topics: dict[str, dict[str, ConsumerFilterData]] = {}
        for kept in self._all():
            topics.setdefault(kept.topic, {})[kept.group] = kept.body()
        return ConsumerFilterTable(
            filter_data_by_topic={
                topic: FilterDataMapByTopic(topic=topic, group_filter_data=groups)
                for topic, groups in topics.items()
            }
        )

    def _load(self, now_ms: int) -> None:
        """Read the file; its filters are dead until a member sends a heartbeat.

        Filters of another Bloom filter are not read.  Upstream: ConsumerFilterManager.decode.
        """
        saved = self._document.load() or ConsumerFilterTable()
        found = [
            (topic, group, data)
            for topic, of in saved.filter_data_by_topic.items()
            for group, data in of.group_filter_data.items()
        ]
        if not all(self._bloom.is_valid(data.bloom_filter_data) for _, _, data in found):
            return
        for topic, group, data in found:
            self._keep(self._loaded(topic, group, data, now_ms))
        self._has_changed = False

    def _loaded(
        self, topic: str, group: str, data: ConsumerFilterData, now_ms: int
    ) -> ConsumerFilter:
        assert data.bloom_filter_data is not None, "only valid filters are loaded"
        expression, kind = data.expression or "", data.expression_type or ""
        try:
            matches = compiled(expression, kind, self._release)
        except BadExpression:  # saved by a release that knows more; upstream delivers all
            matches = _everything
        return ConsumerFilter(
            topic,
            group,
            expression,
            kind,
            data.client_version,
            data.born_time,
            data.bloom_filter_data,
            matches,
            data.dead_time or max(now_ms - LOADED_DEAD_MS, data.born_time),
        )


def _everything(_properties: Mapping[str, str]) -> bool:
    return True


def compiled(expression: str, kind: str | None, release: Release) -> ByProperties:
    """The filter by properties of an *expression* of the type *kind*.

    Raises ``BadExpression``.  Upstream: FilterFactory.get, SqlFilter.compile.
    """
    if kind != SQL92:
        raise UnknownExpressionType(f"expressions of type {kind} are unknown: {SQL92} is known")
    from rocketmq_emulator.protocol.sql92.filters import compile_filter  # noqa: PLC0415  # loads a parser

    return compile_filter(expression, release).matches
