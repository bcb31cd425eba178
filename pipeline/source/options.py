"""What a user may set when a topic is read: names, values, and what they default to.

``startingOffsets`` and ``endingOffsets`` are Spark-Kafka's, also called ``start`` and ``end``:

    earliest | latest | 1763800000000 (ms) | 2026-11-22T10:00:00Z |
    {"orders": {"broker-a": {"0": 23, "1": -2}}}     -2 is earliest, -1 latest
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from pipeline.source import option_names as read
from pipeline.source.errors import BadOption
from protocol.names import TOOLS_CONSUMER_GROUP
from protocol.subscription import SUB_ALL, BadExpression, build_subscription

EARLIEST, LATEST = "earliest", "latest"
ByQueue: TypeAlias = dict[str, dict[str, dict[int, int]]]  # topic, broker, queue id
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1  # as in Spark-Kafka's JSON

OTHER_NAMES = {"start": "startingOffsets", "end": "endingOffsets"}
SOURCE_OPTIONS = (
    "namesrv",
    "topic",
    "group",
    "tags",
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "commitOffsets",
    "requestTimeoutMs",
    "brokerTimeoutMs",
    "groupTimeoutMs",
    *OTHER_NAMES,
)
LEFT_TO_SPARK = frozenset({"path", "pathglobfilter", "recursivefilelookup", "__streaming__"})


class PlaceInQueues(msgspec.Struct, frozen=True):
    """A place in every queue: ``earliest``, ``latest``, a time, or offsets one by one."""

    name: str = ""
    at_ms: int | None = None
    offsets: ByQueue | None = None


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one read, checked."""

    namesrv: tuple[str, ...]
    topics: tuple[str, ...]
    group: str = ""  # empty: reads under the group of RocketMQ's tools, and commits nothing
    tags: str = SUB_ALL
    start: PlaceInQueues | None = None
    end: PlaceInQueues | None = None
    offsets_per_trigger_max: int = 0  # 0: all there are
    partitions_min: int = 0
    fail_on_data_loss: bool = True
    commit_offsets: bool = True
    request_ms_max: int = 3_000  # of one call; upstream's default for a client's calls
    broker_away_ms_max: int = 60_000
    group_taken_ms_max: int = 15_000

    @property
    def pull_group(self) -> str:
        """The group whose name the pulls carry: brokers answer only one they know."""
        return self.group or TOOLS_CONSUMER_GROUP

    @property
    def commits(self) -> bool:
        """Whether the group's offsets at the brokers follow a stream."""
        return bool(self.group) and self.commit_offsets


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """The checked options of a read.  Raises ``BadOption``."""
    read.check_names(given, SOURCE_OPTIONS, "the rocketmq source", LEFT_TO_SPARK)
    options = _under_one_name({name.lower(): text for name, text in given.items()})
    topics = read.topics(options)
    if not topics:
        raise BadOption('option("topic", "orders") is missing: one topic, or several by commas')
    if (group := options.get("group", "").strip()) == TOOLS_CONSUMER_GROUP:
        raise BadOption(f"group cannot be {group}: it is the tools'; leave it out instead")
    return SourceOptions(
        namesrv=read.addresses(options),
        topics=topics,
        group=group,
        tags=_tags(options.get("tags")),
        start=_where(options, "startingOffsets"),
        end=_where(options, "endingOffsets"),
        offsets_per_trigger_max=read.whole(options, "maxOffsetsPerTrigger", 0),
        partitions_min=read.whole(options, "minPartitions", 0),
        fail_on_data_loss=read.truth(options, "failOnDataLoss", default=True),
        commit_offsets=read.truth(options, "commitOffsets", default=True),
        request_ms_max=read.whole(options, "requestTimeoutMs", 3_000),
        broker_away_ms_max=read.whole(options, "brokerTimeoutMs", 60_000, least=0),
        group_taken_ms_max=read.whole(options, "groupTimeoutMs", 15_000, least=0),
    )


def _under_one_name(options: dict[str, str]) -> dict[str, str]:
    for short, name in OTHER_NAMES.items():
        if short not in options:
            continue
        if name.lower() in options:
            raise BadOption(f"{short} and {name} are one option: leave one of them out")
        options[name.lower()] = options.pop(short)
    return options


def _tags(text: str | None) -> str:
    try:
        build_subscription("", text)
    except BadExpression as error:
        raise BadOption(f"tags are '*' or 'TagA || TagB', not {text!r}: {error}") from None
    return text or SUB_ALL


def _where(options: Mapping[str, str], name: str) -> PlaceInQueues | None:
    text = options.get(name.lower())
    if text is None:
        return None
    text = text.strip()
    if text.lower() in (EARLIEST, LATEST):
        return PlaceInQueues(text.lower())
    if text.startswith("{"):
        return PlaceInQueues(offsets=offsets_of(text, name))
    if text.isascii() and text.isdigit():
        return PlaceInQueues(at_ms=int(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadOption(
            f"{name} is earliest, latest, a time (ms since 1970, or 2026-11-22T10:00:00Z) or "
            f'offsets such as {{"orders": {{"broker-a": {{"0": 23}}}}}}, not {text!r}'
        ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return PlaceInQueues(at_ms=int(at.timestamp() * 1000))


def offsets_of(text: str, name: str) -> ByQueue:
    """Topic, broker and queue to offset, from a JSON text.  Raises ``BadOption``.

    What a query's progress shows as an offset is taken, too.
    """
    try:
        given: Any = json.loads(text)
        if isinstance(given.get("version"), int):
            given = given["queues"]
        return msgspec.convert(given, ByQueue, strict=False)
    except (ValueError, KeyError, msgspec.ValidationError) as error:
        raise BadOption(
            f'{name} as JSON is topic, broker, queue id and offset, as in {{"orders": '
            f'{{"broker-a": {{"0": 23}}}}}}, not {text!r}: {error}'
        ) from None
