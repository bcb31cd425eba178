"""Orphans: queues without an owner that should have one: how long, by group.

A queue needs an owner while its broker is up and has the queue, from the time when the group has
a member that shares its topic, and as long as the group has any members.  A broker is down from
its end, or from when a NameServer lost it, until it is fully registered: a broker of which a
NameServer knows only one topic (apache/rocketmq#4522) is down.  A queue that never had an owner
needs none after a loss of power that may have taken its topic's settings.  Names, units and
meaning are those of the checker ``ownership``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerUnregistered,
    LogFlushed,
    NodeKilled,
    PowerLost,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.pipeline.tables.deliveries import RETRY
from rocketmq_emulator.pipeline.tables.facts import RUN, at, facts_of
from rocketmq_emulator.pipeline.tables.intervals import PROCESS_ENDING
from rocketmq_emulator.pipeline.tables.ownership import QUEUE
from rocketmq_emulator.pipeline.tables.start_ups import startup_us

READABLE = 4  # the bit of a topic's perm
STARVED_US = 60_000_000
TOPICS = "topics.json"
SAVING_FLUSHES = 2  # after so many flushes a topic's settings are saved; one may have begun before


def topic_sizes(facts: DataFrame) -> DataFrame:
    """One row per creation or change of a topic at a broker: the number of readable queues."""
    is_readable = F.col("perm").bitwiseAND(F.lit(READABLE)) != 0
    return facts_of(facts, TopicCreated, TopicChanged).select(
        *RUN,
        "topic",
        F.col("node").alias("broker"),
        F.when(is_readable, F.col("read_queue_count")).otherwise(0).alias("queue_count"),
        "mono_us",
        at(),
    )


def broker_presence(facts: DataFrame, faults: DataFrame, topic_sizes: DataFrame) -> DataFrame:
    """One row per change of a broker to up or down, as clients could see it: is_up."""
    registered = facts_of(facts, BrokerRegistered, BrokerUnregistered, BrokerExpired).select(
        *RUN, "broker", F.col("node").alias("name_server"), "kind", "first", "topic_count", at()
    )
    ended = faults.where(F.col("word").isin(*PROCESS_ENDING)).select(
        *RUN, F.explode("nodes").alias("broker"), F.col("began_at").alias("at")
    )
    killed = facts_of(facts, NodeKilled).select(*RUN, F.col("fact_node").alias("broker"), at())
    known = (
        registered.alias("registered")
        .join(
            topic_sizes.alias("size"),
            on=[
                *(F.col(f"size.{name}") == F.col(f"registered.{name}") for name in RUN),
                F.col("size.broker") == F.col("registered.broker"),
                F.col("size.at") < F.col("registered.at"),
            ],
            how="left",
        )
        .groupBy(*(F.col(f"registered.{name}") for name in registered.columns))
        .agg(F.count_distinct("size.topic").alias("topics"))
    )
    is_known = F.col("kind") == BrokerRegistered.__name__
    says = F.when(~is_known, 0).when(
        F.col("first"), ((F.col("topic_count") == 1) & (F.col("topics") > 1)).cast("int")
    )
    of_server = W.partitionBy(*RUN, "broker", "name_server").orderBy("at")
    until_now = of_server.rowsBetween(W.unboundedPreceding, W.currentRow)
    of_broker = W.partitionBy(*RUN, "broker").orderBy("at")
    by_broker = of_broker.rowsBetween(W.unboundedPreceding, W.currentRow)
    partial = F.coalesce(F.last("says", ignorenulls=True).over(until_now), F.lit(0))
    announced = (
        known.withColumn("says", says)
        .withColumn("partial", partial)
        .withColumn(
            "change", F.col("partial") - F.coalesce(F.lag("partial").over(of_server), F.lit(0))
        )
        .withColumn("is_up", is_known & (F.sum("change").over(by_broker) == 0))
        .select(*RUN, "broker", "at", "is_up")
    )
    gone = ended.unionByName(killed).withColumn("is_up", F.lit(False))
    return announced.unionByName(gone.select(*announced.columns))


def orphans(
    facts: DataFrame,
    members: DataFrame,
    ownership: DataFrame,
    topic_sizes: DataFrame,
    broker_presence: DataFrame,
    run_ends: DataFrame,
    start_ups: DataFrame,
) -> DataFrame:
    """One row per group: how long queues had no owner, the longest and the sum.

    Both without the group's start-up; ``startup_unowned_s`` is the longest in it.
    """
    shares = members.where(~F.col("broadcast"))
    queues = _queues(shares, ownership, topic_sizes)
    in_order = W.partitionBy(*QUEUE).orderBy("us", "at")
    until_now = in_order.rowsBetween(W.unboundedPreceding, W.currentRow)
    has_all = [
        F.coalesce(F.last(n, ignorenulls=True).over(until_now), F.lit(True))
        for n in ("has", "is_up")
    ]
    had_owner = F.coalesce(F.max(F.col("owners") > 0).over(until_now), F.lit(False))
    is_sure = F.coalesce(F.last("sure", ignorenulls=True).over(until_now), F.lit(True))
    is_orphan = (
        (_total("begins", until_now) > 0)
        & (_total("owners", until_now) == 0)
        & (had_owner | is_sure)
        & (_total("living", until_now) > 0)
        & has_all[0]
        & has_all[1]
    )
    until_us = F.coalesce(F.lead("us").over(in_order), "ended_us")
    lasted_us = until_us - F.col("us")
    spans = (
        _events(queues, shares, ownership, _settings_known(facts, topic_sizes), broker_presence)
        .join(run_ends, on=[*RUN], how="inner")
        .join(
            start_ups.drop("began_us").withColumnRenamed("until_us", "startup_until_us"),
            on=[*RUN, "group"],
            how="left",
        )
        .withColumns({"is_orphan": is_orphan, "lasted_us": lasted_us, "until_us": until_us})
        .withColumn("startup_us", startup_us(F.col("us"), F.col("until_us")))
        .withColumn("island", F.count_if(~F.col("is_orphan")).over(until_now))
    )
    longest = (
        spans.where("is_orphan")
        .groupBy(*QUEUE, "island")
        .agg(F.sum("lasted_us").alias("us"), F.sum("startup_us").alias("startup_us"))
        .withColumn("later_us", F.col("us") - F.col("startup_us"))
        .groupBy(*QUEUE)
        .agg(
            *(F.max(name).alias(name) for name in ("us", "startup_us", "later_us")),
            F.sum("later_us").alias("sum_us"),
        )
        .groupBy(*RUN, "group")
        .agg(
            (F.max("later_us") / 1e6).alias("unowned_s"),
            (F.max("startup_us") / 1e6).alias("startup_unowned_s"),
            (F.sum("sum_us") / 1e6).alias("unowned_queue_s"),
            F.count_if(F.col("us") >= STARVED_US).alias("starved_queues"),
        )
    )
    names = ("unowned_s", "startup_unowned_s", "unowned_queue_s", "starved_queues")
    return (
        members.select(*RUN, "group")
        .distinct()
        .join(longest, on=[*RUN, "group"], how="left")
        .select(*RUN, "group", *(F.coalesce(name, F.lit(0)).alias(name) for name in names))
    )


def _total(change: str, window: WindowSpec) -> Column:
    """The sum of *change* over *window*; it is null in events that change other values."""
    return F.sum(F.coalesce(change, F.lit(0))).over(window)


# Inside -----------------------------------------------------------------------------------


def _queues(members: DataFrame, ownership: DataFrame, topic_sizes: DataFrame) -> DataFrame:
    """Every queue that a group should have or had, and the time from which: QUEUE, at."""
    sharers = members.where(F.col("consumer_kind") != "pull").select(
        *RUN, "group", F.explode("topics").alias("topic"), "from_at", "until_at"
    )
    since = F.greatest("at", "from_at")
    lives = F.col("until_at").isNull() | (F.col("until_at") > F.col("since"))
    expected = (
        topic_sizes.where(F.col("queue_count") > 0)
        .join(sharers, on=[*RUN, "topic"], how="inner")
        .withColumn("since", since)
        .where(lives)
        .withColumn("queue_id", F.explode(F.sequence(F.lit(0), F.col("queue_count") - 1)))
        .select(
            *RUN,
            "group",
            F.struct("topic", "broker", F.col("queue_id").cast("long").alias("queue_id")).alias(
                "queue"
            ),
            F.col("since").alias("at"),
        )
    )
    claimed = ownership.select(*QUEUE, F.col("from_at").alias("at"))
    is_retry = F.col("queue.topic").startswith(RETRY)
    return (
        expected.unionByName(claimed).where(~is_retry).groupBy(*QUEUE).agg(F.min("at").alias("at"))
    )


def _settings_known(facts: DataFrame, topic_sizes: DataFrame) -> DataFrame:
    """``topic_sizes`` with ``sure``; and one row where a broker may have lost a topic's settings.

    That is so if the broker did not flush often enough between their last change and its loss of
    power.  ``queue_count`` is null there: it is what it was before, as far as is known.
    """
    lost = (
        facts_of(facts, PowerLost)
        .where(F.array_contains("documents", TOPICS))
        .select(*RUN, F.col("node").alias("broker"), at().alias("lost_at"))
    )
    flushed = facts_of(facts, LogFlushed).select(
        *RUN, F.col("node").alias("broker"), at().alias("flushed_at")
    )
    of_topic = [*RUN, "broker", "topic", "lost_at"]
    changed = (
        topic_sizes.join(lost, on=[*RUN, "broker"], how="inner")
        .where(F.col("at") < F.col("lost_at"))
        .groupBy(*of_topic)
        .agg(F.max("at").alias("changed_at"))
    )
    is_between = F.col("flushed_at").between(F.col("changed_at"), F.col("lost_at"))
    unsaved = (
        changed.join(flushed, on=[*RUN, "broker"], how="left")
        .groupBy(*of_topic)
        .agg(F.count_if(is_between).alias("flushes"))
        .where(F.col("flushes") < SAVING_FLUSHES)
        .select(*RUN, "topic", "broker", F.col("lost_at").alias("at"), F.lit(False).alias("sure"))
    )
    known = topic_sizes.select(*RUN, "topic", "broker", "queue_count", "at")
    return known.withColumn("sure", F.lit(True)).unionByName(unsaved, allowMissingColumns=True)


def _events(
    queues: DataFrame,
    members: DataFrame,
    ownership: DataFrame,
    settings_known: DataFrame,
    broker_presence: DataFrame,
) -> DataFrame:
    """The events that make a queue an orphan or end that: QUEUE, us, at, and one change each."""
    now_us = F.col("at.mono_us").alias("us")
    begins = queues.select(*QUEUE, now_us, "at", F.lit(1).alias("begins"))
    claims = ownership.select(
        *QUEUE,
        F.col("from_us").alias("us"),
        F.col("from_at").alias("at"),
        F.lit(1).alias("owners"),
    )
    ends = ownership.where(F.col("until_us").isNotNull()).select(
        *QUEUE,
        F.col("until_us").alias("us"),
        F.col("until_at").alias("at"),
        F.lit(-1).alias("owners"),
    )
    names = queues.select(*QUEUE)
    came = members.select(*RUN, "group", F.col("from_at").alias("at"), F.lit(1).alias("living"))
    left = members.where(F.col("until_at").isNotNull()).select(
        *RUN, "group", F.col("until_at").alias("at"), F.lit(-1).alias("living")
    )
    living = came.unionByName(left).join(names, on=[*RUN, "group"], how="inner")
    placed = names.select(
        *QUEUE, F.col("queue.topic").alias("topic"), F.col("queue.broker").alias("broker")
    )
    sized = settings_known.join(placed, on=[*RUN, "topic", "broker"], how="inner").withColumn(
        "has", F.col("queue.queue_id") < F.col("queue_count")
    )
    present = broker_presence.join(placed, on=[*RUN, "broker"], how="inner")
    found = begins
    for other in (claims, ends):
        found = found.unionByName(other, allowMissingColumns=True)
    for other, names_of in ((living, ["living"]), (sized, ["has", "sure"]), (present, ["is_up"])):
        found = found.unionByName(
            other.select(*QUEUE, now_us, "at", *names_of), allowMissingColumns=True
        )
    return found
