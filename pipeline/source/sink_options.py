"""What a user may set when rows are written to topics, and the columns that are written.

A row is a message: its ``body``, and beside it what a producer can give one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructType,
)

from pipeline.source import option_names as read
from pipeline.source.errors import BadOption
from protocol.validation import client_refuses_group, client_refuses_send_to

SINK_OPTIONS = ("namesrv", "topic", "group", "requestTimeoutMs", "brokerTimeoutMs")
LEFT_TO_SPARK = frozenset({"path", "checkpointlocation", "queryname"})
PRODUCER_GROUP = "spark-rocketmq-sink"
ONE, SEVERAL = StringType(), ArrayType(StringType())
WRITTEN: Mapping[str, tuple[Any, ...]] = {  # the columns, and the types each may have
    "body": (StringType(), BinaryType()),
    "topic": (ONE,),
    "keys": (ONE, SEVERAL),
    "tags": (ONE,),
    "properties": (MapType(StringType(), StringType()),),
    "delay_level": (IntegerType(),),
    "shard_key": (ONE,),
}


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one write, checked."""

    namesrv: tuple[str, ...]
    topic: str = ""  # of rows without one of their own
    group: str = PRODUCER_GROUP
    request_ms_max: int = 3_000  # DefaultMQProducer.sendMsgTimeout
    broker_away_ms_max: int = 60_000


def sink_options(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """The checked options of a write of rows of *schema*.  Raises ``BadOption``."""
    read.check_names(given, SINK_OPTIONS, "the rocketmq sink", LEFT_TO_SPARK)
    options = {name.lower(): text for name, text in given.items()}
    topic, group = options.get("topic", "").strip(), options.get("group", "").strip()
    _check_columns(schema, has_topic=bool(topic))
    if topic and (complaint := client_refuses_send_to(topic)) is not None:
        raise BadOption(f"topic {topic!r}: {complaint}")
    if group and (complaint := client_refuses_group(group)) is not None:
        raise BadOption(f"group {group!r}: {complaint}")
    return SinkOptions(
        namesrv=read.addresses(options),
        topic=topic,
        group=group or PRODUCER_GROUP,
        request_ms_max=read.whole(options, "requestTimeoutMs", 3_000),
        broker_away_ms_max=read.whole(options, "brokerTimeoutMs", 60_000, least=0),
    )


def _check_columns(schema: StructType, *, has_topic: bool) -> None:
    for field in schema.fields:
        if field.name not in WRITTEN:
            near = difflib.get_close_matches(field.name, WRITTEN, 1)
            meant = f"did you mean {near[0]}?" if near else "select those"
            raise BadOption(
                f"the rocketmq sink has no column {field.name!r}: it writes "
                f"{', '.join(WRITTEN)}; {meant}"
            )
        kinds = [kind.simpleString() for kind in WRITTEN[field.name]]
        if field.dataType.simpleString() not in kinds:
            raise BadOption(
                f"the column {field.name} is {' or '.join(kinds)}, "
                f"not {field.dataType.simpleString()}: cast it"
            )
    if "body" not in schema.names:
        raise BadOption("a column body is missing: what each message carries, string or binary")
    if not has_topic and "topic" not in schema.names:
        raise BadOption('where to? option("topic", "orders"), or a column topic')
