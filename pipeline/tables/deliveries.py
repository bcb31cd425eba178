"""What became of messages: each time that a group was given one, and each one that was stored.

A place in a queue is used again where a broker lost the end of its log, so a record is a queue,
an offset and a ``life``: 1 for the first message that was stored there, 2 for the next.  A reader
is a group; of a broadcasting group each member reads for itself.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from emulator.facts import (
    MessageConsumed,
    MessagePolled,
    MessageSent,
    MessageSentBack,
    MessageStored,
)
from pipeline.tables.facts import ORDER, RUN, facts_of

RECORD = ("queue", "offset")
RETRY, DEAD = "%RETRY%", "%DLQ%"  # how the topics of a group begin
WAITING = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")


def deliveries(facts: DataFrame, members: DataFrame) -> DataFrame:
    """One row each time that a listener or a poll took a message, in which ``delivery`` it was.

    ``is_repeat``: its reader had consumed this record before.
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
    is_done = F.col("ok") | F.col("is_broadcast")  # who broadcasts drops what fails
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
    """One row for each record: stored, acknowledged, delivered n times, sent back."""
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
    """What a message that is stored in *topic* waits for: topic, retry, dead, waiting."""
    return (
        F.when(topic.startswith(RETRY), "retry")
        .when(topic.startswith(DEAD), "dead")
        .when(topic.isin(*WAITING), "waiting")
        .otherwise("topic")
    )


def _taken(facts: DataFrame, members: DataFrame) -> DataFrame:
    """What listeners and polls were given, by reader; a poll takes all that it gets."""
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
