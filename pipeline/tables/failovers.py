"""Queues whose owner was hit by a fault: how long until somebody consumed from them again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from emulator.facts import NodeKilled, QueuesClaimed
from pipeline.tables.facts import RUN, at, facts_of

STOPPING = ("kill", "stop", "power_off", "pause")  # words of faults that hand queues over
QUEUE = (*RUN, "group", "queue")


def failovers(facts: DataFrame, delivery_latency: DataFrame, faults: DataFrame) -> DataFrame:
    """One row each time that a queue's owner was hit: until its next message was consumed.

    From the fault, or from when that message was stored if that was later.
    """
    before = W.partitionBy(*QUEUE).orderBy("at").rowsBetween(W.unboundedPreceding, -1)
    fault_us, is_taken = F.col("last_hit.mono_us"), F.col("stored_us").isNotNull()
    last_hit = F.last(F.when(~is_taken, F.col("at")), ignorenulls=True)
    last_taken = F.last(F.when(is_taken, F.col("at")), ignorenulls=True)
    is_open = F.col("last_hit") > F.col("last_taken")
    return (
        _hits_and_deliveries(facts, delivery_latency, faults)
        .withColumns({"last_hit": last_hit.over(before), "last_taken": last_taken.over(before)})
        .where(is_taken & is_open)
        .select(
            *QUEUE,
            fault_us.alias("fault_us"),
            F.col("at.mono_us").alias("delivered_us"),
            (F.col("at.mono_us") - F.greatest(fault_us, F.col("stored_us"))).alias("waited_us"),
        )
    )


def _hits_and_deliveries(
    facts: DataFrame, delivery_latency: DataFrame, faults: DataFrame
) -> DataFrame:
    """QUEUE, at, stored_us: of a first delivery; null: the queue's owner was hit.

    The owner is who claimed the queue last.  A queue counts from its first delivery on.
    """
    claimed = facts_of(facts, QueuesClaimed).select(
        *RUN, "group", F.explode("queues").alias("queue"), F.col("node").alias("owner"), at()
    )
    by_fault = faults.where(F.col("word").isin(*STOPPING)).select(
        *RUN, F.explode("nodes").alias("hit"), F.col("began_at").alias("at")
    )
    by_hand = facts_of(facts, NodeKilled).select(*RUN, F.col("fact_node").alias("hit"), at())
    held = claimed.select(*QUEUE, F.col("owner").alias("hit")).distinct()
    hits = by_fault.unionByName(by_hand).join(held, on=[*RUN, "hit"], how="inner")
    taken = delivery_latency.where(F.col("reader") == F.col("group")).select(
        *QUEUE, "stored_us", at()
    )
    in_order = W.partitionBy(*QUEUE).orderBy("at")
    until_now = in_order.rowsBetween(W.unboundedPreceding, W.currentRow)
    is_hit = (F.col("hit") == F.col("last_owner")) & (F.col("taken") > 0)
    return (
        claimed.unionByName(hits, allowMissingColumns=True)
        .unionByName(taken, allowMissingColumns=True)
        .withColumns(
            {
                "last_owner": F.last("owner", ignorenulls=True).over(until_now),
                "taken": F.count("stored_us").over(until_now),
            }
        )
        .where(is_hit | F.col("stored_us").isNotNull())
        .select(*QUEUE, "at", "stored_us")
    )
