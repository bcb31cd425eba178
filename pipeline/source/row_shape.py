"""The columns of a row that was read, and which of them a user wants.

    spark.read.format("rocketmq").schema("offset long, body binary")

reads those two, and nothing is decoded for the others.
"""

from __future__ import annotations

import difflib

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline.source.errors import BadOption

COLUMN_TYPES: dict[str, DataType] = {
    "topic": StringType(),
    "broker": StringType(),
    "queue_id": IntegerType(),
    "offset": LongType(),
    "msg_id": StringType(),
    "keys": StringType(),
    "tags": StringType(),
    "properties": MapType(StringType(), StringType()),
    "body": BinaryType(),
    "born_timestamp": TimestampType(),
    "store_timestamp": TimestampType(),
    "reconsume_times": IntegerType(),
}
ROW_SHAPE = StructType([StructField(name, kind) for name, kind in COLUMN_TYPES.items()])


def check_shape(wanted: StructType) -> None:
    """Raises ``BadOption`` for a column there is not, or one under another type."""
    for field in wanted.fields:
        if field.name not in COLUMN_TYPES:
            near = difflib.get_close_matches(field.name, COLUMN_TYPES, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(COLUMN_TYPES)}"
            raise BadOption(f"the rocketmq source has no column {field.name!r}: {advice}")
        if field.dataType != COLUMN_TYPES[field.name]:
            kind = COLUMN_TYPES[field.name].simpleString()
            raise BadOption(
                f"the column {field.name} is {kind}, not {field.dataType.simpleString()}: "
                "read it as it is, and cast it"
            )
