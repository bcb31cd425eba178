"""Start-ups: until when the first members of each group were getting their queues.

The first members start within ``FIRST_US`` of the group's first one.  Each has settled with a
topic when its last rebalance listed all of them that ran, and it holds as many queues of the topic
as that rebalance gave it.  The start-up ends when all have settled with all topics, or have ended,
or with the first fault, or end of a broker's process, after its begin.
Its limits and its meaning are those of the checkers (``StartUps``).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from rocketmq_emulator.facts import (
    FaultBegan,
    NodeKilled,
    NodeStopped,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
)
from rocketmq_emulator.pipeline.tables.facts import RUN, at, facts_of

FIRST_US = 2_000_000
START_UP_US_MAX = 60_000_000
BROKER = "broker"  # role of a node
GROUP = (*RUN, "group")
MEMBER = (*GROUP, "node", "from_at")


def start_ups(facts: DataFrame, members: DataFrame, topic_sizes: DataFrame) -> DataFrame:
    """One row per group whose first member subscribes a topic that a broker had.

    Its start-up lasted from ``began_us`` to ``until_us``.
    """
    first = _first_members(members)
    topics = _topics(first, topic_sizes)
    settled = _settled(facts, first, topics)
    earliest_us = F.col("began_us") + FIRST_US
    longest_us = F.least(
        F.col("began_us") + START_UP_US_MAX, F.greatest(F.col("hit_us"), earliest_us)
    )
    end_us = F.least(
        F.coalesce("settled_us", "until_us"), F.coalesce("until_us", "settled_us"), longest_us
    )
    return (
        first.join(topics.select(*GROUP).distinct(), on=[*GROUP], how="left_semi")
        .join(settled, on=[*MEMBER], how="left")
        .join(_first_hits(facts, first), on=[*GROUP], how="left")
        .withColumn("end_us", F.coalesce(end_us, longest_us))
        .groupBy(*GROUP, "began_us")
        .agg(F.max(F.greatest(F.col("end_us"), earliest_us)).alias("until_us"))
    )


def _first_hits(facts: DataFrame, first: DataFrame) -> DataFrame:
    """The first fault, or end of a broker's process, after the begin of a group: GROUP, hit_us."""
    is_other_node = (F.col("kind") == NodeStopped.__name__) & (F.col("role") != BROKER)
    hits = (
        facts_of(facts, FaultBegan, NodeKilled, NodeStopped)
        .where(~is_other_node)
        .select(*RUN, "mono_us")
    )
    return (
        first.select(*GROUP, "began_us")
        .distinct()
        .join(hits, on=[*RUN], how="inner")
        .where(F.col("mono_us") >= F.col("began_us"))
        .groupBy(*GROUP)
        .agg(F.min("mono_us").alias("hit_us"))
    )


def startup_us(from_us: Column, until_us: Column) -> Column:
    """How much of a time lies before the end of the start-up, ``startup_until_us``; null: none."""
    up_us = F.coalesce("startup_until_us", F.lit(0))
    return F.greatest(F.least(until_us, up_us) - from_us, F.lit(0))


def _first_members(members: DataFrame) -> DataFrame:
    """``members`` that share queues and start with the group; and began_us, that of its first."""
    group = W.partitionBy(*GROUP)
    return (
        members.where(~F.col("broadcast") & (F.col("consumer_kind") != "pull"))
        .withColumn("began_us", F.min("from_us").over(group))
        .withColumn("is_very_first", F.col("from_at") == F.min("from_at").over(group))
        .where(F.col("from_us") <= F.col("began_us") + FIRST_US)
    )


def _topics(first: DataFrame, topic_sizes: DataFrame) -> DataFrame:
    """The topics of each group's very first member that a broker had before: GROUP, topic."""
    sized = topic_sizes.where(F.col("queue_count") > 0).select(
        *RUN, "topic", F.col("at").alias("shaped_at")
    )
    return (
        first.where("is_very_first")
        .select(*GROUP, "from_at", F.explode("topics").alias("topic"))
        .join(sized, on=[*RUN, "topic"], how="inner")
        .where(F.col("shaped_at") < F.col("from_at"))
        .select(*GROUP, "topic")
        .distinct()
    )


def _settled(facts: DataFrame, first: DataFrame, topics: DataFrame) -> DataFrame:
    """When each first member had settled with all topics: MEMBER, settled_us; no row: never."""
    wanted = (
        first.select(*MEMBER, F.explode("topics").alias("topic"))
        .join(topics, on=[*GROUP, "topic"], how="left_semi")
        .groupBy(*MEMBER)
        .agg(F.count("*").alias("topic_count"))
    )
    in_order = W.partitionBy(*MEMBER, "topic").orderBy("at")
    until_now = in_order.rowsBetween(W.unboundedPreceding, W.currentRow)
    given = F.last(F.when(F.col("is_pass"), F.struct("own_count")), ignorenulls=True)
    has_settled = given.over(until_now)["own_count"] == F.sum("step").over(until_now)
    return (
        _steps(facts, first)
        .join(topics, on=[*GROUP, "topic"], how="left_semi")
        .withColumn("has_settled", has_settled)
        .where("has_settled")
        .groupBy(*MEMBER, "topic")
        .agg(F.min("at.mono_us").alias("us"))
        .groupBy(*MEMBER)
        .agg(F.max("us").alias("settled_us"), F.count("*").alias("settled_count"))
        .join(wanted, on=[*MEMBER], how="inner")
        .where(F.col("settled_count") == F.col("topic_count"))
        .select(*MEMBER, "settled_us")
    )


def _steps(facts: DataFrame, first: DataFrame) -> DataFrame:
    """Rebalances and changes of held queues: MEMBER, topic, at, is_pass, own_count, step.

    ``own_count`` is null if the rebalance did not list all first members that had not ended.
    """
    span = first.select(*MEMBER, "until_at")
    runs = (F.col("from_at") <= F.col("at")) & (
        F.col("until_at").isNull() | (F.col("at") < F.col("until_at"))
    )
    passed = facts_of(facts, RebalancePassed).select(
        *GROUP, "node", "topic", at(), "members", "own_count"
    )
    others = first.select(
        *GROUP, F.col("client").alias("other"), F.col("until_at").alias("other_until_at")
    )
    is_needed = F.col("other_until_at").isNull() | (F.col("at") < F.col("other_until_at"))
    passes = (
        passed.join(others, on=[*GROUP], how="inner")
        .withColumn("lacks", is_needed & ~F.array_contains("members", F.col("other")))
        .groupBy(*passed.columns)
        .agg(F.max("lacks").alias("lacks"))
        .select(
            *(*GROUP, "node", "topic", "at"),
            F.when(~F.col("lacks"), F.col("own_count")).alias("own_count"),
            F.lit(True).alias("is_pass"),
            F.lit(0).alias("step"),
        )
    )
    sign = F.when(F.col("kind") == QueuesClaimed.__name__, 1).otherwise(-1)
    changed = (
        facts_of(facts, QueuesClaimed, QueuesReleased)
        .select(*GROUP, "node", F.explode("queues").alias("queue"), at(), sign.alias("sign"))
        .groupBy(*GROUP, "node", F.col("queue.topic").alias("topic"), "at")
        .agg(F.sum("sign").alias("step"))
        .withColumns({"is_pass": F.lit(False), "own_count": F.lit(None).cast("long")})
    )
    steps = passes.unionByName(changed.select(*passes.columns))
    return steps.join(span, on=[*GROUP, "node"], how="inner").where(runs).drop("until_at")
