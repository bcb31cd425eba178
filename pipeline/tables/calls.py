"""What clients and peers waited for: sends, their attempts, failed pulls, slow requests."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from emulator.facts import (
    MessageSent,
    PullFailed,
    RequestAnsweredSlowly,
    SendAttempted,
    SendFailed,
)
from pipeline.tables.facts import ORDER, RUN, facts_of

CALLS = {  # what a row is called
    "MessageSent": "send",
    "SendFailed": "send",
    "SendAttempted": "attempt",
    "PullFailed": "pull",
    "RequestAnsweredSlowly": "request",
}
STORED = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")


def calls(facts: DataFrame) -> DataFrame:
    """One row a call, when it ended: of a send one row, and one for each attempt.

    ``call`` is send, attempt, pull (those that failed) or request (those answered slowly);
    ``outcome`` a send status, ONE_WAY, or the error.
    """
    found = facts_of(
        facts, SendAttempted, MessageSent, SendFailed, PullFailed, RequestAnsweredSlowly
    )
    call = F.create_map(*(F.lit(text) for pair in CALLS.items() for text in pair))[F.col("kind")]
    outcome = F.coalesce("outcome", "status", "error")
    is_ok = F.when(F.col("kind").isin("MessageSent", "RequestAnsweredSlowly"), True).when(
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
