"""Delayed messages that may come early, late or again: because of clocks, restarts, operators."""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_emulator.facts import (
    DelayedDelivered,
    NodeStarted,
    Queue,
    TimeAdvanced,
    TimerMessageDelivered,
    TimerMessagePutAside,
)
from tests.support.checks.small_journals import (
    EPOCH_MS,
    Q1,
    AJournal,
    a_consumed_journal,
    objections,
)

ONE, TWO = "billing-1", "billing-2"
AFTER_10_S = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)
Q_OF_B = Queue("orders", "broker-b", 0)


def found(journal: AJournal, checker: str) -> int:
    return len(objections(journal.judged(), checker))


def metric(journal: AJournal, name: str) -> float:
    return journal.judged().metrics[name]


def a_delayed_message(comes_s: float, node: str, began_s: float, ended_s: float) -> AJournal:
    """A delayed message that is due at 100 s."""
    level = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)
    journal = a_consumed_journal(1).at_s(90).stored(0, level, key="k")
    if node:
        journal.at_s(began_s).fault("kill", node).at_s(ended_s).healed()
        journal.note(node, NodeStarted("broker", "", "4.9.7"))
    return journal.at_s(comes_s).delivered(0, Q1, 3, "k")


def test_a_broker_that_was_started_again_delivers_within_30_s() -> None:
    inside = a_delayed_message(124, "broker-a", 95, 96)
    assert found(inside, "delays") == 0
    assert metric(inside, "excused_late_delays") == 1
    assert found(a_delayed_message(149, "broker-a", 95, 120), "delays") == 0
    assert found(a_delayed_message(151, "broker-a", 95, 120), "delays") == 1
    assert found(a_delayed_message(124, "broker-b", 95, 96), "delays") == 1
    assert found(a_delayed_message(104, "", 0, 0), "delays") == 1
    assert found(a_delayed_message(102, "", 0, 0), "delays") == 0


def test_a_restart_long_before_or_long_after_its_time_does_not_make_a_message_late() -> None:
    def due_at_700(began_s: float, comes_s: float) -> AJournal:
        journal = a_consumed_journal(1).at_s(100)
        journal.stored(0, Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 13), key="k")  # 10 minutes
        journal.at_s(began_s).fault("pause", "broker-a").at_s(began_s + 1).healed()
        return journal.at_s(comes_s).delivered(0, Q1, 14, "k")

    assert found(due_at_700(200, 705), "delays") == 1
    assert found(due_at_700(690, 705), "delays") == 0
    assert found(due_at_700(704, 706), "delays") == 1
    assert found(due_at_700(740, 745), "delays") == 1


def test_what_a_restarted_broker_delivers_again_is_not_the_retry_that_waits() -> None:
    """The message came at 100 s and failed; its retry is due at 111 s."""

    def delivered_again(ended_s: float, target: Queue) -> AJournal:
        journal = a_consumed_journal(1).consumer("billing-1").at_s(90)
        journal.stored(0, AFTER_10_S, key="k").at_s(100).delivered(0, Q1, 3, "k").at_s(101)
        journal.consumed("billing-1", 0, Q1, key="k", ok=False)
        journal.stored(1, AFTER_10_S, key="k").at_s(ended_s).fault("kill", "broker-a").at_s(106)
        journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).healed()
        return journal.delivered(1 if target == Q1 else 0, target, 3, "k")

    retry = Queue("%RETRY%billing", "broker-a", 0)
    assert found(delivered_again(105, Q1), "delays") == 0
    assert found(delivered_again(105, Q1), "places") == 0
    assert found(delivered_again(105, retry), "delays") == 1  # 5 s early


def test_a_retry_that_a_restarted_broker_delivers_again_is_as_late_as_the_first_one() -> None:
    """One retry came at 110 s, when it was due; a second one has waited since 112 s."""

    def comes(late_ms: int, restarted: bool = True) -> int:
        retry = Queue("%RETRY%billing", "broker-a", 0)
        journal = a_consumed_journal(1).at_s(100).stored(0, AFTER_10_S, key="k")
        journal.at_s(110).delivered(0, retry, 3, "k").at_s(112).stored(1, AFTER_10_S, key="k")
        if restarted:
            journal.at_s(113).fault("kill", "broker-a").at_s(114)
            journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).healed()
        journal.at_s(115).stored(1, retry, "k")
        journal.note("broker-a", DelayedDelivered(retry, 3, late_ms))
        return found(journal, "delays") + found(journal, "places")

    assert comes(late_ms=5_000) == 0
    assert comes(late_ms=0) == 0  # no copy was due then either
    assert comes(late_ms=5_000, restarted=False) == 1  # 7 s early


def test_a_retry_is_delivered_though_the_clock_of_its_restarted_broker_was_moved() -> None:
    """One retry came at 110 s; a second one is stored at 112 s, and comes at 125 s."""

    def lost(node: str) -> int:
        retry = Queue("%RETRY%billing", "broker-a", 0)
        journal = a_consumed_journal(1).at_s(100).stored(0, AFTER_10_S, key="k")
        journal.at_s(110).delivered(0, retry, 3, "k")
        journal.at_s(111).fault("clock_jump", node, number=2, ms=3_000)
        journal.at_s(112).stored(1, AFTER_10_S, key="k")
        journal.at_s(113).fault("kill", "broker-a").at_s(114)
        journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).healed().at_s(118).healed(2)
        return found(journal.at_s(125).delivered(1, retry, 3, "k").at_s(300).ends(), "lost")

    assert lost("broker-a") == 0
    assert lost("broker-b") == 1  # the delivery at 125 s is not of the copy that is due at 122 s


def delayed_by_a_clock(
    comes_s: float, node: str = "broker-a", ms: float = -60_000, jumped_s: float = 92
) -> AJournal:
    """A message with a delay of 10 s is stored at 90 s; the clock of *node* jumps."""
    journal = a_consumed_journal(1)
    steps: list[tuple[float, Callable[[], AJournal]]] = [
        (90, lambda: journal.stored(0, AFTER_10_S, key="k")),
        (jumped_s, lambda: journal.fault("clock_jump", node, ms=ms)),
        (comes_s, lambda: journal.delivered(0, Q1, 3, "k")),
    ]
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


def test_a_clock_makes_messages_early_or_late_by_as_much_as_it_was_moved() -> None:
    assert found(delayed_by_a_clock(93, ms=60_000), "delays") == 0
    assert metric(delayed_by_a_clock(93, ms=60_000), "excused_delays_by_clock") == 1
    assert found(delayed_by_a_clock(93, ms=500), "delays") == 1
    assert found(delayed_by_a_clock(93, "broker-b", ms=60_000), "delays") == 1
    assert found(delayed_by_a_clock(93, ms=60_000, jumped_s=21), "delays") == 0
    assert found(delayed_by_a_clock(93, ms=60_000, jumped_s=19), "delays") == 1  # too long before


def test_a_clock_that_goes_back_lets_come_at_once_what_is_stored_after_its_time() -> None:
    assert found(delayed_by_a_clock(93, ms=-4_000), "delays") == 0
    assert found(delayed_by_a_clock(94.5, ms=-4_000), "delays") == 1
    assert found(delayed_by_a_clock(93, "broker-b", ms=-4_000), "delays") == 1


def test_time_that_was_advanced_lets_those_come_that_waited_then() -> None:
    def comes(advanced_s: float, broker: str = "broker-a") -> AJournal:
        journal = a_consumed_journal(1)
        steps: list[tuple[float, Callable[[], AJournal]]] = [
            (advanced_s, lambda: journal.note(broker, TimeAdvanced(10_000, 1, 1))),
            (90, lambda: journal.stored(0, AFTER_10_S, key="k")),
            (93, lambda: journal.delivered(0, Q1, 3, "k")),
        ]
        for at_s, do in sorted(steps, key=lambda step: step[0]):
            journal.at_s(at_s)
            do()
        return journal

    assert found(comes(92), "delays") == 0
    assert metric(comes(92), "excused_delays_advanced") == 1
    assert found(comes(80), "delays") == 1
    assert found(comes(92, "broker-b"), "delays") == 1


def two_timer_messages_of_one_send(comes_s: float) -> AJournal:
    """The retry of a send stored a second copy at the same broker, due 3 s later."""
    waiting = Queue("rmq_sys_wheel_timer", "broker-a", 0)
    journal = a_consumed_journal(1)
    for number, due_s in ((0, 100), (1, 103)):
        journal.at_s(due_s - 5).stored(number, waiting, key="k")
        aside = TimerMessagePutAside(Q1, number, EPOCH_MS + due_s * 1_000, "k")
        journal.note("broker-a", aside)
    journal.at_s(comes_s).stored(0, Q1, key="k")
    return journal.note("broker-a", TimerMessageDelivered(Q1, 0, 0, "k"))


def test_each_copy_of_a_timer_message_has_the_time_of_its_own_record() -> None:
    assert found(two_timer_messages_of_one_send(100), "delays") == 0
    assert found(two_timer_messages_of_one_send(102.9), "delays") == 0
    assert found(two_timer_messages_of_one_send(98), "delays") == 1
    assert found(two_timer_messages_of_one_send(103.5), "delays") == 1
