"""Monitors object to work that continues after its lock, listener, member or broker ended.

Each excuse is tested three times: inside it, just outside, and after it.
"""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.monitors.table import MONITORS
from rocketmq_emulator.facts import (
    DelayedDelivered,
    MemberLeft,
    MessageSent,
    NodeStarted,
    Queue,
    QueuesLocked,
    QueuesUnlocked,
    RebalancePassed,
    RouteChanged,
)
from tests.support.checks.journals_of_members import ONE, TWO, a_cluster, joined, passed
from tests.support.checks.small_journals import Q0, AJournal, client_of, objections

LEVEL_3 = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)  # 10 s
RETRY = Queue("%RETRY%billing", "broker-a", 0)


def found(journal: AJournal, name: str) -> tuple[int, float]:
    """The numbers of objections and of excuses of the monitor *name*."""
    judgement = judge(journal.entries, [MONITORS[name]])
    return len(objections(judgement, name)), judgement.metrics[f"excused_{name}"]


def a_fault(journal: AJournal, node: str, began_s: float, ended_s: float) -> AJournal:
    return journal.at_s(began_s).fault("partition", node, number=9).at_s(ended_s).healed(9)


# A notice wakes the passes of all topics ---------------------------------------------------


def steps_passed(journal: AJournal, *members: str) -> AJournal:
    clients = tuple(map(client_of, members))
    return journal.note(ONE, RebalancePassed("billing", "steps", 4, clients, 2, "timer"))


@pytest.mark.parametrize(("after_s", "expected"), [(1, 0), (20, 1)])
def test_a_member_rebalances_each_of_its_topics_when_another_one_left(after_s, expected) -> None:
    journal = a_cluster().consumer(ONE).consumer(TWO).at_s(30)
    steps_passed(passed(joined(joined(journal, ONE), TWO), ONE, ONE, TWO), ONE, TWO)
    left = MemberLeft("billing", client_of(TWO), f"{TWO}:1", "unregistered")
    passed(journal.at_s(60).stopped(TWO).note("broker-a", left), ONE, ONE)
    steps_passed(journal.at_s(60 + after_s), ONE)
    assert found(journal, "notices_wake") == (expected, 0)


def test_a_topic_that_a_member_passes_no_more_is_not_waited_for() -> None:
    journal = a_cluster().consumer(ONE).consumer(TWO).at_s(30)
    steps_passed(passed(joined(joined(journal, ONE), TWO), ONE, ONE, TWO), ONE, TWO)
    left = MemberLeft("billing", client_of(TWO), f"{TWO}:1", "unregistered")
    passed(journal.at_s(60), ONE, ONE, TWO)
    passed(journal.at_s(100).stopped(TWO).note("broker-a", left), ONE, ONE)
    assert found(journal.at_s(200).ends(), "notices_wake") == (0, 0)


# A queue is unlocked when its listener has returned ----------------------------------------


def at_work(locked_s: float = 95) -> AJournal:
    """The listener works at a message from 100 s on."""
    journal = a_cluster().consumer(ONE, orderly=True).stored(0).at_s(locked_s)
    journal.note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ()))
    return journal.claimed(ONE, Q0, offsets=(0,)).at_s(100).given(ONE, 0)


def given_up(journal: AJournal) -> AJournal:
    unlocked = QueuesUnlocked("billing", client_of(ONE), (Q0,))
    return journal.at_s(101).released(ONE, Q0).note("broker-a", unlocked)


def test_a_queue_is_not_unlocked_while_its_listener_works() -> None:
    assert found(given_up(at_work()), "one_listener_a_queue") == (1, 0)
    assert found(given_up(at_work().consumed(ONE, 0)), "one_listener_a_queue") == (0, 0)


@pytest.mark.parametrize(("locked_s", "expected"), [(80, (0, 1)), (82, (1, 0))])
def test_a_queue_is_unlocked_by_force_20_s_after_its_last_lock(locked_s, expected) -> None:
    assert found(given_up(at_work(locked_s)), "one_listener_a_queue") == expected


@pytest.mark.parametrize(
    ("node", "ended_s", "expected"),
    [(ONE, 90, (0, 1)), ("broker-a", 90, (0, 1)), (ONE, 79, (1, 0)), ("broker-b", 90, (1, 0))],
)
def test_a_lock_that_a_fault_held_up_may_be_older_than_it_seems(node, ended_s, expected) -> None:
    journal = a_cluster().consumer(ONE, orderly=True).stored(0)
    a_fault(journal, node, 70, ended_s).at_s(95)
    journal.note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ()))
    journal.claimed(ONE, Q0, offsets=(0,)).at_s(100).given(ONE, 0)
    assert found(given_up(journal), "one_listener_a_queue") == expected


def test_a_member_that_shuts_down_unlocks_all_whatever_is_under_way() -> None:
    assert found(given_up(at_work().stopped(ONE)), "one_listener_a_queue") == (0, 0)


@pytest.mark.parametrize(
    ("ended_s", "release", "reason", "expected"),
    [
        (110, "4.9.7", "not mine", (0, 1)),
        (130, "4.9.7", "not mine", (1, 0)),  # the 20 s were over
        (110, "5.2.0", "not mine", (1, 0)),  # 5.2.0 unlocks at once
        (110, "4.9.7", "shutdown", (1, 0)),
    ],
)
def test_an_unlocking_that_is_put_off_by_20_s_ends_with_its_process(
    ended_s, release, reason, expected
) -> None:
    journal = a_cluster().consumer(ONE, orderly=True, release=release).at_s(95)
    journal.note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ()))
    journal.claimed(ONE, Q0, offsets=(0,)).at_s(101).released(ONE, Q0, reason=reason)
    journal.at_s(ended_s).stopped(ONE).at_s(200).ends()
    assert found(journal, "queues_are_unlocked") == expected


# A lock lapses -----------------------------------------------------------------------------


def refused(journal: AJournal) -> list[str]:
    journal.note("broker-a", QueuesLocked("billing", client_of(TWO), (), (Q0,)))
    return objections(journal.judged(), "locks")


def locked() -> AJournal:
    journal = a_cluster().consumer(ONE, orderly=True).consumer(TWO, orderly=True).at_s(100)
    return journal.note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ()))


def test_a_lock_that_was_not_renewed_for_60_s_is_free() -> None:
    assert refused(locked().at_s(159)) == []
    assert refused(locked().at_s(161)) == [
        (
            "broker-a refused billing-2@1 the lock of orders:0 for billing-1@1, which got it "
            "last 61.0 s before"
        )
    ]
    again = QueuesLocked("billing", client_of(ONE), (Q0,), ())
    assert refused(locked().at_s(150).note("broker-a", again).at_s(161)) == []


@pytest.mark.parametrize(
    ("node", "after_s", "is_free"), [("broker-a", 62, 0), ("broker-a", 64, 1), ("broker-b", 62, 1)]
)
def test_a_lock_lives_longer_by_as_much_as_its_brokers_clock_went_back(
    node, after_s, is_free
) -> None:
    journal = locked().at_s(110).fault("clock_jump", node, ms=-3_000).at_s(100 + after_s)
    assert len(refused(journal)) == is_free


# A broker's process ------------------------------------------------------------------------


def with_route(journal: AJournal, at_s: float, *brokers: str) -> AJournal:
    return journal.at_s(at_s).note("producer-1", RouteChanged("orders", brokers))


@pytest.mark.parametrize(
    ("word", "after_s", "expected"),
    [("kill", 0.5, 0), ("kill", 2, 1), ("stop", 2, 1), ("power_off", 2, 0), ("pause", 2, 0)],
)
def test_no_client_gets_a_route_with_a_broker_that_ended(word, after_s, expected) -> None:
    journal = a_cluster().at_s(100).fault(word, "broker-b")
    with_route(journal, 100 + after_s, "broker-a", "broker-b")
    assert found(journal, "dead_brokers_leave") == (expected, 0)
    alone = with_route(a_cluster().at_s(100).fault(word, "broker-b"), 100 + after_s, "broker-a")
    assert found(alone, "dead_brokers_leave") == (0, 0)


def test_a_broker_that_is_back_is_in_routes_before_its_fault_is_said_to_be_over() -> None:
    journal = a_cluster().at_s(100).fault("kill", "broker-b").at_s(103)
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7"))
    assert found(with_route(journal, 103.1, "broker-a", "broker-b"), "dead_brokers_leave") == (
        0,
        0,
    )


@pytest.mark.parametrize(
    ("node", "ended_s", "expected"),
    [
        ("namesrv-a", 100, (0, 1)),
        ("broker-b", 100, (0, 1)),
        ("namesrv-a", 98, (1, 0)),
        ("broker-a", 100, (1, 0)),
    ],
)
def test_a_name_server_may_not_see_a_broker_end_in_a_fault(node, ended_s, expected) -> None:
    journal = a_fault(a_cluster(), node, 90, ended_s).at_s(100.1).fault("kill", "broker-b")
    assert (
        found(with_route(journal, 103, "broker-a", "broker-b"), "dead_brokers_leave") == expected
    )


# Deliveries that a broker forgets and repeats ----------------------------------------------


def a_retry_twice(restarts: bool) -> AJournal:
    """The first copy comes, and again after a restart while the second one is not yet due."""
    journal = AJournal().runs().store().consumer(ONE).stored(0, LEVEL_3, "k")
    journal.at_s(10).stored(0, RETRY, "k").note("broker-a", DelayedDelivered(RETRY, 3, 0))
    if restarts:
        journal.at_s(12).fault("kill", "broker-a").at_s(14).healed()
        journal.note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.at_s(15).stored(1, LEVEL_3, "k").at_s(16).stored(1, RETRY, "k")
    return journal.note("broker-a", DelayedDelivered(RETRY, 3, 6_000)).at_s(20)


def test_a_retry_that_comes_again_after_a_restart_is_not_the_one_that_waits() -> None:
    assert objections(a_retry_twice(restarts=True).judged(), "delays") == []
    assert objections(a_retry_twice(restarts=False).judged(), "delays") == [
        "k came to %RETRY%billing@broker-a:0 9.0 s before its time"
    ]


# Journals that end before their nodes -----------------------------------------------------------


def test_a_member_that_sent_a_message_on_as_a_retry_is_not_taken_for_its_producer() -> None:
    """The retry keeps the key, which names the producer's process; later sends are unanswered."""

    def gaps(topic: str) -> list[str]:
        key = "0A00000803EB7E6811C447B7AAE8000"
        journal = AJournal().runs().store().consumer(ONE).pulled(0, 0).sent(0).at_s(10)
        queue = Queue(topic, "broker-a", 0)
        journal.stored(1 if queue == Q0 else 0, queue, key=key + "1")
        journal.note(ONE, MessageSent(topic, queue, 1, key + "1", 1, 1, "SEND_OK"))
        journal.stopped(ONE).at_s(20).stored(2 if queue == Q0 else 1, Q0, key=key + "2")
        return [text for text in journal.at_s(30).ends().judged().incomplete if ONE in text]

    assert gaps("%RETRY%billing") == []
    (text,) = gaps("orders")
    assert "the journal of billing-1 ends at 10.000 s" in text
