"""Every step by the name of the table that it makes, and what it reads.

Silver says what happened to one thing: a message, a queue, a fault.  Gold has the numbers.
``facts`` is the journal itself.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from pyspark.sql import DataFrame

from pipeline.tables.calls import calls
from pipeline.tables.churn import churn, owners, rebalances
from pipeline.tables.deliveries import deliveries, messages
from pipeline.tables.failovers import failovers
from pipeline.tables.faults import faults
from pipeline.tables.gold_deliveries import delivery, delivery_latency, offset_lag, retries
from pipeline.tables.gold_groups import expired_queues, idleness, overlap, passes, run_ends
from pipeline.tables.gold_sends import producer_failover, send_shares, sends
from pipeline.tables.members import members
from pipeline.tables.metrics import METRICS, metrics
from pipeline.tables.orphans import broker_presence, orphans, topic_sizes
from pipeline.tables.ownership import ownership, queue_changes


class TableStep(msgspec.Struct, frozen=True):
    """How a table is made: *make* is given the tables *reads*, in this order."""

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
    "rebalances": TableStep(rebalances, ("owners", "members")),
    "topic_sizes": TableStep(topic_sizes, ("facts",)),
    "broker_presence": TableStep(broker_presence, ("facts", "faults", "topic_sizes")),
    "failovers": TableStep(failovers, ("facts", "delivery_latency", "faults")),
    "expired_queues": TableStep(expired_queues, ("facts",)),
}
GOLD = {
    "delivery_latency": TableStep(delivery_latency, ("deliveries",)),
    "delivery": TableStep(delivery, ("delivery_latency", "deliveries", "failovers", "members")),
    "retries": TableStep(retries, ("facts", "messages", "members")),
    "offset_lag": TableStep(offset_lag, ("facts", "messages")),
    "overlap": TableStep(overlap, ("ownership", "run_ends", "members")),
    "orphans": TableStep(
        orphans, ("members", "ownership", "topic_sizes", "broker_presence", "run_ends")
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
