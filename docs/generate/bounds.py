"""The table of bounds on docs/scenarios.md: computed bounds beside measured values.

Each row is a scenario of the library whose faults begin at the worst moment.  The measured value
must be at least ``nearly``: a bound that is ten times too large proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool

PAGE = DOCS / "scenarios.md"
SEED = 1


class Bound(NamedTuple):
    """*metric* of the scenario is at least *nearly* and at most *at_most* seconds."""

    what: str
    arithmetic: str
    scenario: str
    parameters: Mapping[str, str | float | bool]
    metric: str
    nearly: float
    at_most: float


FAILOVER, GAP, OVERLAP = "producer_failover_s", "consumer_failover_s", "overlap_s"
BOUNDS = (
    Bound(
        "a broker is killed: sends fail, without retries",
        "the next route poll (30 s)",
        "a_broker_dies_and_nobody_retries",
        {},
        FAILOVER,
        29,
        30,
    ),
    Bound(
        "a broker hangs, its connections open",
        "120 s + a check every 10 s + a poll (30 s) = 160 s; but connections that were silent for "
        "120 s are closed before that check: 150 s, and 3 s of the last attempt",
        "a_broker_hangs_and_nobody_retries",
        {},
        FAILOVER,
        147,
        153,
    ),
    Bound(
        "the same since 5.0.0",
        "a check every 5 s: 155 s; for the same reason 150 s, and 3 s",
        "a_broker_hangs_and_nobody_retries",
        {"release": "5.3.3"},
        FAILOVER,
        147,
        153,
    ),
    Bound(
        "a member is killed",
        "the others are notified immediately; then a message must arrive",
        "a_member_dies",
        {},
        GAP,
        0.1,
        1,
    ),
    Bound(
        "an orderly member is killed",
        "its locks at the broker (60 s)",
        "an_orderly_member_is_killed",
        {},
        GAP,
        59,
        60.1,
    ),
    Bound(
        "a member hangs, its connections open",
        "120 s + a check every 10 s + the others' next pass (20 s)",
        "a_member_stands_still",
        {},
        GAP,
        145,
        150,
    ),
    Bound(
        "a member joins, and the others are notified: a queue has two owners",
        "the time of one message; here a call takes 0.1 s",
        "a_member_joins",
        {},
        OVERLAP,
        0,
        0.1,
    ),
    Bound(
        "the same, and the notice is lost",
        "the others' next pass (20 s)",
        "a_member_joins",
        {"notice": "lost"},
        OVERLAP,
        19,
        20.2,
    ),
    Bound(
        "the same, and brokers merge notices (`realTimeNotifyConsumerChange` is off)",
        "the next merged notice (15 s)",
        "a_member_joins",
        {"notice": "merged", "at_s": 74.6},
        OVERLAP,
        14,
        15.1,
    ),
    Bound(
        "an orderly member gets a queue, before 4.9.5 (#2621)",
        "the next renewal of locks (20 s)",
        "orderly_queues_are_taken_over",
        {"release": "4.9.4"},
        "delivery_gap_s",
        19,
        20.1,
    ),
    Bound(
        "a master hangs: a controller elects another one",
        "10 s without a heartbeat, then the next of two scans, 3 s apart",
        "a_hung_master_is_replaced",
        {},
        "election_s",
        12.9,
        13,
    ),
    Bound(
        "the same, until producers send to the new master",
        "13 s, then the next route poll (30 s)",
        "a_hung_master_is_replaced",
        {},
        "without_writes_s",
        42,
        43.1,
    ),
    Bound(
        "a slave hangs: it leaves the sync-state set",
        "haMaxTimeSlaveNotCatchup (15 s), then the master's next check (5 s)",
        "a_hung_slave_leaves_the_set",
        {},
        "silent_in_set_s",
        19.5,
        20.1,
    ),
)


def rows() -> list[RunResult]:
    """The result of one run of each bound's scenario, two runs at a time."""
    orders = [RunOrder(plan=load(each.scenario, each.parameters), seed=SEED) for each in BOUNDS]
    with RunPool() as fleet:
        found = {id(order): row for order, row in fleet.finished(orders, jobs=2)}
    return [found[id(order)] for order in orders]


def bounds_text(results: Sequence[RunResult]) -> str:
    """The Markdown table of BOUNDS with the measured values."""
    return "\n".join(_lines(results))


def _lines(results: Sequence[RunResult]) -> Iterator[str]:
    yield "| event | bound | computed from | measured | scenario |"
    yield "| --- | --- | --- | --- | --- |"
    for bound, row in zip(BOUNDS, results, strict=True):
        measured = f"{row.metrics[bound.metric]:.1f} s"
        settings = "".join(f" --set {key}={value}" for key, value in bound.parameters.items())
        yield (
            f"| {bound.what} | {bound.at_most:g} s | {bound.arithmetic} | {measured} | "
            f"`{bound.scenario}{settings}` |"
        )


if __name__ == "__main__":
    write_section(PAGE, "bounds", bounds_text(rows()))
