"""All numbers in one table, as the checkers name them: ``lost.billing`` is lost, of billing.

A metric's number for the run follows from its parts: their sum, or the largest.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.tables.facts import RUN

SUM, MAX = "sum", "max"
METRICS = {  # gold table: whose its rows are, and its metrics with how the run's number follows
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
    "overlap": ("group", {"overlap_s": MAX, "overlap_queue_s": SUM}),
    "orphans": (
        "group",
        {"unowned_s": MAX, "unowned_queue_s": SUM, "starved_queues": SUM},
    ),
    "churn": (
        "group",
        {
            "rebalances": SUM,
            "moved_queues": SUM,
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
    """One row a number: metric, of (whom; empty: the run), value.  *tables* as in ``METRICS``."""
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
