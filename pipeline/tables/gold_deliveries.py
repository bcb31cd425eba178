"""How long messages waited, how often they came, and what still waits at the end.

Names, units and meaning are those of the checkers ``waiting``, ``retries`` and ``duplicates``;
quantiles are exact here.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from emulator.facts import MessageSentBack, OffsetCommitted
from pipeline.tables.deliveries import DEAD, RECORD
from pipeline.tables.facts import ORDER, RUN, at, facts_of


def delivery_latency(deliveries: DataFrame) -> DataFrame:
    """One row a group and record: how long the first delivery took.  Retries wait as they must."""
    is_first = ~F.col("is_repeat") & (F.col("reconsume_times") == 0)
    return deliveries.where(is_first & F.col("stored_us").isNotNull()).select(
        *RUN,
        *ORDER,
        "group",
        "reader",
        *RECORD,
        "life",
        "stored_us",
        (F.col("mono_us") - F.col("stored_us")).alias("latency_us"),
    )


def delivery(
    delivery_latency: DataFrame, deliveries: DataFrame, failovers: DataFrame, members: DataFrame
) -> DataFrame:
    """One row a group: how long it waited; ``deliveries`` and ``repeats`` count what it got."""
    took = delivery_latency.groupBy(*RUN, "group").agg(
        F.expr("percentile_disc(0.5) within group (order by latency_us) / 1e3").alias(
            "deliver_ms_p50"
        ),
        F.expr("percentile_disc(0.99) within group (order by latency_us) / 1e3").alias(
            "deliver_ms_p99"
        ),
        (F.max("latency_us") / 1e3).alias("longest_deliver_ms"),
    )
    counts = deliveries.groupBy(*RUN, "group").agg(
        F.count("*").alias("deliveries"),
        F.count_if("is_repeat").alias("repeats"),
        F.count_if(~F.col("ok")).alias("failed_deliveries"),
    )
    failover = failovers.groupBy(*RUN, "group").agg(
        (F.max("waited_us") / 1e6).alias("consumer_failover_s")
    )
    numbers = (
        *("deliver_ms_p50", "deliver_ms_p99", "longest_deliver_ms", "consumer_failover_s"),
        *("deliveries", "repeats", "failed_deliveries"),
    )
    found = members.select(*RUN, "group").distinct()
    for other in (took, counts, failover):
        found = found.join(other, on=[*RUN, "group"], how="left")
    return found.select(
        *RUN, "group", *(F.coalesce(name, F.lit(0)).alias(name) for name in numbers)
    )


def retries(facts: DataFrame, messages: DataFrame, members: DataFrame) -> DataFrame:
    """One row a group: what was sent back, and what ended as a dead letter."""
    is_dead = F.col("target_topic").startswith(DEAD)
    sent_back = (
        facts_of(facts, MessageSentBack)
        .where(~is_dead)
        .groupBy(*RUN, "group")
        .agg(F.count("*").alias("sent_back"))
    )
    dead = (
        messages.where(F.col("topic_kind") == "dead")
        .groupBy(*RUN, F.expr(f"substring(queue.topic, {len(DEAD) + 1})").alias("group"))
        .agg(F.count("*").alias("dead_letters"))
    )
    return (
        members.select(*RUN, "group")
        .distinct()
        .join(sent_back, on=[*RUN, "group"], how="left")
        .join(dead, on=[*RUN, "group"], how="left")
        .select(
            *RUN,
            "group",
            F.coalesce("sent_back", F.lit(0)).alias("sent_back"),
            F.coalesce("dead_letters", F.lit(0)).alias("dead_letters"),
        )
    )


def offset_lag(facts: DataFrame, messages: DataFrame) -> DataFrame:
    """One row a group and queue that it committed: how far it was behind, at the end and at most.

    ``lag`` is the queue's end less the last committed offset; ``lag_max`` the most at a commit.
    """
    committed = facts_of(facts, OffsetCommitted).select(
        *RUN, "group", "queue", "offset", *ORDER, at()
    )
    ends = messages.select(*RUN, "queue", (F.col("offset") + 1).alias("stored_to"), *ORDER, at())
    of_queue = W.partitionBy(*RUN, "queue").orderBy("at")
    until_now = of_queue.rowsBetween(W.unboundedPreceding, W.currentRow)
    in_all = (
        W.partitionBy(*RUN, "queue")
        .orderBy("at")
        .rowsBetween(W.unboundedPreceding, W.unboundedFollowing)
    )
    return (
        committed.unionByName(ends, allowMissingColumns=True)
        .withColumns(
            {
                "end": F.coalesce(F.last("stored_to", ignorenulls=True).over(until_now), "offset"),
                "last_end": F.last("stored_to", ignorenulls=True).over(in_all),
            }
        )
        .where(F.col("group").isNotNull())
        .groupBy(*RUN, "group", "queue")
        .agg(
            F.max_by(F.coalesce("last_end", "offset") - F.col("offset"), "at").alias("lag"),
            F.max(F.greatest(F.col("end") - F.col("offset"), F.lit(0))).alias("lag_max"),
        )
    )
