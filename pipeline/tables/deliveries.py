"""Each delivery, each stored message, and the metrics computed from them.

A broker that lost the end of its log uses offsets again, so a record is a queue, an offset and a
``life``: 1 for the first message that was stored there, 2 for the next.  A reader is a group, or
each single member of a broadcasting group.  ``failovers`` has the queues whose owner was hit by a
fault: how long their messages waited until one was consumed again.

Names, units and meaning of the numbers are those of the checkers ``waiting``, ``retries`` and
``duplicates``; quantiles are exact here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from rocketmq_emulator.facts import (
    MessageConsumed,
    MessagePolled,
    MessageSent,
    MessageSentBack,
    MessageStored,
    NodeKilled,
    OffsetCommitted,
    QueuesClaimed,
)
from rocketmq_emulator.pipeline.tables.facts import ORDER, RUN, at, facts_of
from rocketmq_emulator.pipeline.tables.intervals import PROCESS_ENDING

RECORD = ("queue", "offset")
RETRY, DEAD = "%RETRY%", "%DLQ%"  # prefixes of the topics of a group
WAITING = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")


def deliveries(facts: DataFrame, members: DataFrame) -> DataFrame:
    """One row per message given to a listener or a poll; ``delivery`` is its number: 1, 2, …

    ``is_repeat``: the reader had consumed this record before.
    """
    taken = _taken(facts, members)
    stored = facts_of(facts, MessageStored).withColumn("stored_us", F.col("mono_us"))
    until_now = (
        W.partitionBy(*RUN, *RECORD)
        .orderBy(*ORDER)
        .rowsBetween(W.unboundedPreceding, W.currentRow)
    )
    known = taken.unionByName(stored, allowMissingColumns=True).withColumns(
        {
            "life": F.count("stored_us").over(until_now),
            "stored_us": F.last("stored_us", ignorenulls=True).over(until_now),
        }
    )
    of_reader = W.partitionBy(*RUN, *RECORD, "life", "reader").orderBy(*ORDER)
    before = of_reader.rowsBetween(W.unboundedPreceding, -1)
    is_done = F.col("ok") | F.col("is_broadcast")  # a broadcasting consumer drops failed messages
    return known.where(F.col("reader").isNotNull()).select(
        *RUN,
        *ORDER,
        "group",
        "reader",
        *RECORD,
        "life",
        "uniq_key",
        "ok",
        "is_polled",
        "is_broadcast",
        "reconsume_times",
        "stored_us",
        F.row_number().over(of_reader).alias("delivery"),
        (F.count_if(is_done).over(before) > 0).alias("is_repeat"),
    )


def messages(facts: DataFrame, deliveries: DataFrame) -> DataFrame:
    """One row per record: when stored, acknowledged, how often delivered, sent back."""
    sent = (
        facts_of(facts, MessageSent)
        .groupBy(*RUN, *RECORD, "uniq_key")
        .agg(F.min("mono_us").alias("sent_us"), F.min("attempts").alias("attempts"))
    )
    taken = deliveries.groupBy(*RUN, *RECORD, "life").agg(
        F.count("*").alias("deliveries"),
        F.count_if("ok").alias("consumed"),
        F.count_if(~F.col("ok")).alias("failed"),
        F.count_distinct("reader").alias("readers"),
        F.min("mono_us").alias("first_delivered_us"),
    )
    sent_back = (
        facts_of(facts, MessageSentBack)
        .groupBy(*RUN, F.col("node").alias("broker"), F.col("origin_position").alias("position"))
        .agg(F.count("*").alias("sent_back"))
    )
    counts = ("deliveries", "consumed", "failed", "readers", "sent_back")
    return (
        _records(facts)
        .withColumn("broker", F.col("queue.broker"))
        .join(sent, on=[*RUN, *RECORD, "uniq_key"], how="left")
        .join(taken, on=[*RUN, *RECORD, "life"], how="left")
        .join(sent_back, on=[*RUN, "broker", "position"], how="left")
        .select(
            *RUN,
            *RECORD,
            "life",
            "uniq_key",
            "topic_kind",
            "stored_us",
            "size_bytes",
            "sent_us",
            "attempts",
            "first_delivered_us",
            *(F.coalesce(name, F.lit(0)).alias(name) for name in counts),
            *ORDER,
        )
    )


def kind_of_topic(topic: Column) -> Column:
    """The kind of *topic*: topic, retry, dead (letters), waiting (delayed messages)."""
    return (
        F.when(topic.startswith(RETRY), "retry")
        .when(topic.startswith(DEAD), "dead")
        .when(topic.isin(*WAITING), "waiting")
        .otherwise("topic")
    )


def _taken(facts: DataFrame, members: DataFrame) -> DataFrame:
    """Messages given to listeners and polls, by reader; a poll consumes all that it returns."""
    broadcast = members.where("broadcast").select(*RUN, "group").distinct()
    return (
        facts_of(facts, MessageConsumed, MessagePolled)
        .join(
            F.broadcast(broadcast.withColumn("is_broadcast", F.lit(True))),
            on=[*RUN, "group"],
            how="left",
        )
        .withColumns(
            {
                "is_broadcast": F.coalesce("is_broadcast", F.lit(False)),
                "is_polled": F.col("kind") == MessagePolled.__name__,
                "ok": F.coalesce("ok", F.lit(True)),
                "reconsume_times": F.coalesce("reconsume_times", F.lit(0)),
            }
        )
        .withColumn("reader", F.when(F.col("is_broadcast"), _reader()).otherwise(F.col("group")))
    )


def _records(facts: DataFrame) -> DataFrame:
    in_place = W.partitionBy(*RUN, *RECORD).orderBy(*ORDER)
    return facts_of(facts, MessageStored).select(
        *RUN,
        *RECORD,
        F.row_number().over(in_place).alias("life"),
        "uniq_key",
        F.col("mono_us").alias("stored_us"),
        "position",
        "size_bytes",
        kind_of_topic(F.col("queue.topic")).alias("topic_kind"),
        *ORDER,
    )


def _reader() -> Column:
    return F.concat("group", F.lit("@"), "node")


# Latency, retries, lag ----------------------------------------------------------------


def delivery_latency(deliveries: DataFrame) -> DataFrame:
    """One row per group and record: the time to the first delivery; no retries."""
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
    delivery_latency: DataFrame,
    deliveries: DataFrame,
    failovers: DataFrame,
    members: DataFrame,
    start_ups: DataFrame,
) -> DataFrame:
    """One row per group: quantiles of its latency; ``deliveries`` and ``repeats`` are counts.

    ``startup_repeats`` are the repeats in the group's start-up.
    """
    took = delivery_latency.groupBy(*RUN, "group").agg(
        F.expr("percentile_disc(0.5) within group (order by latency_us) / 1e3").alias(
            "deliver_ms_p50"
        ),
        F.expr("percentile_disc(0.99) within group (order by latency_us) / 1e3").alias(
            "deliver_ms_p99"
        ),
        (F.max("latency_us") / 1e3).alias("longest_deliver_ms"),
    )
    until = start_ups.select(*RUN, "group", F.col("until_us").alias("startup_until_us"))
    is_early = F.col("is_repeat") & (F.col("mono_us") < F.col("startup_until_us"))
    in_start_up = (
        deliveries.where("is_repeat")
        .join(until, on=[*RUN, "group"], how="inner")
        .groupBy(*RUN, "group")
        .agg(F.count_if(is_early).alias("startup_repeats"))
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
        *("deliveries", "repeats", "startup_repeats", "failed_deliveries"),
    )
    found = members.select(*RUN, "group").distinct()
    for other in (took, counts, failover, in_start_up):
        found = found.join(other, on=[*RUN, "group"], how="left")
    return found.select(
        *RUN, "group", *(F.coalesce(name, F.lit(0)).alias(name) for name in numbers)
    )


def retries(facts: DataFrame, messages: DataFrame, members: DataFrame) -> DataFrame:
    """One row per group: messages sent back, and dead letters."""
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
    """One row per group and committed queue: how far it was behind, at the end and at most.

    ``lag`` is the queue's end minus the last committed offset; ``lag_max`` the most at a commit.
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


# After a fault ------------------------------------------------------------------------


STOPPING = (
    "kill",
    "stop",
    "power_off",
    "pause",
)  # verbs of faults after which queues change owner
QUEUE = (*RUN, "group", "queue")


def failovers(facts: DataFrame, delivery_latency: DataFrame, faults: DataFrame) -> DataFrame:
    """One row per fault that hit a queue's owner: how long a message waited for the next owner.

    The wait starts at the fault, or when the oldest message was stored that waited until then,
    whichever is later; it ends with the queue's next first delivery.  Only a member that claimed
    the queue since ends it, if the fault ended the owner's process.  Without an end it has no row.
    """
    in_order = W.partitionBy(*QUEUE).orderBy("at")
    before = in_order.rowsBetween(W.unboundedPreceding, -1)
    from_now = in_order.rowsBetween(W.currentRow, W.unboundedFollowing)
    is_taken = F.col("stored_us").isNotNull()
    hit = F.last(F.when(~is_taken, F.struct("at", "ends_process")), ignorenulls=True)
    fault_us = F.col("last_hit.at.mono_us")
    is_next_owner = ~F.col("last_hit.ends_process") | (F.col("claimed_us") >= fault_us)
    last_end = F.last(F.when(F.col("is_end"), F.col("at")), ignorenulls=True)
    is_open = F.col("last_end").isNull() | (F.col("last_hit.at") > F.col("last_end"))
    since_us = F.greatest(fault_us, F.col("oldest_us"))
    return (
        _hits_and_deliveries(facts, delivery_latency, faults)
        .withColumns(
            {"last_hit": hit.over(before), "oldest_us": F.min("stored_us").over(from_now)}
        )
        .withColumn("is_end", is_taken & F.coalesce(is_next_owner, F.lit(False)))
        .withColumn("last_end", last_end.over(before))
        .where(F.col("is_end") & is_open)
        .select(
            *QUEUE,
            fault_us.alias("fault_us"),
            F.col("at.mono_us").alias("delivered_us"),
            (F.col("at.mono_us") - since_us).alias("waited_us"),
        )
    )


def _hits_and_deliveries(
    facts: DataFrame, delivery_latency: DataFrame, faults: DataFrame
) -> DataFrame:
    """QUEUE, at; of first deliveries stored_us, and claimed_us: when the member claimed it.

    Other rows are faults of a queue's owner, the member that claimed it last: ends_process.
    """
    claimed = facts_of(facts, QueuesClaimed).select(
        *(*RUN, "group", F.explode("queues").alias("queue"), "node", at()),
        F.col("node").alias("owner"),
        F.col("mono_us").alias("claim_us"),
    )
    by_fault = faults.where(F.col("word").isin(*STOPPING)).select(
        *RUN,
        F.explode("nodes").alias("hit"),
        F.col("began_at").alias("at"),
        F.col("word").isin(*PROCESS_ENDING).alias("ends_process"),
    )
    by_hand = facts_of(facts, NodeKilled).select(
        *RUN, F.col("fact_node").alias("hit"), at(), F.lit(True).alias("ends_process")
    )
    held = claimed.select(*QUEUE, F.col("owner").alias("hit")).distinct()
    hits = by_fault.unionByName(by_hand).join(held, on=[*RUN, "hit"], how="inner")
    taken = delivery_latency.where(F.col("reader") == F.col("group")).select(
        *QUEUE, "node", "stored_us", at()
    )
    of_queue = W.partitionBy(*QUEUE).orderBy("at")
    of_member = W.partitionBy(*QUEUE, "node").orderBy("at")
    span = (W.unboundedPreceding, W.currentRow)
    last_owner = F.last("owner", ignorenulls=True).over(of_queue.rowsBetween(*span))
    claimed_us = F.last("claim_us", ignorenulls=True).over(of_member.rowsBetween(*span))
    is_hit = F.col("hit") == F.col("last_owner")
    return (
        claimed.unionByName(hits, allowMissingColumns=True)
        .unionByName(taken, allowMissingColumns=True)
        .withColumns({"last_owner": last_owner, "claimed_us": claimed_us})
        .where(is_hit | F.col("stored_us").isNotNull())
        .select(*QUEUE, "at", "ends_process", "stored_us", "claimed_us")
    )
