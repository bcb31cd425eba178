"""Every step by the name of its table, with the tables it reads, and the metrics of gold tables.

Silver tables have one row per message, queue, fault or call.  Gold tables have the numbers.
``facts`` is the journal itself.  ``metrics`` has all numbers in one table, with the names that
the checkers use: ``lost.billing`` is ``lost`` of the group billing.  A metric's value for the
whole run is the sum or the maximum of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from rocketmq_emulator.pipeline.tables.churn import churn, owners, rebalances
from rocketmq_emulator.pipeline.tables.deliveries import (
    deliveries,
    delivery,
    delivery_latency,
    failovers,
    messages,
    offset_lag,
    retries,
)
from rocketmq_emulator.pipeline.tables.facts import RUN
from rocketmq_emulator.pipeline.tables.gold_groups import (
    expired_queues,
    idleness,
    overlap,
    passes,
    run_ends,
)
from rocketmq_emulator.pipeline.tables.intervals import faults, members
from rocketmq_emulator.pipeline.tables.orphans import broker_presence, orphans, topic_sizes
from rocketmq_emulator.pipeline.tables.ownership import ownership, queue_changes
from rocketmq_emulator.pipeline.tables.sends import calls, producer_failover, send_shares, sends
from rocketmq_emulator.pipeline.tables.start_ups import start_ups

# Metrics ------------------------------------------------------------------------------


SUM, MAX = "sum", "max"
METRICS = {  # gold table: the subject of its rows, and its metrics with how parts are combined
    "sends": (
        "topic",
        {
            "sends": SUM,
            "failed_sends": SUM,
            "maybe_stored": SUM,
            "retried_sends": SUM,
            "unsafe_sends": SUM,
            "failed_attempts": SUM,
            "send_ms_p50": MAX,
            "send_ms_p99": MAX,
            "longest_send_ms": MAX,
        },
    ),
    "producer_failover": ("node", {"producer_failover_s": MAX}),
    "delivery": (
        "group",
        {
            "failed_deliveries": SUM,
            "deliver_ms_p50": MAX,
            "deliver_ms_p99": MAX,
            "longest_deliver_ms": MAX,
            "consumer_failover_s": MAX,
        },
    ),
    "retries": ("group", {"sent_back": SUM, "dead_letters": SUM}),
    "overlap": (
        "group",
        {
            "startup_s": MAX,
            "overlap_s": MAX,
            "startup_overlap_s": MAX,
            "overlap_queue_s": SUM,
        },
    ),
    "orphans": (
        "group",
        {
            "unowned_s": MAX,
            "startup_unowned_s": MAX,
            "unowned_queue_s": SUM,
            "starved_queues": SUM,
        },
    ),
    "churn": (
        "group",
        {
            "rebalances": SUM,
            "moved_queues": SUM,
            "startup_moved_queues": SUM,
            "necessary_moves": SUM,
            "needless_moves": SUM,
            "settle_s": MAX,
            "skew_queues": MAX,
            "queueless_members": SUM,
            "expired_queues": SUM,
        },
    ),
    "idleness": ("group", {"idle_s": SUM, "idle_members": SUM}),
    "passes": ("group", {"rebalance_gap_s": MAX}),
}


def metrics(*tables: DataFrame) -> DataFrame:
    """One row per value: metric, of (its subject; empty: the run), value.

    *tables* in the order of ``METRICS``.
    """
    parts = reduce(
        DataFrame.unionByName,
        (
            _parts(table, of, list(names))
            for table, (of, names) in zip(tables, METRICS.values(), strict=True)
        ),
    )
    largest = [name for _, names in METRICS.values() for name, how in names.items() if how == MAX]
    is_largest = F.col("metric").isin(largest)
    whole = parts.groupBy(*RUN, "metric").agg(
        F.when(is_largest, F.max("value")).otherwise(F.sum("value")).alias("value")
    )
    return parts.unionByName(whole.select(*RUN, "metric", F.lit("").alias("of"), "value"))


def _parts(table: DataFrame, of: str, names: list[Column | str]) -> DataFrame:
    values = table.select(
        *RUN, F.col(of).alias("of"), *(F.col(str(n)).cast("double") for n in names)
    )
    return values.unpivot([*RUN, "of"], names, "metric", "value").select(
        *RUN, "metric", "of", F.coalesce("value", F.lit(0.0)).alias("value")
    )


# Steps --------------------------------------------------------------------------------


class TableStep(msgspec.Struct, frozen=True):
    """How a table is made: *make* takes the tables named in *reads*, in this order."""

    make: Callable[..., DataFrame]
    reads: tuple[str, ...]


SILVER = {
    "run_ends": TableStep(run_ends, ("facts",)),
    "faults": TableStep(faults, ("facts",)),
    "members": TableStep(members, ("facts", "faults")),
    "deliveries": TableStep(deliveries, ("facts", "members")),
    "messages": TableStep(messages, ("facts", "deliveries")),
    "calls": TableStep(calls, ("facts",)),
    "queue_changes": TableStep(queue_changes, ("facts", "members")),
    "ownership": TableStep(ownership, ("queue_changes",)),
    "owners": TableStep(owners, ("queue_changes",)),
    "rebalances": TableStep(rebalances, ("owners", "members", "start_ups")),
    "topic_sizes": TableStep(topic_sizes, ("facts",)),
    "broker_presence": TableStep(broker_presence, ("facts", "faults", "topic_sizes")),
    "start_ups": TableStep(start_ups, ("facts", "members", "topic_sizes")),
    "failovers": TableStep(failovers, ("facts", "delivery_latency", "faults")),
    "expired_queues": TableStep(expired_queues, ("facts",)),
}
GOLD = {
    "delivery_latency": TableStep(delivery_latency, ("deliveries",)),
    "delivery": TableStep(
        delivery, ("delivery_latency", "deliveries", "failovers", "members", "start_ups")
    ),
    "retries": TableStep(retries, ("facts", "messages", "members")),
    "offset_lag": TableStep(offset_lag, ("facts", "messages")),
    "overlap": TableStep(overlap, ("ownership", "run_ends", "members", "start_ups")),
    "orphans": TableStep(
        orphans,
        (
            "facts",
            "members",
            "ownership",
            "topic_sizes",
            "broker_presence",
            "run_ends",
            "start_ups",
        ),
    ),
    "churn": TableStep(churn, ("rebalances", "members", "expired_queues")),
    "idleness": TableStep(idleness, ("deliveries", "members", "run_ends")),
    "passes": TableStep(passes, ("facts", "members", "run_ends")),
    "sends": TableStep(sends, ("calls",)),
    "producer_failover": TableStep(producer_failover, ("calls", "faults")),
    "send_shares": TableStep(send_shares, ("calls", "facts", "faults")),
    "metrics": TableStep(metrics, tuple(METRICS)),
}
STEPS = SILVER | GOLD
