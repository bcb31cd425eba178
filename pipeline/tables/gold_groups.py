"""How a group shared its queues: overlap and orphan time, churn, idle members, late passes.

Names, units and meaning are those of the checkers ``ownership``, ``churn``, ``idleness`` and
``passes``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from rocketmq_emulator.facts import ConsumerStopped, QueuesReleased, RebalancePassed
from rocketmq_emulator.pipeline.tables.deliveries import RETRY
from rocketmq_emulator.pipeline.tables.facts import RUN, at, facts_of
from rocketmq_emulator.pipeline.tables.ownership import QUEUE, is_member_at
from rocketmq_emulator.pipeline.tables.start_ups import startup_us

IDLE_US = 10_000_000
FAIR_MESSAGES_MIN = 5  # a member's even share of the messages that the others consumed meanwhile


def run_ends(facts: DataFrame) -> DataFrame:
    """One row per run: the time of its last fact."""
    return facts.groupBy(*RUN).agg(
        F.max("mono_us").alias("ended_us"), F.count("*").alias("fact_count")
    )


def overlap(
    ownership: DataFrame, run_ends: DataFrame, members: DataFrame, start_ups: DataFrame
) -> DataFrame:
    """One row per group: how long queues had two owners, the longest and the sum.

    Both without the group's start-up; ``startup_overlap_s`` is the longest in it, and
    ``startup_s`` how long it lasted.
    """
    is_retry = F.col("queue.topic").startswith(RETRY)
    begun = ownership.where(~is_retry).select(
        *QUEUE, F.col("from_us").alias("us"), F.lit(1).alias("step"), F.col("from_at").alias("at")
    )
    ended = ownership.where(~is_retry & F.col("until_us").isNotNull()).select(
        *QUEUE,
        F.col("until_us").alias("us"),
        F.lit(-1).alias("step"),
        F.col("until_at").alias("at"),
    )
    of_queue = W.partitionBy(*QUEUE).orderBy("us", "step", "at")
    until_now = of_queue.rowsBetween(W.unboundedPreceding, W.currentRow)
    startup = startup_us(F.col("us"), F.col("until_us"))
    spans = (
        begun.unionByName(ended)
        .join(run_ends, on=[*RUN], how="inner")
        .join(
            start_ups.drop("began_us").withColumnRenamed("until_us", "startup_until_us"),
            on=[*RUN, "group"],
            how="left",
        )
        .withColumns(
            {
                "owners": F.sum("step").over(until_now),
                "until_us": F.coalesce(F.lead("us").over(of_queue), "ended_us"),
            }
        )
        .withColumn("is_alone", F.when(F.col("owners") > 1, 0).otherwise(1))
        .withColumn("island", F.sum("is_alone").over(until_now))
    )
    longest = (
        spans.where(F.col("owners") > 1)
        .groupBy(*QUEUE, "island")
        .agg(
            F.sum(F.col("until_us") - F.col("us") - startup).alias("us"),
            F.sum(startup).alias("startup_us"),
        )
        .groupBy(*RUN, "group")
        .agg(
            (F.max("us") / 1e6).alias("overlap_s"),
            (F.max("startup_us") / 1e6).alias("startup_overlap_s"),
            (F.sum("us") / 1e6).alias("overlap_queue_s"),
        )
    )
    lasted_us = F.least("until_us", "ended_us") - F.col("began_us")
    lasted = start_ups.join(run_ends, on=[*RUN], how="inner").select(
        *RUN, "group", (lasted_us / 1e6).alias("startup_s")
    )
    names = ("startup_s", "overlap_s", "startup_overlap_s", "overlap_queue_s")
    return (
        members.select(*RUN, "group")
        .distinct()
        .join(lasted, on=[*RUN, "group"], how="left")
        .join(longest, on=[*RUN, "group"], how="left")
        .select(*RUN, "group", *(F.coalesce(name, F.lit(0.0)).alias(name) for name in names))
    )


def passes(facts: DataFrame, members: DataFrame, run_ends: DataFrame) -> DataFrame:
    """One row per group: the longest time that a running member made no pass over a topic."""
    passed = facts_of(facts, RebalancePassed).select(*RUN, "group", "node", "topic", at())
    memberships = members.select(*RUN, "group", "node", "from_at", "from_us", "until_us")
    topic = W.partitionBy(*RUN, "group", "node", "topic").orderBy("at")
    last_us = F.coalesce(F.lag("at.mono_us").over(topic), F.lit(0))
    gaps = (
        passed.withColumn("last_us", last_us)
        .join(memberships, on=[*RUN, "group", "node"], how="inner")
        .where(F.col("from_at") <= F.col("at"))
        .groupBy(*RUN, "group", "node", "topic", "at", "last_us")
        .agg(F.max("from_us").alias("from_us"))
        .select(
            *RUN,
            "group",
            (F.col("at.mono_us") - F.greatest("last_us", "from_us")).alias("gap_us"),
        )
    )
    stops = (
        facts_of(facts, ConsumerStopped)
        .groupBy(*RUN, "group", "node")
        .agg(F.max(at()).alias("stopped_at"))
    )
    is_over = F.col("stopped_at").isNotNull() & (F.col("stopped_at") > F.col("last_at"))
    open_gaps = (
        passed.groupBy(*RUN, "group", "node", "topic")
        .agg(F.max("at").alias("last_at"))
        .join(
            memberships.where(F.col("until_us").isNull()), on=[*RUN, "group", "node"], how="inner"
        )
        .join(stops, on=[*RUN, "group", "node"], how="left")
        .where(~is_over)
        .join(run_ends, on=[*RUN], how="inner")
        .select(
            *RUN,
            "group",
            (F.col("ended_us") - F.greatest("last_at.mono_us", "from_us")).alias("gap_us"),
        )
    )
    longest = gaps.unionByName(open_gaps).groupBy(*RUN, "group").agg(F.max("gap_us").alias("us"))
    return (
        members.select(*RUN, "group")
        .distinct()
        .join(longest, on=[*RUN, "group"], how="left")
        .select(*RUN, "group", (F.coalesce("us", F.lit(0)) / 1e6).alias("rebalance_gap_s"))
    )


def idleness(deliveries: DataFrame, members: DataFrame, run_ends: DataFrame) -> DataFrame:
    """One row per group: members without a message for 10 s while the others got enough.

    ``idle_ratio`` is ``idle_s`` divided by the sum of the members' running times.
    """
    shares = members.where(~F.col("broadcast"))
    gaps = _gaps(deliveries, shares, run_ends)
    when = F.col("gap.at")
    is_now = [F.col(f"seat.{name}") == F.col(f"gap.{name}") for name in (*RUN, "group")]
    living = (
        gaps.alias("gap")
        .join(shares.alias("seat"), on=[*is_now, is_member_at(when)], how="left")
        .groupBy(*(F.col(f"gap.{name}") for name in gaps.columns))
        .agg(F.count("seat.node").alias("living"))
    )
    fair = F.col("meanwhile") / F.greatest("living", F.lit(1))
    idle = (
        living.where((F.col("idle_us") > IDLE_US) & (fair >= FAIR_MESSAGES_MIN))
        .groupBy(*RUN, "group")
        .agg(
            (F.sum("idle_us") / 1e6).alias("idle_s"),
            F.count_distinct("node").alias("idle_members"),
        )
    )
    lived = (
        members.join(run_ends, on=[*RUN], how="inner")
        .groupBy(*RUN, "group")
        .agg((F.sum(F.coalesce("until_us", "ended_us") - F.col("from_us")) / 1e6).alias("lived_s"))
    )
    idle_s = F.coalesce("idle_s", F.lit(0.0))
    return lived.join(idle, on=[*RUN, "group"], how="left").select(
        *RUN,
        "group",
        idle_s.alias("idle_s"),
        F.coalesce("idle_members", F.lit(0)).alias("idle_members"),
        F.when(F.col("lived_s") > 0, idle_s / F.col("lived_s")).alias("idle_ratio"),
    )


def _gaps(deliveries: DataFrame, members: DataFrame, run_ends: DataFrame) -> DataFrame:
    """Each member's times without a message: at, idle_us, meanwhile (messages of the group)."""
    groups = F.broadcast(members.select(*RUN, "group").distinct())
    in_group = W.partitionBy(*RUN, "group").orderBy("at")
    of_node = W.partitionBy(*RUN, "group", "node").orderBy("at")
    taken = (
        deliveries.join(groups, on=[*RUN, "group"], how="left_semi")
        .select(*RUN, "group", "node", at())
        .withColumn("count", F.row_number().over(in_group))
    )
    known = taken.withColumns(
        {"last_us": F.lag("at.mono_us").over(of_node), "last_count": F.lag("count").over(of_node)}
    )
    is_long = F.col("last_us").isNull() | (F.col("at.mono_us") - F.col("last_us") > IDLE_US)
    during = known.where(is_long)
    totals = taken.groupBy(*RUN, "group").agg(F.max("count").alias("count"))
    last = taken.groupBy(*RUN, "group", "node").agg(
        F.max("at.mono_us").alias("last_us"), F.max("count").alias("last_count")
    )
    end = F.struct(
        F.coalesce("until_us", "ended_us").alias("mono_us"),
        F.lit(None).cast("long").alias("place"),
        F.lit("").alias("node"),
        F.lit(0).cast("long").alias("seq"),
    )
    at_end = (
        members.select(*RUN, "group", "node", "until_us")
        .join(run_ends, on=[*RUN], how="inner")
        .join(totals, on=[*RUN, "group"], how="inner")
        .join(last, on=[*RUN, "group", "node"], how="left")
        .select(*RUN, "group", "node", end.alias("at"), "count", "last_us", "last_count")
        .withColumn("is_end", F.lit(True))
    )
    both = during.unionByName(at_end, allowMissingColumns=True)
    return _since(both, members)


def _since(gaps: DataFrame, members: DataFrame) -> DataFrame:
    """Cut *gaps* at the member's start; of several starts on a node the last one counts."""
    memberships = members.select(*RUN, "group", "node", "from_at", "from_us")
    is_begun = F.col("is_end").isNotNull() | (F.col("from_at") <= F.col("at"))
    since_us = F.greatest(F.coalesce("last_us", "from_us"), "from_us")
    ended_at = F.struct(
        F.lit(2**62).alias("mono_us"), F.col("at.place"), F.col("at.node"), F.col("at.seq")
    )
    return (
        gaps.join(memberships, on=[*RUN, "group", "node"], how="inner")
        .where(is_begun)
        .groupBy(*(name for name in gaps.columns))
        .agg(F.max("from_us").alias("from_us"))
        .select(
            *RUN,
            "group",
            "node",
            F.when(F.col("is_end").isNull(), F.col("at")).otherwise(ended_at).alias("at"),
            (F.col("at.mono_us") - since_us).alias("idle_us"),
            (F.col("count") - F.coalesce("last_count", F.lit(0))).alias("meanwhile"),
        )
    )


def expired_queues(facts: DataFrame) -> DataFrame:
    """One row per group: the queues it released because no pull was seen for 120 s."""
    is_expired = F.col("reason") == "pull expired"
    return (
        facts_of(facts, QueuesReleased)
        .where(is_expired)
        .groupBy(*RUN, "group")
        .agg(F.sum(F.size("queues")).alias("expired_queues"))
    )
