"""Calls of clients (sends, their attempts, failed pulls, slow requests), and the numbers of sends.

The outcomes of sends, how long a broker's fault affected producers, and how evenly sends spread
over queues.  Names,
units and meaning are those of the checkers ``sends``, ``producer_failover`` and ``fairness``;
quantiles are exact here.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from rocketmq_emulator.facts import (
    BrokerIsolated,
    HalfMessageSent,
    MessageSent,
    PullFailed,
    RequestAnsweredSlowly,
    SendAttempted,
    SendFailed,
)
from rocketmq_emulator.pipeline.tables.facts import ORDER, RUN, at, facts_of

# Calls --------------------------------------------------------------------------------


CALLS = {  # kind of fact: value of the column ``call``
    "MessageSent": "send",
    "HalfMessageSent": "send",
    "SendFailed": "send",
    "SendAttempted": "attempt",
    "PullFailed": "pull",
    "RequestAnsweredSlowly": "request",
}
STORED = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")


def calls(facts: DataFrame) -> DataFrame:
    """One row per finished call: one for each send, and one for each of its attempts.

    ``call`` is send, attempt, pull (only failed ones) or request (only slow ones);
    ``outcome`` is a send status, ONE_WAY, or the error.
    """
    found = facts_of(
        facts,
        SendAttempted,
        MessageSent,
        HalfMessageSent,
        SendFailed,
        PullFailed,
        RequestAnsweredSlowly,
    )
    call = F.create_map(*(F.lit(text) for pair in CALLS.items() for text in pair))[F.col("kind")]
    outcome = F.coalesce("outcome", "status", "error")
    succeeds = F.col("kind").isin("MessageSent", "HalfMessageSent", "RequestAnsweredSlowly")
    is_ok = F.when(succeeds, True).when(
        F.col("kind") == "SendAttempted", outcome.isin(*STORED, "ONE_WAY")
    )
    return found.select(
        *RUN,
        *ORDER,
        call.alias("call"),
        F.coalesce("topic", "queue.topic").alias("topic"),
        "queue",
        "group",
        "uniq_key",
        F.coalesce("attempt", "attempts").alias("attempts"),
        "took_ms",
        outcome.alias("outcome"),
        F.coalesce(is_ok, F.lit(False)).alias("is_ok"),
        "maybe_stored",
        "peer",
        "code",
    )


# Sends, producer failover, shares -----------------------------------------------------


FAULT_EFFECT_US_MAX = 160_000_000  # how long a fault that closes no connection affects producers
CROWD_MIN = 100  # sends of one producer to one broker while it avoids another one


def sends(calls: DataFrame) -> DataFrame:
    """One row per topic: counts of sends by outcome, and quantiles of their time."""
    is_sent, is_attempt = F.col("call") == "send", F.col("call") == "attempt"
    is_done = is_sent & F.col("is_ok")
    is_failed = is_sent & ~F.col("is_ok")
    return (
        calls.where(is_sent | is_attempt)
        .withColumn("done_ms", F.when(is_done, F.col("took_ms")))
        .groupBy(*RUN, "topic")
        .agg(
            F.count_if(is_done).alias("sends"),
            F.count_if(is_failed).alias("failed_sends"),
            F.count_if(is_failed & F.col("maybe_stored")).alias("maybe_stored"),
            F.count_if(is_done & (F.col("attempts") > 1)).alias("retried_sends"),
            F.count_if(is_done & (F.col("outcome") != "SEND_OK")).alias("unsafe_sends"),
            F.count_if(is_attempt & ~F.col("is_ok")).alias("failed_attempts"),
            F.expr("percentile_disc(0.5) within group (order by done_ms)").alias("send_ms_p50"),
            F.expr("percentile_disc(0.99) within group (order by done_ms)").alias("send_ms_p99"),
            F.max("done_ms").alias("longest_send_ms"),
        )
    )


def producer_failover(calls: DataFrame, faults: DataFrame) -> DataFrame:
    """One row per broker at which sends failed while a fault touched it."""
    failed = calls.where((F.col("call") == "attempt") & ~F.col("is_ok")).select(
        *RUN, F.col("queue.broker").alias("node"), "mono_us", at()
    )
    touched = faults.select(
        *RUN, F.explode("nodes").alias("node"), "began_us", "ended_us", "began_at", "ended_at"
    )
    until_us = F.least("ended_us", F.col("began_us") + FAULT_EFFECT_US_MAX)
    has_ended = F.col("ended_at").isNotNull() & (F.col("ended_at") < F.col("at"))
    is_felt = (F.col("began_at") < F.col("at")) & (~has_ended | (F.col("mono_us") <= until_us))
    felt_us = F.max(F.col("mono_us") - F.col("began_us"))
    return (
        failed.join(touched, on=[*RUN, "node"], how="inner")
        .where(is_felt)
        .groupBy(*RUN, "node")
        .agg((felt_us / 1e6).alias("producer_failover_s"))
    )


def send_shares(calls: DataFrame, facts: DataFrame, faults: DataFrame) -> DataFrame:
    """One row per producer, topic and queue: all attempts, and those while it avoided a broker.

    ``crowded``: attempts while the producer avoided some broker and no fault was active;
    ``crowding``: this queue's number of them divided by an even share among its broker's queues,
    null under ``CROWD_MIN`` attempts.
    """
    attempts = calls.where(F.col("call") == "attempt").select(
        *RUN, "node", "topic", "queue", "mono_us", at()
    )
    isolated = facts_of(facts, BrokerIsolated).select(
        *RUN,
        "node",
        at().alias("since_at"),
        (F.col("mono_us") + F.col("for_ms") * 1_000).alias("until_us"),
    )
    avoids = (F.col("since_at") < F.col("at")) & (F.col("mono_us") < F.col("until_us"))
    held = faults.select(*RUN, "began_at", "ended_at")
    holds = (F.col("began_at") < F.col("at")) & (
        F.col("ended_at").isNull() | (F.col("at") < F.col("ended_at"))
    )
    avoiding = (
        attempts.join(isolated, on=[*RUN, "node"], how="inner")
        .where(avoids)
        .select(*attempts.columns)
        .distinct()
    )
    same_run = [F.col(f"avoiding.{name}") == F.col(f"held.{name}") for name in RUN]
    crowded = (
        avoiding.alias("avoiding")
        .join(F.broadcast(held).alias("held"), on=[*same_run, holds], how="left_anti")
        .groupBy(*RUN, "node", "topic", "queue")
        .agg(F.count("*").alias("crowded"))
    )
    return _with_crowding(attempts, crowded)


def _with_crowding(attempts: DataFrame, crowded: DataFrame) -> DataFrame:
    of_broker = [*RUN, "topic", "broker"]
    queues = (
        attempts.select(*RUN, "topic", F.col("queue.broker").alias("broker"), "queue")
        .distinct()
        .groupBy(*of_broker)
        .agg(F.count("*").alias("queues"))
    )
    in_crowd = (
        crowded.withColumn("broker", F.col("queue.broker"))
        .groupBy(*of_broker, "node")
        .agg(F.sum("crowded").alias("of_broker"))
    )
    counted = attempts.groupBy(*RUN, "node", "topic", "queue").agg(F.count("*").alias("attempts"))
    is_enough = F.col("of_broker") >= CROWD_MIN
    return (
        counted.join(crowded, on=[*RUN, "node", "topic", "queue"], how="left")
        .withColumn("broker", F.col("queue.broker"))
        .join(in_crowd, on=[*of_broker, "node"], how="left")
        .join(queues, on=of_broker, how="left")
        .select(
            *RUN,
            "node",
            "topic",
            "queue",
            "attempts",
            F.coalesce("crowded", F.lit(0)).alias("crowded"),
            F.when(is_enough, F.col("crowded") * F.col("queues") / F.col("of_broker")).alias(
                "crowding"
            ),
        )
    )
