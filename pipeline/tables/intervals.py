"""The tables of intervals: faults, and the members of groups.

A fault has the nodes that it touched and the reason of its end.  A consumer ends at its own
ConsumerStopped, at a fault that ends its process, or when another one starts in its place,
whichever comes first.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    FaultEnded,
    NodeKilled,
    PowerLost,
)
from rocketmq_emulator.pipeline.tables.facts import RUN, at, facts_of

# Faults -------------------------------------------------------------------------------


PROCESS_ENDING = ("kill", "stop", "power_off")  # verbs of faults that end a process


def faults(facts: DataFrame) -> DataFrame:
    """One row per fault; ``ended_us`` is null if it lasted to the end of the run."""
    began = facts_of(facts, FaultBegan).select(
        *RUN,
        "fault_id",
        F.get_json_object("fault", "$.fault").alias("word"),
        "fault",
        "nodes",
        F.col("mono_us").alias("began_us"),
        at().alias("began_at"),
    )
    ended = facts_of(facts, FaultEnded).select(
        *RUN,
        "fault_id",
        F.col("mono_us").alias("ended_us"),
        at().alias("ended_at"),
        "reason",
        "acted_count",
    )
    return began.join(ended, on=[*RUN, "fault_id"], how="left").select(
        *RUN,
        "fault_id",
        "word",
        "fault",
        "nodes",
        "began_us",
        "ended_us",
        "reason",
        "acted_count",
        "began_at",
        "ended_at",
    )


# Members ------------------------------------------------------------------------------


def members(facts: DataFrame, faults: DataFrame) -> DataFrame:
    """One row per start of a consumer; ``until_us`` is null if it ran to the end of the run."""
    started = facts_of(facts, ConsumerStarted).select(
        *RUN,
        "group",
        "node",
        "client",
        "consumer_kind",
        "broadcast",
        "orderly",
        "topics",
        "expressions",
        "release",
        F.col("mono_us").alias("from_us"),
        at().alias("from_at"),
    )
    ends = _ends(facts, faults)
    is_end_of = F.col("end.at") > F.col("started.from_at")
    is_of_group = F.col("end.group").isNull() | (F.col("end.group") == F.col("started.group"))
    is_same = [F.col(f"end.{name}") == F.col(f"started.{name}") for name in (*RUN, "node")]
    first_end = (
        started.alias("started")
        .join(ends.alias("end"), on=[*is_same, is_end_of & is_of_group], how="inner")
        .groupBy(*(f"started.{name}" for name in (*RUN, "group", "node", "from_at")))
        .agg(F.min(F.struct("end.at", "end.mono_us", "end.was_killed")).alias("end"))
    )
    return started.join(first_end, on=[*RUN, "group", "node", "from_at"], how="left").select(
        *(name for name in started.columns if name != "from_at"),
        F.col("end.mono_us").alias("until_us"),
        F.coalesce(F.col("end.was_killed"), F.lit(False)).alias("was_killed"),
        "from_at",
        F.col("end.at").alias("until_at"),
    )


def _ends(facts: DataFrame, faults: DataFrame) -> DataFrame:
    """The ends of consumers: run, node, group (null: all), at, mono_us, was_killed."""
    columns = (*RUN, "node", "group", "at", "mono_us", "was_killed")
    any_group = F.lit(None).cast("string").alias("group")
    killed = F.lit(True).alias("was_killed")
    own = facts_of(facts, ConsumerStopped, ConsumerStarted).withColumns(
        {"at": at(), "was_killed": F.col("kind") == ConsumerStarted.__name__}
    )
    by_hand = facts_of(facts, NodeKilled).select(
        *RUN, F.col("fact_node").alias("node"), any_group, at(), "mono_us", killed
    )
    without_power = facts_of(facts, PowerLost).select(
        *RUN, "node", any_group, at(), "mono_us", killed
    )
    is_ending = F.col("word").isin(*PROCESS_ENDING)
    by_fault = faults.where(is_ending).select(
        *RUN,
        F.explode("nodes").alias("node"),
        any_group,
        F.col("began_at").alias("at"),
        F.col("began_us").alias("mono_us"),
        killed,
    )
    found = own.select(*columns)
    for other in (by_hand, without_power, by_fault):
        found = found.unionByName(other.select(*columns))
    return found
