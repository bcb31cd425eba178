"""A run is not quiet while messages wait for a retry, a delay level or a delivery time."""

from __future__ import annotations

from rocketmq_emulator.facts import (
    DelayedDelivered,
    DelayedMessageDropped,
    Fact,
    LogRecovered,
    MessageConsumed,
    MessageEscaped,
    MessageStored,
    OffsetCommitted,
    Queue,
    TimerMessageDelivered,
    TimerMessagePutAside,
    TimerMessageRecalled,
    TimerMessageRolled,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC, TIMER_TOPIC, dlq_topic
from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan
from rocketmq_emulator.scenarios.running.observer import RunObserver, reasons_not_quiet
from tests.support.scenarios.running_plans import a_plan

ORDERS = Queue("orders", "broker-a", 0)
LEVEL_3 = Queue(SCHEDULE_TOPIC, "broker-a", 2)
TIMERS = Queue(TIMER_TOPIC, "broker-a", 0)
RECORD_BYTES = 100
LATE_US = 100_000_000


def a_watch(*facts: Fact) -> RunObserver:
    watch = RunObserver(
        a_plan(consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}),))
    )
    for seq, fact in enumerate(facts, 1):
        watch.take(Entry(seq, 0, seq, "broker-a", fact))
    return watch


def stored(queue: Queue, offset: int, position: int, key: str = "k") -> MessageStored:
    return MessageStored(queue, offset, position * RECORD_BYTES, key, RECORD_BYTES)


def put_aside(offset: int) -> TimerMessagePutAside:
    return TimerMessagePutAside(ORDERS, offset, 5_000, "k")


DELAYED = DelayedDelivered(ORDERS, 3, 0)


def test_a_delayed_message_is_waited_for_until_it_is_consumed() -> None:
    facts: list[Fact] = [stored(LEVEL_3, 0, 0)]
    assert "1 messages wait" in reasons_not_quiet(a_watch(*facts), LATE_US, 0, 40.0)
    facts += [stored(ORDERS, 0, 1), DELAYED]
    assert a_watch(*facts).delayed_count == 0
    assert "billing has 1 messages" in reasons_not_quiet(a_watch(*facts), LATE_US, 0, 40.0)
    facts += [
        MessageConsumed("billing", "orders", ORDERS, 0, "k", 0, ok=True),
        OffsetCommitted("billing", ORDERS, 1, "10.0.0.9:1"),
    ]
    assert reasons_not_quiet(a_watch(*facts), LATE_US, 0, 40.0) == ""


def test_one_that_is_delivered_twice_hides_no_other_that_waits() -> None:
    again = a_watch(
        stored(LEVEL_3, 0, 0),
        stored(ORDERS, 0, 1),
        DELAYED,
        stored(ORDERS, 1, 2),
        DELAYED,
        stored(LEVEL_3, 1, 3, "another"),
    )
    assert again.delayed_count == 1


def test_of_two_with_one_key_an_acting_master_sends_away_the_one_that_is_due() -> None:
    level_4 = Queue(SCHEDULE_TOPIC, "broker-a", 3)
    escaped = MessageEscaped(ORDERS, "broker-b", 0, "delay level", "k")
    facts = [stored(level_4, 0, 0), stored(LEVEL_3, 0, 1), escaped]
    assert a_watch(*facts).delayed_count == 1
    assert a_watch(*facts, stored(ORDERS, 0, 2), DelayedDelivered(ORDERS, 4, 0)).delayed_count == 0
    assert a_watch(*facts, stored(ORDERS, 0, 2), DELAYED).delayed_count == 1


def test_one_that_its_broker_gave_up_is_not_waited_for() -> None:
    dropped = DelayedMessageDropped(ORDERS, 3, "the topic is gone", "k")
    assert a_watch(stored(LEVEL_3, 0, 0), dropped).delayed_count == 0


def test_a_timer_message_is_waited_for_until_its_time_has_come() -> None:
    waiting = [stored(TIMERS, 0, 0), put_aside(0)]
    assert a_watch(*waiting).delayed_count == 1
    for over in (
        TimerMessageDelivered(ORDERS, 0, 0, "k"),
        TimerMessageRecalled(ORDERS, 0, "k"),
        LogRecovered(0, 0, 0),
    ):
        assert a_watch(*waiting, over).delayed_count == 0


def test_a_timer_message_that_rolls_on_is_waited_for_still() -> None:
    rolled = [
        stored(TIMERS, 0, 0),
        put_aside(0),
        stored(TIMERS, 1, 1),
        TimerMessageRolled(ORDERS, 0, 1, "k"),
    ]
    assert a_watch(*rolled).delayed_count == 1
    assert a_watch(*rolled, TimerMessageDelivered(ORDERS, 1, 0, "k")).delayed_count == 0


def test_a_dead_letter_of_an_orderly_member_is_not_waited_for_while_it_waits() -> None:
    group = ConsumersPlan(
        group="billing",
        topics={"orders": "*"},
        orderly=True,
        settings={"reconsume_times_max": 1},
    )

    def waiting(reconsume_times: int) -> int:
        watch = RunObserver(a_plan(consumers=(group,)))
        failed = MessageConsumed("billing", "orders", ORDERS, 0, "k", reconsume_times, ok=False)
        watch.take(Entry(1, 0, 1, "billing-1", failed))
        watch.take(Entry(2, 0, 2, "broker-a", stored(LEVEL_3, 0, 0)))
        return watch.delayed_count

    assert [waiting(0), waiting(1), waiting(14)] == [1, 0, 0]


def test_dead_letters_are_waited_for_by_nobody() -> None:
    letter = stored(Queue(dlq_topic("billing"), "broker-a", 0), 0, 0)
    assert reasons_not_quiet(a_watch(letter), LATE_US, 0, 40.0) == ""
