"""The schema of a table, derived from the struct whose values are its rows.

    spark_schema(MessageStored)    StructType of a DataFrame
    arrow_schema(RunResult)        schema of Arrow batches and Parquet files
    arrow_batch(RunResult, rows)   the values as one batch

So writer and reader have the same columns: a field added to a struct becomes a column, and a
field of an unsupported type raises ``NoTableType`` before anything is written.

Struct → struct, list and tuple → array, dict → map, ``Literal`` → string, ``X | None`` → nullable.
A value that may be of several plain types (``int | str``) becomes its JSON text: ``"true"``,
``"3"``, ``"0.5"``; a string stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import inspect
from pyspark.sql import types as T  # noqa: N812  # as PySpark's own pages name it

from rocketmq_emulator.protocol.error_families import Misuse

if TYPE_CHECKING:
    import pyarrow as pa

SPARK_TYPES: dict[type[inspect.Type], T.DataType] = {
    inspect.BoolType: T.BooleanType(),
    inspect.IntType: T.LongType(),
    inspect.FloatType: T.DoubleType(),
    inspect.StrType: T.StringType(),
    inspect.BytesType: T.BinaryType(),
}
PLAIN = (inspect.BoolType, inspect.IntType, inspect.FloatType, inspect.StrType)  # in unions
LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)


class NoTableType(Misuse, TypeError):
    """A field of a struct cannot be a column; nothing was written.  The text names the field."""


def spark_schema(struct: type[msgspec.Struct]) -> T.StructType:
    """A column for each field of *struct*, in the order of the fields, with their JSON names.

    Raises ``NoTableType``.
    """
    found = inspect.type_info(struct)
    assert isinstance(found, inspect.StructType), f"{struct} is no struct"
    return _struct(found, struct.__name__)


def arrow_schema(struct: type[msgspec.Struct]) -> pa.Schema:
    """``spark_schema`` as an Arrow schema.  Raises ``NoTableType``."""
    import pyarrow as pa  # noqa: PLC0415  # takes 0.3 s: loaded only for writing

    return pa.schema(
        [
            pa.field(field.name, _arrow(field.dataType), nullable=field.nullable)
            for field in spark_schema(struct)
        ]
    )


def arrow_batch(struct: type[msgspec.Struct], values: Iterable[msgspec.Struct]) -> pa.RecordBatch:
    """*values*, all of type *struct*, as rows.  Raises ``NoTableType``."""
    import pyarrow as pa  # noqa: PLC0415

    schema = spark_schema(struct)
    rows = [_cell(msgspec.to_builtins(value), schema) for value in values]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(struct))


# Types ------------------------------------------------------------------------------------


def _struct(found: inspect.StructType, place: str) -> T.StructType:
    return T.StructType(
        [
            T.StructField(field.encode_name, *_column(field.type, f"{place}.{field.name}"))
            for field in found.fields
        ]
    )


def _column(found: inspect.Type, place: str) -> tuple[T.DataType, bool]:
    """The column's type, and whether it may be null."""
    if isinstance(found, inspect.Metadata):
        return _column(found.type, place)
    if not isinstance(found, inspect.UnionType):
        return _one(found, place), False
    choices = [each for each in found.types if not isinstance(each, inspect.NoneType)]
    is_nullable = len(choices) < len(found.types)
    if len(choices) == 1:
        return _one(choices[0], place), is_nullable
    if all(isinstance(each, PLAIN) for each in choices):
        return T.StringType(), is_nullable
    names = " or ".join(type(each).__name__ for each in choices)
    raise NoTableType(f"{place} may be {names}: a column has one type")


def _one(found: inspect.Type, place: str) -> T.DataType:
    if (plain := SPARK_TYPES.get(type(found))) is not None:
        return plain
    if isinstance(found, inspect.LiteralType):
        return _literal(found, place)
    if isinstance(found, inspect.StructType):
        return _struct(found, place)
    if isinstance(found, LISTS):
        item, may_be_null = _column(found.item_type, f"{place}[]")
        return T.ArrayType(item, may_be_null)
    if isinstance(found, inspect.DictType):
        key, _ = _column(found.key_type, f"{place} (a key)")
        value, may_be_null = _column(found.value_type, f"{place} (a value)")
        return T.MapType(key, value, may_be_null)
    raise NoTableType(
        f"{place} is a {type(found).__name__.removesuffix('Type')}, which no table has: give it a "
        "type of pipeline/schemas.py, or add this type to that file"
    )


def _literal(found: inspect.LiteralType, place: str) -> T.DataType:
    if all(isinstance(value, str) for value in found.values):
        return T.StringType()
    if all(isinstance(value, int) for value in found.values):
        return T.LongType()
    raise NoTableType(f"{place} is one of {found.values}: a column has one type")


def _arrow(found: T.DataType) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415  # needs pyarrow

    return to_arrow_type(found)


# Values -----------------------------------------------------------------------------------


def _cell(value: object, wanted: T.DataType) -> object:
    """*value*, of a JSON type, converted to the column type *wanted*."""
    if value is None:
        return None
    if isinstance(wanted, T.StructType):
        assert isinstance(value, Mapping)
        return {field.name: _cell(value.get(field.name), field.dataType) for field in wanted}
    if isinstance(wanted, T.ArrayType):
        assert isinstance(value, Sequence)
        return [_cell(item, wanted.elementType) for item in value]
    if isinstance(wanted, T.MapType):
        assert isinstance(value, Mapping)
        return [(name, _cell(item, wanted.valueType)) for name, item in value.items()]
    if isinstance(wanted, T.StringType) and not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return value
