"""How many queues changed owner, how many had to, and each member's share at the end.

A rebalance is over when no queue of the topic was claimed or released for ``SETTLED_US``, or when
the group's start-up ends.  What moves in start-up is counted apart.
Names, units and meaning of the numbers are those of the checker ``churn``.  The owner of a queue
after a change depends on all changes before it: ``aggregate`` folds them, queue by queue.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as W  # noqa: N817

from rocketmq_emulator.pipeline.tables.deliveries import RETRY
from rocketmq_emulator.pipeline.tables.facts import RUN
from rocketmq_emulator.pipeline.tables.ownership import QUEUE, is_member_at

SETTLED_US = 25_000_000  # a rebalance pass runs every 20 s; and 5 s more
TOPIC = (*RUN, "group", "topic")


def owners(queue_changes: DataFrame) -> DataFrame:
    """One row for each change of a queue's holders: the new ``owner``, and whether it moved.

    ``owner`` is null if no member holds the queue.
    """
    is_shared = ~F.col("queue.topic").startswith(RETRY) & ~F.col("how").isin("lost", "back")
    events = F.array_sort(F.collect_list(F.struct("at", "how", "node")))
    history = queue_changes.where(is_shared).groupBy(*QUEUE).agg(_fold(events).alias("history"))
    return history.select(
        *RUN, "group", F.col("queue.topic").alias("topic"), "queue", F.inline("history")
    )


def rebalances(owners: DataFrame, members: DataFrame, start_ups: DataFrame) -> DataFrame:
    """One row per rebalance of a topic in a group: time, moved queues, fewest possible moves.

    ``is_settled``: the shares differ from those before it.  ``is_startup``: it was in the group's
    start-up, and no move is necessary there.
    """
    of_topic = W.partitionBy(*TOPIC).orderBy("at")
    until_now = of_topic.rangeBetween(W.unboundedPreceding, W.currentRow)
    quiet_us = F.col("at.mono_us") - F.lag("at.mono_us").over(of_topic)
    up = start_ups.select(*RUN, "group", F.col("until_us").alias("startup_until_us"))
    up_us = F.coalesce("startup_until_us", F.lit(-1))
    was_startup = F.coalesce(F.lag("is_startup").over(of_topic), F.lit(False))
    is_quiet = F.coalesce(quiet_us > SETTLED_US, F.lit(True))
    is_first = is_quiet | (was_startup & ~F.col("is_startup"))
    changes = (
        owners.join(up, on=[*RUN, "group"], how="left")
        .withColumn("is_startup", F.col("at.mono_us") <= up_us)
        .withColumn("begins", F.when(is_first, 1).otherwise(0))
        .withColumn("number", F.sum("begins").over(until_now))
    )
    epochs = changes.groupBy(*TOPIC, "number").agg(
        F.max("is_startup").alias("is_startup"),
        F.min("at.mono_us").alias("began_us"),
        F.max("at.mono_us").alias("ended_us"),
        F.max("at").alias("ended_at"),
        F.count_if("is_move").alias("moved"),
    )
    in_order = W.partitionBy(*TOPIC).orderBy("number")
    before = F.coalesce(F.lag("shares").over(in_order), F.array())
    is_settled = F.col("shares") != F.col("before")
    return (
        epochs.join(_shares(changes, epochs), on=[*TOPIC, "number"], how="inner")
        .join(_live_members(epochs, members), on=[*TOPIC, "number"], how="left")
        .withColumn("before", before)
        .select(
            *TOPIC,
            "number",
            "began_us",
            "ended_us",
            is_settled.alias("is_settled"),
            "is_startup",
            "moved",
            F.when(
                is_settled & ~F.col("is_startup"), _fewest_moves(F.col("before"), F.col("nodes"))
            )
            .otherwise(0)
            .alias("necessary"),
            "shares",
        )
    )


def churn(rebalances: DataFrame, members: DataFrame, expired_queues: DataFrame) -> DataFrame:
    """One row per group: rebalances, moves, and the members' shares at the end."""
    topics = rebalances.groupBy(*TOPIC).agg(
        F.count_if("is_settled").alias("rebalances"),
        F.sum(F.when(~F.col("is_startup"), F.col("moved")).otherwise(0)).alias("moved"),
        F.sum(F.when(F.col("is_startup"), F.col("moved")).otherwise(0)).alias("startup_moved"),
        F.sum("necessary").alias("necessary"),
        F.max(F.col("ended_us") - F.col("began_us")).alias("settle_us"),
        F.max_by("shares", "number").alias("shares"),
    )
    needless = F.greatest(F.col("moved") - F.col("necessary"), F.lit(0))
    groups = topics.groupBy(*RUN, "group").agg(
        F.sum("rebalances").alias("rebalances"),
        F.sum("moved").alias("moved_queues"),
        F.sum("startup_moved").alias("startup_moved_queues"),
        F.sum("necessary").alias("necessary_moves"),
        F.sum(needless).alias("needless_moves"),
        (F.max("settle_us") / 1e6).alias("settle_s"),
        F.flatten(F.collect_list("shares")).alias("shares"),
    )
    is_left = F.col("until_us").isNull()
    living = (
        members.where(is_left).groupBy(*RUN, "group").agg(F.collect_set("node").alias("nodes"))
    )
    held = F.transform(
        "nodes", lambda node: F.size(F.filter("shares", lambda each: each["owner"] == node))
    )
    numbers = (
        *("rebalances", "moved_queues", "startup_moved_queues", "necessary_moves"),
        *("needless_moves", "settle_s"),
    )
    at_end = ("skew_queues", "queueless_members")
    return (
        members.select(*RUN, "group")
        .distinct()
        .join(groups, on=[*RUN, "group"], how="left")
        .join(living, on=[*RUN, "group"], how="left")
        .join(expired_queues, on=[*RUN, "group"], how="left")
        .withColumn("held", F.when(F.col("shares").isNotNull(), held))
        .withColumns(
            {
                "skew_queues": F.array_max("held") - F.array_min("held"),
                "queueless_members": F.size(F.filter("held", lambda count: count == 0)),
            }
        )
        .select(
            *RUN,
            "group",
            *(F.coalesce(name, F.lit(0)).alias(name) for name in (*numbers, *at_end)),
            F.coalesce("expired_queues", F.lit(0)).alias("expired_queues"),
        )
    )


# Inside -----------------------------------------------------------------------------------


def _fold(events: Column) -> Column:
    """The owner after each of *events*: an array of (at, owner, is_move)."""
    step = "struct<at:struct<mono_us:bigint,place:bigint,node:string,seq:bigint>,owner:string,"
    start = F.struct(
        F.array().cast("array<string>").alias("holders"),
        F.lit(None).cast("string").alias("last"),
        F.array().cast(f"array<{step}is_move:boolean>>").alias("history"),
    )
    return F.aggregate(events, start, _after, lambda state: state["history"])


def _after(state: Column, event: Column) -> Column:
    is_claim = event["how"] == "claimed"
    others = F.array_remove(state["holders"], event["node"])
    holders = F.when(is_claim, F.array_append(others, event["node"])).otherwise(others)
    owner = F.try_element_at(holders, F.lit(-1))
    is_change = F.array_contains(state["holders"], event["node"]) | (event["how"] != "ended")
    is_move = is_claim & state["last"].isNotNull() & (state["last"] != event["node"])
    row = F.struct(
        event["at"].alias("at"),
        owner.alias("owner"),
        F.coalesce(is_move, F.lit(False)).alias("is_move"),
    )
    return F.struct(
        holders.alias("holders"),
        F.coalesce(owner, state["last"]).alias("last"),
        F.when(is_change, F.array_append(state["history"], row))
        .otherwise(state["history"])
        .alias("history"),
    )


def _shares(changes: DataFrame, epochs: DataFrame) -> DataFrame:
    """The result of each rebalance: the queues that have an owner, with the owner."""
    last = changes.groupBy(*TOPIC, "queue", "number").agg(
        F.struct(F.max_by("owner", "at").alias("owner")).alias("last")
    )
    queues = last.select(*TOPIC, "queue").distinct()
    in_order = W.partitionBy(*TOPIC, "queue").orderBy("number")
    until_now = in_order.rowsBetween(W.unboundedPreceding, W.currentRow)
    owner = F.last("last", ignorenulls=True).over(until_now)["owner"]
    is_owned = F.col("owner").isNotNull()
    return (
        epochs.select(*TOPIC, "number")
        .join(queues, on=[*TOPIC], how="inner")
        .join(last, on=[*TOPIC, "queue", "number"], how="left")
        .withColumn("owner", owner)
        .groupBy(*TOPIC, "number")
        .agg(
            F.array_sort(F.collect_list(F.when(is_owned, F.struct("queue", "owner")))).alias(
                "shares"
            )
        )
    )


def _live_members(epochs: DataFrame, members: DataFrame) -> DataFrame:
    """The members of the group at each rebalance's last change."""
    memberships = members.select(*RUN, "group", "node", "from_at", "until_at")
    return (
        epochs.select(*TOPIC, "number", "ended_at")
        .join(memberships, on=[*RUN, "group"], how="inner")
        .where(is_member_at(F.col("ended_at")))
        .groupBy(*TOPIC, "number")
        .agg(F.collect_set("node").alias("nodes"))
    )


def _fewest_moves(before: Column, nodes: Column) -> Column:
    """The fewest of the owned queues that must change owner for even shares of *nodes*."""
    count = F.size(nodes)
    queues = F.size(before)
    held = F.sort_array(
        F.transform(nodes, lambda n: F.size(F.filter(before, lambda each: each["owner"] == n))),
        asc=False,
    )
    orphans = queues - F.aggregate(held, F.lit(0), lambda total, each: total + each)
    share = F.floor(queues / count).cast("int")
    larger = queues - share * count
    beyond = F.transform(
        held,
        lambda each, index: F.greatest(
            each - share - F.when(index < larger, 1).otherwise(0), F.lit(0)
        ),
    )
    fewest = orphans + F.aggregate(beyond, F.lit(0), lambda total, each: total + each)
    return F.when((queues > 0) & (F.coalesce(count, F.lit(0)) > 0), fewest).otherwise(0)
