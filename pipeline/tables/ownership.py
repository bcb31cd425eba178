"""The holders of each queue, with start and end, and the owner after each change.

A consumer holds a queue from its QueuesClaimed to its QueuesReleased, or to its own end.  A
member that its brokers lost, and that has written no fact since, stops holding a queue when
another member claims it: its kill may be in no journal.  If it writes a fact later, it had held
the queue all the time and has it back.  A queue may have several holders for a while; the one
that claimed it last counts as its owner.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from rocketmq_emulator.facts import (
    ConsumerStarted,
    MemberLeft,
    MessageConsumed,
    PullFailed,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
)
from rocketmq_emulator.pipeline.tables.facts import ORDER, RUN, at, facts_of

QUEUE = (*RUN, "group", "queue")
BEGINNINGS = ("claimed", "back")  # of holding


def queue_changes(facts: DataFrame, members: DataFrame) -> DataFrame:
    """One row each time that a member of a group claimed a queue, or stopped holding it.

    ``how``: claimed, released, ended (its process), lost (by its brokers, at ``since_us``),
    back (it was lost, but had not ended).
    Broadcasting groups do not share queues, and are left out.
    """
    shares = members.where(~F.col("broadcast"))
    groups = F.broadcast(shares.select(*RUN, "group").distinct())
    claims = _queues(facts, QueuesClaimed, groups).withColumn("how", F.lit("claimed"))
    releases = _queues(facts, QueuesReleased, groups).withColumn("how", F.lit("released"))
    held = claims.select(*QUEUE, "node").distinct()
    starts = shares.select(*RUN, "group", "node", F.col("from_at").alias("at"))
    ends = shares.where(F.col("until_at").isNotNull()).select(
        *RUN, "group", "node", F.col("until_at").alias("at")
    )
    ended = (
        starts.unionByName(ends)  # a restarted member holds nothing
        .join(held, on=[*RUN, "group", "node"], how="inner")
        .withColumn("how", F.lit("ended"))
        .withColumn("since_us", F.col("at.mono_us"))
    )
    lost = _lost(facts, shares, claims)
    back = (
        lost.where("was_running_on")
        .withColumns({"at": F.col("next_fact_at"), "how": F.lit("back")})
        .withColumn("since_us", F.col("at.mono_us"))
    )
    found = claims.unionByName(releases)
    for other in (ended, lost, back):
        found = found.unionByName(other.select(*found.columns))
    return _without_unfounded_returns(found.distinct())


def _without_unfounded_returns(changes: DataFrame) -> DataFrame:
    """*changes* without ``back`` rows of members that did not hold the queue when lost."""
    before = W.partitionBy(*QUEUE, "node").orderBy("at", "how")
    before = before.rowsBetween(W.unboundedPreceding, -1)
    is_own_change = ~F.col("how").isin("lost", "back")
    last_own_change = F.last(F.when(is_own_change, F.col("how")), ignorenulls=True).over(before)
    return (
        changes.withColumn("last_own_change", last_own_change)
        .where((F.col("how") != "back") | (F.col("last_own_change") == "claimed"))
        .drop("last_own_change")
    )


def ownership(changes: DataFrame) -> DataFrame:
    """One row per holder and queue: from_us, until_us (null: to the end), how it ended."""
    in_order = W.partitionBy(*QUEUE, "node").orderBy("at", "how")
    later = in_order.rowsBetween(1, W.unboundedFollowing)
    is_end = ~F.col("how").isin(*BEGINNINGS)
    return (
        changes.withColumns(
            {
                "end": F.first(
                    F.when(is_end, F.struct("since_us", "how", "at")), ignorenulls=True
                ).over(later),
                "before": F.lag("how").over(in_order),
            }
        )
        .where(~is_end & ~F.coalesce("before", F.lit("")).isin(*BEGINNINGS))
        .select(
            *QUEUE,
            "node",
            F.col("since_us").alias("from_us"),
            F.col("end.since_us").alias("until_us"),
            F.col("end.how").alias("ended_by"),
            F.col("at").alias("from_at"),
            F.col("end.at").alias("until_at"),
        )
    )


def _queues(facts: DataFrame, kind: type, groups: DataFrame) -> DataFrame:
    """One row per queue in each fact of *kind*."""
    return (
        facts_of(facts, kind)
        .join(groups, on=[*RUN, "group"], how="left_semi")
        .select(
            *RUN,
            "group",
            F.explode("queues").alias("queue"),
            "node",
            at(),
            F.col("mono_us").alias("since_us"),
        )
    )


def _lost(facts: DataFrame, members: DataFrame, claims: DataFrame) -> DataFrame:
    """``lost`` rows: members that their brokers lost, when another member claims the queue."""
    silences = _lost_periods(facts, members)
    is_silent = (F.col("at") > F.col("left_at")) & (
        F.col("next_fact_at").isNull() | (F.col("at") < F.col("next_fact_at"))
    )
    return (
        claims.join(F.broadcast(silences), on=[*RUN], how="inner")
        .where(is_silent & (F.col("silent") != F.col("node")))
        .select(
            *QUEUE,
            F.col("silent").alias("node"),
            "at",
            F.col("left_us").alias("since_us"),
            F.lit("lost").alias("how"),
            "next_fact_at",
            "was_running_on",
        )
    )


def _lost_periods(facts: DataFrame, members: DataFrame) -> DataFrame:
    """From the first MemberLeft of a client to the next fact of its node: silent, left_at,
    left_us, next_fact_at (null: never), was_running_on (false if that fact is a start or a claim).
    """
    names = members.select(*RUN, "group", "node", "client", "from_at", "until_at")
    left = (
        facts_of(facts, MemberLeft)
        .select(*RUN, "group", "client", at(), "mono_us")
        .join(names, on=[*RUN, "group", "client"], how="inner")
        .where(is_member_at(F.col("at")))
        .select(*RUN, "node", "at", F.col("mono_us").alias("left_us"))
    )
    lost_nodes = F.broadcast(left.select(*RUN, "node").distinct())
    words = (
        facts_of(facts, MessageConsumed, RebalancePassed, PullFailed, QueuesClaimed)
        .select(*RUN, "node", at(), (F.col("kind") != "QueuesClaimed").alias("goes_on"))
        .unionByName(
            facts_of(facts, ConsumerStarted).select(
                *RUN, "node", at(), F.lit(False).alias("goes_on")
            )
        )
        .join(lost_nodes, on=[*RUN, "node"], how="left_semi")
    )
    of_node = W.partitionBy(*RUN, "node").orderBy("at")
    next_word = F.first(
        F.when(F.col("left_us").isNull(), F.struct("at", "goes_on")), ignorenulls=True
    ).over(of_node.rowsBetween(1, W.unboundedFollowing))
    return (
        left.unionByName(words, allowMissingColumns=True)
        .withColumns(
            {
                "is_first": F.lag("left_us").over(of_node).isNull(),
                "word": next_word,
            }
        )
        .where(F.col("left_us").isNotNull() & F.col("is_first"))
        .select(
            *RUN,
            F.col("node").alias("silent"),
            F.col("at").alias("left_at"),
            "left_us",
            F.col("word.at").alias("next_fact_at"),
            F.coalesce("word.goes_on", F.lit(False)).alias("was_running_on"),
        )
    )


def is_member_at(when: Column) -> Column:
    """Whether a member, a row with from_at and until_at, runs at *when*."""
    is_over = F.col("until_at").isNotNull() & (F.col("until_at") <= when)
    return (F.col("from_at") <= when) & ~is_over


assert ORDER[0] == "mono_us", "at() is ordered by time first"
