"""The columns of rows that are read: their types, and how records become Arrow columns.

    spark.read.format("rocketmq").schema("offset long, body binary")

reads those two, and decodes nothing for the others.  Only the lengths of records are read one
after the other.  All other fields are at places computed from lengths, for all records at once:
numpy gathers the numbers, Arrow splits the properties.  A row costs Python a slice of its body
and one of its properties.  ``COLUMN_TYPES`` and ``COLUMNS`` have the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

from rocketmq_emulator.pipeline.source.errors import BadOption, MessagesLost, UnsupportedRecords
from rocketmq_emulator.protocol.flags import BORN_HOST_V6, COMPRESSED, INNER_BATCH, STORE_HOST_V6
from rocketmq_emulator.protocol.messages.compression import BadCompression, decompress
from rocketmq_emulator.protocol.messages.message_ids import offset_msg_id
from rocketmq_emulator.protocol.messages.properties import (
    KEYS,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    TAGS,
    UNIQ_KEY,
)
from rocketmq_emulator.protocol.messages.records import MAGIC_V1, MAGIC_V2
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.text.suggestions import did_you_mean

# Types --------------------------------------------------------------------------------


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
    """Raises ``BadOption`` for an unknown column, or a column with a wrong type."""
    for field in wanted.fields:
        if field.name not in COLUMN_TYPES:
            advice = did_you_mean(field.name, COLUMN_TYPES)
            raise BadOption(f"the rocketmq source has no column {field.name!r}: {advice}")
        if field.dataType != COLUMN_TYPES[field.name]:
            kind = COLUMN_TYPES[field.name].simpleString()
            raise BadOption(
                f"the column {field.name} is {kind}, not {field.dataType.simpleString()}: "
                "read it with that type, and cast it"
            )


# Records as columns -------------------------------------------------------------------


Array = Any  # an array of numpy or Arrow; mypy has no types for them
RECORD_BYTES_MIN = 91
V6_BYTES_MORE = 12


class RecordColumns:
    """The records in *data*, in stored order.  Raises ``MessagesLost`` if one is damaged."""

    def __init__(self, data: bytes, queue: MessageQueue) -> None:
        self._data = data
        self._queue = queue
        self._bytes = np.frombuffer(data, np.uint8)
        self._starts = np.fromiter(_starts(data, queue), np.int64)
        magic = self._number(self._starts + 4, ">u4")
        if not np.isin(magic, (MAGIC_V1, MAGIC_V2)).all():
            raise MessagesLost(f"an answer of {queue} holds bytes that are no record")
        self._is_v2 = magic == MAGIC_V2
        self.sys_flags = self._number(self._starts + 36, ">i4")
        if (self.sys_flags & INNER_BATCH).any():
            raise UnsupportedRecords(
                f"{queue} holds inner batches (a topic of the type BatchCQ), which this source "
                "does not read: nothing of them was read"
            )
        v6_bytes = np.int64(V6_BYTES_MORE)
        self._behind_born = self._starts + 56 + v6_bytes * (self.sys_flags & BORN_HOST_V6 != 0)
        self._behind_store = (
            self._behind_born + 16 + v6_bytes * (self.sys_flags & STORE_HOST_V6 != 0)
        )

    def __len__(self) -> int:
        return len(self._starts)

    # Numbers --------------------------------------------------------------------------

    @cached_property
    def offsets(self) -> Array:
        """Each record's offset in its queue."""
        return self._number(self._starts + 20, ">i8")

    @cached_property
    def born_ms(self) -> Array:
        """When each was sent, by its producer's clock."""
        return self._number(self._starts + 40, ">i8")

    @cached_property
    def stored_ms(self) -> Array:
        """When each was stored, by its broker's clock."""
        return self._number(self._behind_born, ">i8")

    @cached_property
    def reconsume_times(self) -> Array:
        """How often consumers sent each back."""
        return self._number(self._behind_store, ">i4").astype(np.int32)

    # Texts and bytes ------------------------------------------------------------------

    def bodies(self) -> Array:
        """Each record's body, decompressed."""
        data, starts, ends = self._data, self._bodies_at.tolist(), self._body_ends.tolist()
        found = [data[start:end] for start, end in zip(starts, ends, strict=True)]
        for place in np.flatnonzero(self.sys_flags & COMPRESSED).tolist():
            try:
                found[place] = decompress(found[place], int(self.sys_flags[place]))
            except BadCompression as error:
                at = self.offsets[place]
                raise MessagesLost(f"the body at {at} of {self._queue}: {error}") from None
        return pa.array(found, pa.binary())

    @cached_property
    def pairs(self) -> PropertyPairs:
        """The properties of all records."""
        at = self._body_ends
        wide = self._is_v2
        topic_bytes = self._bytes[at].astype(np.int64)
        if wide.any():
            topic_bytes[wide] = self._number(at[wide], ">i2")
        at = at + topic_bytes + np.where(wide, 2, 1)
        lengths = self._number(at, ">i2").astype(np.int64)
        data, starts, ends = self._data, (at + 2).tolist(), (at + 2 + lengths).tolist()
        return PropertyPairs([data[s:e] for s, e in zip(starts, ends, strict=True)])

    def msg_ids(self) -> Array:
        """Each message's id from its producer; without one, the id from its store."""
        found = self.pairs.values_of(UNIQ_KEY)
        if not found.null_count:
            return found
        texts = found.to_pylist()
        for place in np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False)).tolist():
            start, end = int(self._behind_born[place]) + 8, int(self._behind_store[place])
            position = int.from_bytes(self._data[int(self._starts[place]) + 28 :][:8], "big")
            texts[place] = offset_msg_id(self._data[start:end], position)
        return pa.array(texts, pa.string())

    # Places ---------------------------------------------------------------------------

    @cached_property
    def _bodies_at(self) -> Array:
        return self._behind_store + 16

    @cached_property
    def _body_ends(self) -> Array:
        return self._bodies_at + self._number(self._behind_store + 12, ">i4")

    def _number(self, places: Array, kind: str) -> Array:
        width = np.dtype(kind).itemsize
        if len(places) and int(places.max()) + width > len(self._bytes):
            raise MessagesLost(f"an answer of {self._queue} holds a record that is cut short")
        gathered = self._bytes[places[:, None] + np.arange(width)]
        return gathered.view(kind)[:, 0].astype(np.int64)


class PropertyPairs:
    """Names and values of many records' properties, each with the row it belongs to."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._rows_count = len(blocks)
        lists = pc.split_pattern(_texts(blocks), PROPERTY_SEPARATOR)
        rows = np.repeat(np.arange(len(blocks)), pc.list_value_length(lists).to_numpy())
        halves = pc.split_pattern(lists.flatten(), NAME_VALUE_SEPARATOR, max_splits=1)
        has_both = pc.list_value_length(halves).to_numpy() == 2
        halves, rows = halves.filter(pa.array(has_both)), rows[has_both]
        names, values = pc.list_element(halves, 0), pc.list_element(halves, 1)
        is_pair = pc.and_(pc.not_equal(names, ""), pc.not_equal(values, ""))
        if not pc.all(is_pair, min_count=0).as_py():
            rows = rows[is_pair.to_numpy(zero_copy_only=False)]
            names, values = names.filter(is_pair), values.filter(is_pair)
        self._names, self._values, self._rows = names, values, rows

    def values_of(self, name: str) -> Array:
        """The property *name* of each row, null where absent; the last one of several."""
        places = np.flatnonzero(pc.equal(self._names, name).to_numpy(zero_copy_only=False))
        found = np.full(self._rows_count, -1)
        found[self._rows[places]] = places
        return self._values.take(pa.array(found, mask=found < 0))

    def maps(self, kind: pa.DataType) -> Array:
        """All properties of each row as an Arrow map of type *kind*."""
        keep = self._last_of_each_name()
        names, values, rows = self._names, self._values, self._rows
        if len(keep) < len(rows):
            names, values, rows = names.take(keep), values.take(keep), rows[keep]
        offsets = np.searchsorted(rows, np.arange(self._rows_count + 1)).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), names, values, type=kind)

    def _last_of_each_name(self) -> Array:
        coded = self._names.dictionary_encode()
        names_count = len(coded.dictionary)
        keys = self._rows * names_count + coded.indices.to_numpy()
        backwards = keys[::-1]
        _, places = np.unique(backwards, return_index=True)
        return np.sort(len(keys) - 1 - places)


ColumnMaker = Callable[[RecordColumns, pa.DataType, MessageQueue], Array]
COLUMNS: Mapping[str, ColumnMaker] = {
    "topic": lambda block, _, queue: pa.repeat(queue.topic, len(block)),
    "broker": lambda block, _, queue: pa.repeat(queue.broker_name, len(block)),
    "queue_id": lambda block, kind, queue: pa.repeat(pa.scalar(queue.queue_id, kind), len(block)),
    "offset": lambda block, _, __: pa.array(block.offsets),
    "msg_id": lambda block, _, __: block.msg_ids(),
    "keys": lambda block, _, __: block.pairs.values_of(KEYS),
    "tags": lambda block, _, __: block.pairs.values_of(TAGS),
    "properties": lambda block, kind, _: block.pairs.maps(kind),
    "body": lambda block, _, __: block.bodies(),
    "born_timestamp": lambda block, kind, _: pa.array(block.born_ms * 1000).cast(kind),
    "store_timestamp": lambda block, kind, _: pa.array(block.stored_ms * 1000).cast(kind),
    "reconsume_times": lambda block, kind, _: pa.array(block.reconsume_times).cast(kind),
}


def record_batch(
    data: bytes, schema: pa.Schema, queue: MessageQueue, offsets: range, tags: Sequence[str] = ()
) -> pa.RecordBatch:
    """The records in *data* as an Arrow batch of *schema*, whose names are those of ``COLUMNS``.

    Records outside of *offsets* are left out, and with *tags* also those with other tags: brokers
    compare only hash codes of tags.  Raises ``MessagesLost``, ``UnsupportedRecords``.
    """
    block = RecordColumns(data, queue)
    arrays = [COLUMNS[field.name](block, field.type, queue) for field in schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    inside = (block.offsets >= offsets.start) & (block.offsets < offsets.stop)
    if tags:
        wanted = pc.is_in(block.pairs.values_of(TAGS), pa.array(tags, pa.string()))
        inside &= wanted.to_numpy(zero_copy_only=False)
    return batch if inside.all() else batch.filter(pa.array(inside))


def _starts(data: bytes, queue: MessageQueue) -> Iterator[int]:
    """The position of each record in *data*; a record begins with its length."""
    at, end, number = 0, len(data), int.from_bytes
    while at < end:
        yield at
        size = number(data[at : at + 4], "big")
        if size < RECORD_BYTES_MIN or at + size > end:
            raise MessagesLost(f"an answer of {queue} holds a record that is cut short")
        at += size


def _texts(blocks: Sequence[bytes]) -> Array:
    """*blocks* as UTF-8; invalid bytes become U+FFFD, as in Java."""
    try:
        return pa.array(blocks, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(block, "utf-8", "replace") for block in blocks], pa.string())
