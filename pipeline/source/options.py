"""The options of reads and writes of topics: names, values, and their defaults.

``startingOffsets`` and ``endingOffsets`` are Spark-Kafka's, also called ``start`` and ``end``:

    earliest | latest | 1763800000000 (ms) | 2026-11-22T10:00:00Z |
    {"orders": {"broker-a": {"0": 23, "1": -2}}}     -2 is earliest, -1 latest

A written row becomes a message: its ``body``, and the other fields that a producer can set.
Spark passes options as texts, with names in small letters.  Every option is read by name; the
error for an unknown name suggests the nearest one, and for a name of Spark's Kafka source ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, MapType, StringType, StructType

from rocketmq_emulator.pipeline.source.errors import BadOption
from rocketmq_emulator.protocol.messages.names import TOOLS_CONSUMER_GROUP
from rocketmq_emulator.protocol.messages.subscription import (
    SQL92,
    SUB_ALL,
    BadExpression,
    SubscriptionData,
    build_subscription,
)
from rocketmq_emulator.protocol.messages.validation import (
    client_refuses_group,
    client_refuses_send_to,
)
from rocketmq_emulator.text.suggestions import did_you_mean, nearest

EARLIEST, LATEST = "earliest", "latest"
ByQueue: TypeAlias = dict[str, dict[str, dict[int, int]]]  # topic, broker, queue id
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1  # as in Spark-Kafka's JSON

OTHER_NAMES = {"start": "startingOffsets", "end": "endingOffsets"}
SOURCE_OPTIONS = (
    "namesrv",
    "topic",
    "group",
    "tags",
    "sql",
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
    """A place in every queue: ``earliest``, ``latest``, a time, or an offset for each queue."""

    name: str = ""
    at_ms: int | None = None
    offsets: ByQueue | None = None


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one read, checked."""

    namesrv: tuple[str, ...]
    topics: tuple[str, ...]
    group: str = ""  # empty: pulls with the group of RocketMQ's tools, and commits nothing
    tags: str = SUB_ALL
    sql: str = ""  # an SQL92 expression instead of tags
    start: PlaceInQueues | None = None
    end: PlaceInQueues | None = None
    offsets_per_trigger_max: int = 0  # 0: no limit
    partitions_min: int = 0
    fail_on_data_loss: bool = True
    commit_offsets: bool = True
    request_ms_max: int = 3_000  # of one call; upstream's default for a client's calls
    broker_unavailable_ms_max: int = 60_000
    group_wait_ms_max: int = 15_000

    @property
    def pull_group(self) -> str:
        """The group in the pull requests: brokers answer only a group that they know."""
        return self.group or TOOLS_CONSUMER_GROUP

    @property
    def takes_all(self) -> bool:
        """Whether every message is wanted, so that offsets have no gaps."""
        return self.tags == SUB_ALL and not self.sql

    def subscription(self, topic: str) -> SubscriptionData:
        """What brokers compare the messages of *topic* with."""
        if self.sql:
            return build_subscription(topic, self.sql, SQL92)
        return build_subscription(topic, self.tags)

    @property
    def commits(self) -> bool:
        """Whether a stream commits the group's offsets to the brokers."""
        return bool(self.group) and self.commit_offsets


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """The checked options of a read.  Raises ``BadOption``."""
    check_names(given, SOURCE_OPTIONS, "the rocketmq source", LEFT_TO_SPARK)
    options = _under_one_name({name.lower(): text for name, text in given.items()})
    topics = topic_names(options)
    if not topics:
        raise BadOption('option("topic", "orders") is missing: topics, separated by commas')
    if "tags" in options and "sql" in options:
        raise BadOption(
            "tags and sql cannot be combined: an expression can name tags, as in TAGS = 'paid'"
        )
    if (group := options.get("group", "").strip()) == TOOLS_CONSUMER_GROUP:
        raise BadOption(f"group cannot be {group}: it is the tools'; leave it out instead")
    return SourceOptions(
        namesrv=addresses(options),
        topics=topics,
        group=group,
        tags=_tags(options.get("tags")),
        sql=_sql(options.get("sql")),
        start=_where(options, "startingOffsets"),
        end=_where(options, "endingOffsets"),
        offsets_per_trigger_max=whole(options, "maxOffsetsPerTrigger", 0),
        partitions_min=whole(options, "minPartitions", 0),
        fail_on_data_loss=boolean_option(options, "failOnDataLoss", default=True),
        commit_offsets=boolean_option(options, "commitOffsets", default=True),
        request_ms_max=whole(options, "requestTimeoutMs", 3_000),
        broker_unavailable_ms_max=whole(options, "brokerTimeoutMs", 60_000, least=0),
        group_wait_ms_max=whole(options, "groupTimeoutMs", 15_000, least=0),
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


def _sql(text: str | None) -> str:
    """The expression, checked in the newest language; each broker that is read checks it, too."""
    if text is None:
        return ""
    from rocketmq_emulator.protocol.sql92.filters import check_readable  # noqa: PLC0415  # loads a parser

    try:
        check_readable(text)
    except BadExpression as error:
        raise BadOption(f"sql is an SQL92 expression, not {text!r:.200}: {error}") from None
    return text


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

    The form in which a query's progress shows an offset is accepted, too.
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


# Writes -------------------------------------------------------------------------------


SINK_OPTIONS = ("namesrv", "topic", "group", "requestTimeoutMs", "brokerTimeoutMs")
SINK_LEFT_TO_SPARK = frozenset({"path", "checkpointlocation", "queryname"})
PRODUCER_GROUP = "spark-rocketmq-sink"
TEXT, TEXT_LIST = StringType(), ArrayType(StringType())
SINK_COLUMN_TYPES: Mapping[str, tuple[Any, ...]] = {  # the columns, and the types each may have
    "body": (StringType(), BinaryType()),
    "topic": (TEXT,),
    "keys": (TEXT, TEXT_LIST),
    "tags": (TEXT,),
    "properties": (MapType(StringType(), StringType()),),
    "delay_level": (IntegerType(),),
    "shard_key": (TEXT,),
}


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one write, checked."""

    namesrv: tuple[str, ...]
    topic: str = ""  # of rows without the column topic
    group: str = PRODUCER_GROUP
    request_ms_max: int = 3_000  # DefaultMQProducer.sendMsgTimeout
    broker_unavailable_ms_max: int = 60_000


def sink_options(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """The checked options of a write of rows of *schema*.  Raises ``BadOption``."""
    check_names(given, SINK_OPTIONS, "the rocketmq sink", SINK_LEFT_TO_SPARK)
    options = {name.lower(): text for name, text in given.items()}
    topic, group = options.get("topic", "").strip(), options.get("group", "").strip()
    _check_columns(schema, has_topic=bool(topic))
    if topic and (complaint := client_refuses_send_to(topic)) is not None:
        raise BadOption(f"topic {topic!r}: {complaint}")
    if group and (complaint := client_refuses_group(group)) is not None:
        raise BadOption(f"group {group!r}: {complaint}")
    return SinkOptions(
        namesrv=addresses(options),
        topic=topic,
        group=group or PRODUCER_GROUP,
        request_ms_max=whole(options, "requestTimeoutMs", 3_000),
        broker_unavailable_ms_max=whole(options, "brokerTimeoutMs", 60_000, least=0),
    )


def _check_columns(schema: StructType, *, has_topic: bool) -> None:
    for field in schema.fields:
        if field.name not in SINK_COLUMN_TYPES:
            meant = did_you_mean(field.name, SINK_COLUMN_TYPES, otherwise="select those")
            raise BadOption(
                f"the rocketmq sink has no column {field.name!r}: it writes "
                f"{', '.join(SINK_COLUMN_TYPES)}; {meant}"
            )
        kinds = [kind.simpleString() for kind in SINK_COLUMN_TYPES[field.name]]
        if field.dataType.simpleString() not in kinds:
            raise BadOption(
                f"the column {field.name} is {' or '.join(kinds)}, "
                f"not {field.dataType.simpleString()}: cast it"
            )
    if "body" not in schema.names:
        raise BadOption("a column body is missing: the content of each message, string or binary")
    if not has_topic and "topic" not in schema.names:
        raise BadOption('no topic: option("topic", "orders"), or a column topic')


# One option by name -------------------------------------------------------------------


FROM_KAFKA = {  # options of Spark's Kafka source, and ours instead
    "subscribe": "topic",
    "assign": "topic",
    "kafka.bootstrap.servers": "namesrv",
    "bootstrap.servers": "namesrv",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "startingoffsetsbytimestamp": "startingOffsets",
    "endingoffsetsbytimestamp": "endingOffsets",
    "maxrecordsperpartition": "minPartitions",
    "namesrvaddr": "namesrv",
    "nameserver": "namesrv",
    "consumergroup": "group",
    "producergroup": "group",
}
BOOLEANS = {"true": True, "false": False}
NAMESRV_PORT = 9876


def check_names(
    given: Iterable[str], known: Iterable[str], who: str, for_spark: frozenset[str]
) -> None:
    """Raises ``BadOption`` for a name that is none of *known*; *for_spark* are left to Spark."""
    spelt = {name.lower(): name for name in known}
    for name in given:
        low = name.lower()
        if low in spelt or low in for_spark:
            continue
        meant = spelt.get(FROM_KAFKA.get(low, "").lower())
        near = meant or spelt.get(nearest(low, spelt))
        advice = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
        raise BadOption(f"{who} has no option {name!r}: {advice}")


def whole(options: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    """The option as a number of at least *least*.  Raises ``BadOption``."""
    text = options.get(name.lower())
    if text is None:
        return default
    if not (text.strip().isascii() and text.strip().isdigit()) or int(text) < least:
        raise BadOption(f"{name} is a whole number of at least {least}, not {text!r}")
    return int(text)


def boolean_option(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """The option as a boolean.  Raises ``BadOption``."""
    text = options.get(name.lower())
    if text is None:
        return default
    found = BOOLEANS.get(text.strip().lower())
    if found is None:
        raise BadOption(f"{name} is true or false, not {text!r}")
    return found


def addresses(options: Mapping[str, str]) -> tuple[str, ...]:
    """The NameServers, in upstream's format ``host:port;host:port``.  Raises ``BadOption``."""
    text = options.get("namesrv", "")
    found = []
    for word in filter(None, (part.strip() for part in text.replace(",", ";").split(";"))):
        host, colon, port = word.rpartition(":")
        if not colon:
            raise BadOption(
                f"namesrv is host:port, not {word!r}: did you mean {word}:{NAMESRV_PORT}?"
            )
        if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise BadOption(f"namesrv is host:port, not {word!r}")
        found.append(word)
    if not found:
        raise BadOption(f'option("namesrv", "host:{NAMESRV_PORT}") is missing: the NameServers')
    return tuple(found)


def topic_names(options: Mapping[str, str]) -> tuple[str, ...]:
    """The topics, which are separated by commas, without duplicates."""
    words = (part.strip() for part in options.get("topic", "").split(","))
    return tuple(dict.fromkeys(filter(None, words)))
