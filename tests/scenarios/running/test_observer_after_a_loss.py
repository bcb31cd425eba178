"""When a run is quiet: it does not wait for messages that a broker lost in a power failure.

It waits for them from when a slave is elected that has them.
"""

from __future__ import annotations

from typing import Literal

from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    Fact,
    LogCopied,
    LogFlushed,
    LogRecovered,
    MessageConsumed,
    MessageStored,
    OffsetCommitted,
    PowerLost,
    Queue,
    SlaveConnected,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan
from rocketmq_emulator.scenarios.running.observer import RunObserver, reasons_not_quiet
from tests.support.scenarios.running_plans import a_plan

Q = Queue("orders", "broker-a", 0)
LATER = Queue(SCHEDULE_TOPIC, "broker-a", 2)
RECORD_BYTES = 100
LATE_US = 100_000_000


def a_watch(*facts: Fact) -> RunObserver:
    watch = RunObserver(
        a_plan(consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}),))
    )
    for seq, fact in enumerate(facts, 1):
        watch.take(Entry(seq, 0, seq, "broker-a", fact))
    return watch


def stored(offset: int, position: int, queue: Queue = Q) -> MessageStored:
    return MessageStored(queue, offset, position * RECORD_BYTES, "k", RECORD_BYTES)


FOUR = (
    stored(0, 0),
    stored(1, 1),
    MessageConsumed("billing", "orders", Q, 0, "k", 0, ok=True),
    OffsetCommitted("billing", Q, 1, "10.0.0.9:1"),
    LogFlushed(RECORD_BYTES, RECORD_BYTES, 1),
    stored(0, 2, LATER),
)


def test_messages_that_were_lost_are_not_waited_for() -> None:
    for loss in (
        LogRecovered(1, 0, RECORD_BYTES),
        PowerLost(RECORD_BYTES, RECORD_BYTES, 3 * RECORD_BYTES, ()),
    ):
        assert reasons_not_quiet(a_watch(*FOUR, loss), LATE_US, 0, 40.0) == ""
    kept = a_watch(*FOUR, LogRecovered(3, 0, 3 * RECORD_BYTES))
    assert kept.backlogs() == {"billing": 1}
    assert kept.delayed_count == 1


def test_messages_in_the_places_of_lost_ones_are_waited_for() -> None:
    watch = a_watch(*FOUR, LogRecovered(1, 0, RECORD_BYTES), stored(1, 1))
    assert watch.backlogs() == {"billing": 1}


def backlog_after_an_election(*, copied: int, is_slave: bool = True) -> dict[str, int]:
    """The master loses two messages of three with its power; a slave with *copied* is elected.

    Unless *is_slave* the master itself is elected again.
    """
    at = [number * RECORD_BYTES for number in range(4)]
    facts: tuple[tuple[str, Fact], ...] = (
        ("broker-a", role("master", 1)),
        ("broker-a-1", role("slave", 1)),
        ("broker-a", SlaveConnected("10.0.0.2:1", 0, 0)),
        ("broker-a", stored(0, 0)),
        ("broker-a", stored(1, 1)),
        ("broker-a", stored(2, 2)),
        ("broker-a-1", LogCopied(at[copied], at[copied], copied)),
        ("broker-a", OffsetCommitted("billing", Q, 3, "10.0.0.9:1")),
        ("broker-a", PowerLost(at[1], at[1], at[3], ())),
        ("broker-a", LogRecovered(1, 0, at[1])),
        ("broker-a", role("master", 1)),
        ("broker-a", OffsetCommitted("billing", Q, 1, "10.0.0.9:1")),
        ("broker-a-1" if is_slave else "broker-a", role("master", 2)),
    )
    watch = a_watch()
    for seq, (node, fact) in enumerate(facts, 1):
        watch.take(Entry(seq, 0, seq, node, fact))
    return watch.backlogs()


def role(name: Literal["master", "slave"], epoch: int) -> BrokerRoleChanged:
    return BrokerRoleChanged(name, 1, "10.0.0.1:10911", epoch)


def test_messages_that_an_elected_slave_has_and_its_master_lost_are_waited_for() -> None:
    assert backlog_after_an_election(copied=3) == {"billing": 2}
    assert backlog_after_an_election(copied=2) == {"billing": 1}
    assert backlog_after_an_election(copied=1) == {}
    assert backlog_after_an_election(copied=3, is_slave=False) == {}
