"""A journal as a table: one row per fact, one column per field of any kind of fact.

    facts_of(journal, MessageStored).groupBy("queue").count()

A field name has one type in all facts, so all fields of all kinds fit into one struct, ``fact``.
In Parquet a null column costs almost no space and a column that is not selected is not read;
text would have to be parsed by every query.  The order of a run is ``ORDER``: time,
then the place in the file (a run in one file), then node and number (a run in several).
"""

from __future__ import annotations

from functools import cache

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as PySpark's own pages name it
from pyspark.sql import types as T  # noqa: N812

from rocketmq_emulator.facts import Fact, all_facts
from rocketmq_emulator.facts.journal import EntryKey
from rocketmq_emulator.pipeline.schemas import spark_schema

RUN = ("scenario", "run")  # the run of a row: columns of every table, and its partitions on disk
ORDER = ("mono_us", "place", "node", "seq")
ENVELOPE = (*RUN, "seq", "at_ms", "mono_us", "node", "place")
OF_FACT = "fact_"  # prefix of a field of a fact that has the name of a column in ``ENVELOPE``


@cache
def fact_fields() -> dict[str, T.DataType]:
    """Every field of every kind of fact, by name."""
    found: dict[str, T.DataType] = {}
    for kind in all_facts():
        for field in spark_schema(kind):
            known = found.setdefault(field.name, field.dataType)
            assert known == field.dataType, (
                f"{kind.__name__}.{field.name} differs in type from {known}"
            )
    return dict(sorted(found.items()))


def fact_struct() -> T.StructType:
    """The column ``fact``: all fields of all kinds."""
    return T.StructType([T.StructField(name, kind) for name, kind in fact_fields().items()])


def journal_schema() -> T.StructType:
    """The columns of a journal's table."""
    key = spark_schema(EntryKey)
    return (
        T.StructType()
        .add("scenario", T.StringType())
        .add("run", T.StringType())
        .add("seq", key["seq"].dataType)
        .add("at_ms", T.LongType())
        .add("mono_us", key["mono_us"].dataType)
        .add("node", key["node"].dataType)
        .add("place", T.LongType())
        .add("kind", T.StringType())
        .add("fact", fact_struct())
    )


def facts_of(journal: DataFrame, kind: type[Fact], *more: type[Fact]) -> DataFrame:
    """The facts of *kind*, with exactly its fields and their types, beside ``ENVELOPE``.

    With *more* kinds: the facts of all kinds, with the fields that any of them has, and ``kind``.
    A field that a journal omits because it has its default has that default here.
    A field with a name in ``ENVELOPE`` (``NodeKilled.node``) is called ``fact_node``.
    """
    kinds = (kind, *more)
    names = dict.fromkeys(
        field.encode_name for each in kinds for field in msgspec.structs.fields(each)
    )
    wanted = [each.__name__ for each in kinds]
    is_wanted = F.col("kind") == wanted[0] if not more else F.col("kind").isin(wanted)
    absent = {
        field.encode_name: field.default
        for each in kinds
        if each.__struct_config__.omit_defaults
        for field in msgspec.structs.fields(each)
        if field.default is not msgspec.NODEFAULT
    }
    fields = [
        (
            F.coalesce(F.col(f"fact.{name}"), _constant(absent[name], name))
            if name in absent and not more
            else F.col(f"fact.{name}")
        ).alias(column_of(name))
        for name in names
    ]
    tag = ["kind"] if more else []
    return journal.where(is_wanted).select(*ENVELOPE, *tag, *fields)


def _constant(value: object, field: str) -> Column:
    """*value* with the type of *field*: Spark has no literal for an empty list."""
    return F.array().cast(fact_fields()[field]) if value == () else F.lit(value)


def column_of(field: str) -> str:
    """The name of the column that ``facts_of`` gives to *field*."""
    return OF_FACT + field if field in ENVELOPE else field


def at() -> Column:
    """``ORDER`` as one struct that can be compared within a run."""
    return F.struct(*ORDER).alias("at")
