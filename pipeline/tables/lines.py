"""Parses lines of journals: facts, and rejected rows with the reason for all other lines.

Spark reads files as text, in splits by bytes: a file of 10 M facts is twenty tasks, not one.  The
run of a line depends on its file alone.  A line that cannot be read becomes a row of its own and
does not fail the job; its reason has the same text as in the checkers.

Schema 1 had no ``mono_us`` (time is ``at_ms`` then), wrote a queue as a list of three or as two
fields of the broker's own fact, and had other names for some fields (``OLD_NAMES``).  Fields that
it did not have are null.  From schema 2 on, fields were only added.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from rocketmq_emulator.facts import SCHEMA_VERSION, all_facts
from rocketmq_emulator.pipeline.tables.facts import fact_fields, fact_struct, journal_schema
from rocketmq_emulator.pipeline.tables.journal_files import JournalRun

# Schema 1 -----------------------------------------------------------------------------


FIRST_SCHEMA = 1
OLD_NAMES = {  # kind: present name: name in schema 1
    "TopicCreated": {"read_queue_count": "read_queues", "write_queue_count": "write_queues"},
    "TopicChanged": {"read_queue_count": "read_queues", "write_queue_count": "write_queues"},
    "MembersNotified": {"connection_count": "connections"},
    "MessageStored": {"size_bytes": "size"},
    "SendRefused": {"response_code": "code"},
    "PullAnswered": {"response_code": "code", "message_count": "messages"},
    "OffsetCommitted": {"peer": "client"},
    "LogRecovered": {"message_count": "messages"},
    "LogTailCut": {"position": "at_position"},
    "OldestDropped": {"freed_bytes": "bytes_freed"},
    "RebalancePassed": {"queue_count": "queues", "own_count": "mine"},
    "BrokerRegistered": {"topic_count": "topics"},
    "WritePermChanged": {"topic_count": "topics"},
}
_TEXTS = T.MapType(T.StringType(), T.StringType())
_QUEUE = fact_fields()["queue"]


def fact_of_first_schema(value: Column) -> Column:
    """A line of schema 1 converted for ``parsed``: seq, at_ms, mono_us, node, kind, fact."""
    line = F.from_json(value, _TEXTS)
    fact = F.from_json(line["fact"], _TEXTS)
    at_ms = line["at_ms"].cast("long")
    fields = [_field(name, kind, fact, line["node"]) for name, kind in fact_fields().items()]
    return F.struct(
        line["seq"].cast("long").alias("seq"),
        at_ms.alias("at_ms"),
        (at_ms * 1_000).alias("mono_us"),
        line["node"].alias("node"),
        fact["kind"].alias("kind"),
        F.struct(*fields).alias("fact"),
        F.lit(False).alias("is_odd"),
    )


def _field(name: str, wanted: T.DataType, fact: Column, node: Column) -> Column:
    """The field *name* of *fact*, whose values are JSON texts."""
    text = F.when(F.lit(False), F.lit(None).cast("string"))
    for kind, names in OLD_NAMES.items():
        if name in names:
            text = text.when(fact["kind"] == kind, fact[names[name]])
        elif name in names.values():
            text = text.when(fact["kind"] == kind, F.lit(None))
    return _typed(text.otherwise(fact[name]), name, wanted, fact, node).alias(name)


def _typed(text: Column, name: str, wanted: T.DataType, fact: Column, node: Column) -> Column:
    if name == "queue":
        own = F.struct(
            fact["topic"].alias("topic"),
            node.alias("broker"),
            fact["queue_id"].cast("long").alias("queue_id"),
        )
        has_own = fact["queue_id"].isNotNull()
        return F.when(has_own, own).when(text.isNotNull(), _queue(_list_of(text)))
    if isinstance(wanted, T.ArrayType) and wanted.elementType == _QUEUE:
        lists = F.from_json(text, T.ArrayType(T.ArrayType(T.StringType())))
        return F.transform(lists, _queue)
    if isinstance(wanted, T.ArrayType):
        return F.from_json(text, wanted)
    return text.try_cast(wanted)


def _list_of(text: Column) -> Column:
    return F.from_json(text, T.ArrayType(T.StringType()))


def _queue(parts: Column) -> Column:
    return F.struct(
        parts[0].alias("topic"),
        parts[1].alias("broker"),
        parts[2].try_cast("long").alias("queue_id"),
    )


# Lines --------------------------------------------------------------------------------


TEXT_CHARS_MAX = 300  # of a rejected line
ROWS_OF_PARTITION = (1 << 33) - 1  # the bits of monotonically_increasing_id below the partition
LINE_BYTES_MAX = 1 << 26  # no journal has longer lines
BAD = "_bad"

_ENTRY = (
    T.StructType()
    .add("seq", T.LongType())
    .add("at_ms", T.LongType())
    .add("mono_us", T.LongType())
    .add("node", T.StringType())
)


def bronze_schema() -> T.StructType:
    """The columns of ``bronze_rows``: a journal's, and ``rejected``."""
    rejected = (
        T.StructType()
        .add("file", T.StringType())
        .add("block", T.LongType())
        .add("row", T.LongType())
        .add("reason", T.StringType())
        .add("text", T.StringType())
    )
    return journal_schema().add("rejected", rejected)


def lines_of(spark: SparkSession, runs: Mapping[str, JournalRun]) -> DataFrame:
    """Every line of the files that *runs* names: scenario, run, file, is_alone (its run has one
    file), block (the first byte of its split), row, value.
    """
    text = (
        spark.read.option("lineSep", "\n")
        .option("mapreduce.input.linerecordreader.line.maxlength", str(LINE_BYTES_MAX))
        .text([_without_wildcards(path) for path in runs])
    )
    # Spark has its own escapes in file names (%20 and others), so the names come from Spark.
    coded = [urlsplit(name).path for name in text.inputFiles()]
    known = {unquote(name): name for name in coded}
    rows = [
        (known[path], path, run.scenario, run.run, len(run.files) == 1)
        for path, run in runs.items()
        if path in known  # Spark leaves out empty files
    ]
    columns = "name string, file string, scenario string, run string, is_alone boolean"
    files = F.broadcast(spark.createDataFrame(rows, columns))
    return text.select(
        F.regexp_replace("_metadata.file_path", "^[a-z0-9]+:/+", "/").alias("name"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().bitwiseAND(F.lit(ROWS_OF_PARTITION)).alias("row"),
        "value",
    ).join(files, on="name", how="inner")


def parsed(lines: DataFrame, schema: int) -> DataFrame:
    """*lines* of *schema* without blank ones; adds ``entry`` and ``reason`` (null: a fact)."""
    is_blank = F.length(F.trim("value")) == 0
    return (
        lines.where(~is_blank)
        .withColumn("entry", READERS[schema](F.col("value")))
        .withColumn("reason", _reason(schema))
    )


def bronze_rows(read: DataFrame) -> DataFrame:
    """The result of ``parsed`` with each line as a fact (``journal_schema``) or ``rejected``."""
    # A partition has at most one split, so this number grows within a file.
    place = F.when(F.col("is_alone"), F.col("block") + F.col("row"))
    # Cut first: a line may be a whole foreign file, and may be invalid UTF-8.
    text = F.make_valid_utf8(F.substring("value", 1, TEXT_CHARS_MAX))
    is_fact = F.col("reason").isNull()
    return read.select(
        "scenario",
        "run",
        "entry.seq",
        "entry.at_ms",
        "entry.mono_us",
        "entry.node",
        place.alias("place"),
        F.when(is_fact, F.col("entry.kind")).alias("kind"),
        F.when(is_fact, F.col("entry.fact")).alias("fact"),
        F.when(~is_fact, F.struct("file", "block", "row", "reason", text.alias("text"))).alias(
            "rejected"
        ),
    )


def rejected_rows(bronze: DataFrame, lines: DataFrame) -> DataFrame:
    """The rejected rows of *bronze*: scenario, run, file, line, reason, text."""
    in_file = W.partitionBy("file").orderBy("block").rowsBetween(W.unboundedPreceding, -1)
    blocks = (
        lines.groupBy("file", "block")
        .agg(F.min("row").alias("first_row"), F.count("*").alias("count"))
        .withColumn("before", F.coalesce(F.sum("count").over(in_file), F.lit(0)))
        .select("file", "block", "first_row", "before")
    )
    line = F.col("before") + F.col("row") - F.col("first_row") + 1
    return (
        bronze.where(F.col("rejected").isNotNull())
        .select("scenario", "run", "rejected.*")
        .join(blocks, on=["file", "block"], how="inner")
        .select("scenario", "run", "file", line.alias("line"), "reason", "text")
    )


# Inside -----------------------------------------------------------------------------------


def _entry(value: Column) -> Column:
    """A line of the current schema: seq, at_ms, mono_us, node, kind, fact, is_odd."""
    tagged = T.StructType([T.StructField("kind", T.StringType()), *fact_struct()])
    schema = T.StructType([*_ENTRY, T.StructField("fact", tagged)]).add(BAD, T.StringType())
    found = F.from_json(value, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD})
    return F.struct(
        *(found[name].alias(name) for name in _ENTRY.names),
        found["fact"]["kind"].alias("kind"),
        found["fact"].dropFields("kind").alias("fact"),
        found[BAD].isNotNull().alias("is_odd"),
    )


READERS = {  # from schema 2 on, fields were only added
    FIRST_SCHEMA: fact_of_first_schema,
    **dict.fromkeys(range(FIRST_SCHEMA + 1, SCHEMA_VERSION + 1), _entry),
}


def _reason(schema: int) -> Column:
    """The reason why the line is not a fact; null if it is one."""
    entry, kind, value = F.col("entry"), F.col("entry.kind"), F.col("value")
    kinds = [each.__name__ for each in all_facts()]
    is_json = F.from_json(value, T.MapType(T.StringType(), T.StringType())).isNotNull()
    lacks = F.greatest(*(entry[name].isNull() for name in _ENTRY.names), kind.isNull())
    return (
        F.when((entry["is_odd"] | lacks) & ~is_json, F.lit("no JSON object: cut off, or damaged"))
        .when(lacks, F.lit("JSON, and no fact: it lacks seq, at_ms, mono_us, node or fact.kind"))
        .when(
            ~kind.isin(kinds),
            F.concat(kind, F.lit(f" is no fact of schema {schema}: a newer emulator's?")),
        )
        .when(
            entry["is_odd"],
            F.concat(F.lit("a "), kind, F.lit(f" that is not as schema {schema} says")),
        )
    )


def _without_wildcards(path: str) -> str:
    """*path* with ``*``, ``{a,b}`` and other wildcards escaped for Spark."""
    return "".join(f"\\{letter}" if letter in "\\*?[]{}" else letter for letter in path)
