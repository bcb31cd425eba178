"""Uses of RocketMQ that it accepts in silence although they are almost surely mistakes.

A table of misuses, pure functions that find them in what a broker or a client knows anyway, and
``Misuses``, which reports each once.  What is found changes no request, no reply and no message.

Upstream is silent about them: ConsumerManager.registerConsumer replaces a subscription,
FilterAPI.buildSubscriptionData splits at ``||`` only, ScheduleMessageService lowers a level.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from rocketmq_emulator.protocol.messages.names import is_retry_topic
from rocketmq_emulator.protocol.messages.properties import (
    DELAY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    property_of,
)
from rocketmq_emulator.protocol.messages.subscription import (
    SUB_ALL,
    SubscriptionData,
    filters_tags,
    is_tag_type,
)

KEPT_MAX = 200  # misuses of one process; later ones are not reported
WATCHED_MAX = 1_000  # subscriptions to tags
UNMATCHED_MIN = 10  # messages in a row before a warning: the first ones may be meant for others
DETAIL_CHARS_MAX = 200


class MisuseKind(NamedTuple):
    """A row of the table; ``client_warns``: the clients of this project report it themselves."""

    sentence: str  # with the fields of a ``FoundMisuse`` in braces
    cure: str
    client_warns: bool = False


MISUSES: Mapping[str, MisuseKind] = {
    "subscriptions_differ": MisuseKind(
        "members of group {group} subscribe differently to {topic}: {client} {detail}; each "
        "heartbeat replaces the subscription of the group, so messages are lost to some members",
        "give all members of a group the same topics and tags, or use several groups",
    ),
    "single_bar": MisuseKind(
        "{client} of group {group} subscribes to {topic} with {detail}: this is one tag, which "
        "has a bar in its name",
        "separate tags by two bars, as in 'TagA || TagB'",
        client_warns=True,
    ),
    "sql_as_tags": MisuseKind(
        "{client} of group {group} subscribes to {topic} with {detail}, which is compared with "
        "tags as it stands and not evaluated",
        "give the type SQL92 with the expression, at a broker that evaluates it, or list tags",
        client_warns=True,
    ),
    "property_filter_off": MisuseKind(
        "{client} of group {group} subscribes to {topic} by {detail}, which this broker refuses: "
        "it does not filter by properties",
        "start brokers with enablePropertyFilter=true",
    ),
    "tags_match_nothing": MisuseKind(
        "no message of {topic} has a tag of group {group} since {client} subscribed: {detail}",
        "correct the tag of the messages or that of the subscription; case counts",
    ),
    "topic_nobody_made": MisuseKind(
        "{client} of group {group} subscribes to {topic}, which does not exist{detail}: it gets "
        "nothing",
        "correct the name, or create the topic first",
        client_warns=True,
    ),
    "delay_beyond_table": MisuseKind(
        "{client} of group {group} sends to {topic} with {detail}: the message waits as long as "
        "one of the highest level",
        "use a level of the table (messageDelayLevel), or delay_ms at brokers from 5.0 on",
    ),
    "delay_ignored": MisuseKind(
        "{client} of group {group} sends to {topic} with {detail}, which means nothing to this "
        "release: the message is delivered at once",
        "use a delay level, or a broker from 5.0 on",
    ),
    "client_id_shared": MisuseKind(
        "two members of group {group} have one client id, {client}, on two connections: {detail}",
        "give each its own instance_name (instanceName)",
    ),
}


class FoundMisuse(NamedTuple):
    """One misuse: its name in the table, and the client, group and topic that it is about."""

    misuse: str
    client: str
    group: str
    topic: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The sentence and the cure."""
        row = MISUSES[self.misuse]
        return f"{row.sentence.format(**self._asdict())}; {row.cure}"


# Finding them -------------------------------------------------------------------------


_SQL = re.compile(r"[<>=]|\s(AND|OR|NOT|IN|IS|BETWEEN|LIKE|CONTAINS)\s", re.IGNORECASE)
_TIMES = (TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC)


def in_expression(data: SubscriptionData) -> tuple[str, str] | None:
    """The name and the detail of a misuse in the expression of *data*; None without one."""
    if not is_tag_type(data.expression_type) or data.sub_string == SUB_ALL:
        return None
    if any("|" in tag for tag in data.tags_set):
        return "single_bar", _quoted(data.sub_string)
    if any(_SQL.search(tag) for tag in data.tags_set):
        return "sql_as_tags", _quoted(data.sub_string)
    return None


def in_delay(
    topic: str, properties: str, level_max: int, *, knows_times: bool
) -> tuple[str, str] | None:
    """A misuse in the delay of a message's *properties*; None without one.

    Consumers send to their retry topics with levels of their own.
    """
    if is_retry_topic(topic):
        return None
    level = property_of(properties, DELAY) or ""
    if level.isascii() and level.isdigit() and len(level) < 10 and int(level) > level_max:
        return "delay_beyond_table", f"delay level {level}, of {level_max}"
    if not knows_times:
        for name in _TIMES:
            if (value := property_of(properties, name)) is not None:
                return "delay_ignored", f"the property {name}={value:.30}"
    return None


def differing(
    known: Mapping[str, SubscriptionData], given: Iterable[SubscriptionData], other: str
) -> Iterator[tuple[str, str]]:
    """Topic and detail where *given* differs from *known*, the subscriptions that *other* sent."""
    named = {data.topic: data for data in given}
    for topic, data in known.items():
        if is_retry_topic(topic):
            continue
        mine = named.get(topic)
        if mine is None:
            yield topic, f"not at all, {other} with {_quoted(data.sub_string)}"
        elif _meaning(mine) != _meaning(data):
            yield (
                topic,
                f"with {_quoted(mine.sub_string)}, {other} with {_quoted(data.sub_string)}",
            )


def _meaning(data: SubscriptionData) -> tuple[object, ...]:
    return (is_tag_type(data.expression_type), data.tags_set or data.sub_string)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= DETAIL_CHARS_MAX else text[:DETAIL_CHARS_MAX] + "…")


# Tags that match nothing --------------------------------------------------------------


class _Watched:
    """The messages sent to a topic since a group subscribed to tags of it."""

    __slots__ = ("client", "count", "has_matched", "last", "tags")

    def __init__(self, client: str, tags: tuple[str, ...]) -> None:
        self.client = client
        self.tags = tags
        self.count = 0
        self.last: str | None = None
        self.has_matched = False

    def take(self, tag: str | None) -> bool:
        """A message with *tag* was stored; True if a warning is due."""
        if tag in self.tags:
            self.has_matched = True
            return False
        self.count, self.last = self.count + 1, tag
        folded = (tag or "").casefold()
        is_near = any(folded == own.casefold() for own in self.tags)
        return is_near or self.count >= UNMATCHED_MIN

    def detail(self) -> str:
        last = f"the tag {_quoted(self.last)}" if self.last else "no tag"
        stored = "1 message was" if self.count == 1 else f"{self.count} messages were"
        wanted = _quoted(" || ".join(self.tags))
        return f"it wants {wanted}, {stored} stored here, and the last has {last}"


class WatchedTags:
    """The subscriptions to tags none of which has matched a message yet, by topic and group.

    ``open`` has the topics whose messages ``stored`` must be told about: usually none.
    """

    def __init__(self) -> None:
        self.open: dict[str, dict[str, _Watched]] = {}
        self._all: dict[tuple[str, str], _Watched] = {}

    def subscribed(self, group: str, client: str, data: SubscriptionData) -> None:
        """A member of *group* subscribes by *data*."""
        key = (data.topic, group)
        watched = self._all.get(key)
        if watched is None or watched.tags != data.tags_set:
            self._close(*key)
            self._all.pop(key, None)
            if not filters_tags(data) or len(self._all) >= WATCHED_MAX:
                return
            watched = self._all[key] = _Watched(client, data.tags_set)
        if not watched.has_matched:
            self.open.setdefault(data.topic, {})[group] = watched

    def stored(
        self, topic: str, tag: str | None, subscribes: Callable[[str, str], bool]
    ) -> list[FoundMisuse]:
        """A message was stored; returns the misuses to warn of.

        Counts for the groups for which ``subscribes(group, topic)`` is true now.
        """
        found = []
        for group, watched in list(self.open.get(topic, {}).items()):
            if not subscribes(group, topic):
                continue
            if watched.take(tag):
                found.append(_unmatched(topic, group, watched))
            if watched.has_matched:
                self._close(topic, group)
        return found

    def unmatched(self) -> list[FoundMisuse]:
        """All subscriptions for which messages were stored, none of them with their tags."""
        return [
            _unmatched(topic, group, watched)
            for (topic, group), watched in self._all.items()
            if watched.count and not watched.has_matched
        ]

    def matched(self) -> list[tuple[str, str]]:
        """Topic and group of the subscriptions that have matched a message."""
        return [place for place, watched in self._all.items() if watched.has_matched]

    def clear(self) -> None:
        """Forget the counts; subscriptions are watched again from their next heartbeat on."""
        self.open.clear()
        self._all.clear()

    def _close(self, topic: str, group: str) -> None:
        groups = self.open.get(topic, {})
        groups.pop(group, None)
        if not groups:
            self.open.pop(topic, None)


def _unmatched(topic: str, group: str, watched: _Watched) -> FoundMisuse:
    return FoundMisuse("tags_match_nothing", watched.client, group, topic, watched.detail())


# Reporting them once ------------------------------------------------------------------


class MisuseReport(NamedTuple):
    """What one broker noticed; ``matched`` has topics and groups whose tags matched a message."""

    found: tuple[FoundMisuse, ...] = ()
    matched: tuple[tuple[str, str], ...] = ()


def merged(reports: Iterable[MisuseReport]) -> tuple[FoundMisuse, ...]:
    """The misuses that several brokers noticed, each once.

    The tags of a subscription match nothing only if they do at every broker: messages with one
    tag may all go to one of them.
    """
    every = list(reports)
    matched = {place for report in every for place in report.matched}
    found = {
        (each.misuse, each.group, each.topic): each
        for report in every
        for each in report.found
        if each.misuse != "tags_match_nothing" or (each.topic, each.group) not in matched
    }
    return tuple(found.values())


class Misuses:
    """Reports each misuse of a group and a topic once to *report*; keeps ``KEPT_MAX``."""

    def __init__(self, report: Callable[[FoundMisuse], object]) -> None:
        self._report = report
        self._found: dict[tuple[str, str, str], FoundMisuse] = {}
        self.tags = WatchedTags()

    def notice(self, found: FoundMisuse, *, is_reported: bool = False) -> None:
        """Remember *found*; with *is_reported* without reporting it."""
        key = (found.misuse, found.group, found.topic)
        if key in self._found or len(self._found) >= KEPT_MAX:
            return
        self._found[key] = found
        if not is_reported:
            self._report(found)

    def report(self) -> MisuseReport:
        """Everything noticed, also the subscriptions whose tags have not matched yet."""
        found = {
            key: each for key, each in self._found.items() if each.misuse != "tags_match_nothing"
        }
        for each in self.tags.unmatched():
            found[each.misuse, each.group, each.topic] = each
        return MisuseReport(tuple(found.values()), tuple(self.tags.matched()))

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()
        self.tags.clear()
