"""Causes in rebalances: moved queues and their triggers, idle members, locks, start-up."""

from __future__ import annotations

import re

import pytest

from rocketmq_emulator.facts import (
    NodeKilled,
    NodeStarted,
    NodeStopped,
    PullFailed,
    Queue,
    QueuesLocked,
    RouteChanged,
    TopicChanged,
    TopicCreated,
)
from tests.scenarios.after.test_causes import (
    BOTH,
    ONE,
    TWO,
    began,
    cause_of_expectation,
    expecting,
    left,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, a_member, client_of

FOUR = tuple(Queue("orders", "broker-a", number) for number in range(4))
BOTH_BROKERS = ("broker-a", "broker-b")
QB = Queue("orders", "broker-b", 0)


def restarted(journal: AJournal, broker: str, at_s: float, down_s: float) -> AJournal:
    """A rolling restart stops *broker*, which was started before."""
    journal.at_s(at_s).note(broker, NodeStopped("broker", "asked")).at_s(at_s + down_s)
    return journal.note(broker, NodeStarted("broker", "", "4.9.7"))


def one_has_four(metric: str = "moved_queues") -> AJournal:
    journal = expecting(metric).note("broker-a", TopicCreated("orders", 4, 4, 6, "admin"))
    for broker in BOTH_BROKERS:
        journal.note(broker, NodeStarted("broker", "", "4.9.7"))
    journal.at_s(1).consumer(ONE)
    journal.note("broker-a", a_member(client_of(ONE))).note(
        ONE, RouteChanged("orders", BOTH_BROKERS)
    )
    return journal.passed(ONE, 4, ONE, queues=4).claimed(ONE, *FOUR)


def two_joins(journal: AJournal) -> AJournal:
    journal.at_s(100).consumer(TWO).note("broker-a", a_member(client_of(TWO)))
    journal.note(TWO, RouteChanged("orders", BOTH_BROKERS)).passed(ONE, 2, *BOTH, queues=4)
    journal.released(ONE, *FOUR[2:]).at_s(101).passed(TWO, 2, *BOTH, queues=4)
    return journal.claimed(TWO, *FOUR[2:])


def two_goes(journal: AJournal) -> AJournal:
    """The other takes the queues of billing-2, with its timer."""
    journal.at_s(210).passed(ONE, 4, ONE, queues=4)
    return two_gives(journal)


def two_gives(journal: AJournal) -> AJournal:
    return journal.released(TWO, *FOUR[2:]).claimed(ONE, *FOUR[2:])


def moves_to_and_fro(metric: str = "moved_queues") -> AJournal:
    """Five rebalances move 3, 1, 2, 1 and 3 queues; shares of two and two need less."""
    journal = two_joins(one_has_four(metric))
    for number, (queues, source, target) in enumerate(
        ((FOUR[1:2], ONE, TWO), (FOUR[1:], TWO, ONE), (FOUR[2:3], ONE, TWO), (FOUR[:1], ONE, TWO))
    ):
        journal.at_s(200 + 100 * number).released(source, *queues).claimed(target, *queues)
    return journal.at_s(900).ends()


def test_moves_are_told_by_rebalance_with_what_changed_before_each() -> None:
    journal = two_joins(one_has_four()).at_s(205).note("world", NodeKilled(TWO))
    assert cause_of_expectation(two_goes(journal).at_s(300).ends()) == (
        "4 queues of orders moved in 2 rebalances of billing, where 4 had to for even shares. "
        "From 100.000 s to 101.000 s 2 moved, where 2 had to: billing-2 joined at 100.0 s. From "
        "205.0 s to 210.0 s 2 moved, where 2 had to: billing-2 was killed at 205.0 s. Even "
        "shares need these moves: no strategy moves fewer."
    )


@pytest.mark.parametrize("metric", ["moved_queues", "needless_moves"])
def test_the_numbers_of_the_rebalances_add_up_to_the_metric(metric) -> None:
    journal = moves_to_and_fro(metric)
    cause, metrics = cause_of_expectation(journal), journal.judged().metrics
    (moved, rebalances, needed) = map(
        int, re.findall(r"^(\d+) queues .* in (\d+) reb.*?where (\d+) had", cause)[0]
    )
    shown = [(int(a), int(b)) for a, b in re.findall(r" s (\d+) moved, where (\d+) had to", cause)]
    (rest, smaller) = map(int, re.findall(r"And (\d+) more moved in (\d+) smaller", cause)[0])
    assert (moved, needed) == (metrics["moved_queues"], metrics["necessary_moves"])
    assert moved - needed == metrics["needless_moves"]
    assert len(shown) == 3
    assert sum(count for count, _ in shown) + rest == moved
    assert len(shown) + smaller == rebalances


def test_the_largest_rebalances_are_told_in_the_order_of_time() -> None:
    cause = cause_of_expectation(moves_to_and_fro())
    shown = re.findall(r"(?:From|At) (\d+)\.\d+ s (?:to \S+ s )?(\d+) moved", cause)
    assert shown == [("100", "2"), ("200", "1"), ("300", "3")]


def a_member_leaves() -> AJournal:
    return two_goes(two_joins(one_has_four()).at_s(205).stopped(TWO))


def a_broker_is_not_reached() -> AJournal:
    journal = two_joins(one_has_four()).at_s(205).note("broker-a", left(TWO, "channel closed"))
    return two_goes(journal)


def a_broker_forgets() -> AJournal:
    return two_goes(restarted(two_joins(one_has_four()), "broker-a", 195, 5))


def a_broker_lists_again() -> AJournal:
    journal = a_broker_is_not_reached().at_s(300).note("broker-a", a_member(client_of(TWO)))
    return journal.passed(ONE, 2, *BOTH, queues=4).released(ONE, *FOUR[2:]).claimed(TWO, *FOUR[2:])


def a_topic_grows() -> AJournal:
    journal = two_joins(one_has_four()).at_s(195).note("broker-a", TopicChanged("orders", 8, 8, 6))
    return two_gives(journal.at_s(210).passed(ONE, 4, *BOTH, queues=8))


def a_broker_goes() -> AJournal:
    journal = two_joins(one_has_four()).at_s(195).note("broker-b", NodeStopped("broker", "asked"))
    journal.at_s(209).note(ONE, RouteChanged("orders", ("broker-a",)))
    return two_gives(journal.at_s(210).passed(ONE, 4, *BOTH, queues=3))


def a_broker_comes_back() -> AJournal:
    journal = a_broker_goes().at_s(300).note("broker-b", NodeStarted("broker", "", "4.9.7"))
    journal.at_s(309).note(ONE, RouteChanged("orders", BOTH_BROKERS))
    journal.at_s(310).passed(ONE, 2, *BOTH, queues=4).released(ONE, *FOUR[2:])
    return journal.claimed(TWO, *FOUR[2:])


@pytest.mark.parametrize(
    ("journal", "trigger"),
    [
        (a_member_leaves, "billing-2 left at 205.0 s"),
        (a_broker_is_not_reached, "billing-2 was dropped by broker-a at 205.0 s"),
        (a_broker_forgets, "billing-2 was unknown to broker-a since its restart at 200.0 s"),
        (a_broker_lists_again, "billing-2 was listed again by broker-a at 300.0 s"),
        (a_topic_grows, "broker-a got 8 queues of orders instead of 4 at 195.0 s"),
        (a_broker_goes, "broker-b was stopped at 195.0 s"),
        (a_broker_comes_back, "broker-b was back at 300.0 s"),
        (moves_to_and_fro, "no list of members or queues had changed"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_rebalance_names_what_changed_before_it(journal, trigger) -> None:
    cause = cause_of_expectation(journal().at_s(900).ends())
    assert re.search(rf"where \d+ had to: {re.escape(trigger)}\.", cause), cause


def test_moves_of_several_topics_name_the_topic_of_each() -> None:
    news = tuple(Queue("news", "broker-a", number) for number in range(2))
    journal = two_joins(one_has_four()).claimed(ONE, *news).at_s(300).released(ONE, *news)
    cause = cause_of_expectation(journal.claimed(TWO, *news).at_s(400).ends())
    assert cause.startswith("4 queues of news, orders moved in 2 rebalances of billing")
    assert "At 300.0 s 2 of news in billing moved" in cause


def test_needless_moves_leave_out_a_topic_that_moved_less_than_necessary() -> None:
    """The queues of a member that was killed at the end had to move, and did not yet."""
    news = tuple(Queue("news", "broker-a", number) for number in range(2))
    journal = two_joins(one_has_four("needless_moves")).claimed(ONE, *news)
    journal.at_s(300).released(ONE, *news).claimed(TWO, *news).at_s(350)
    journal.released(TWO, *news).claimed(ONE, *news).at_s(400).note("world", NodeKilled(TWO))
    cause = cause_of_expectation(journal.at_s(410).ends())
    assert cause.startswith("4 queues of news moved in 2 rebalances of billing, where 2 had to")


def test_members_and_brokers_that_went_are_told_before_lists_that_differed() -> None:
    journal = two_joins(one_has_four()).at_s(203).note("broker-a", left(TWO, "channel closed"))
    journal.at_s(205).note("broker-b", NodeStopped("broker", "asked"))
    journal.at_s(209).note(ONE, RouteChanged("orders", ("broker-a",)))
    cause = cause_of_expectation(two_goes(journal).at_s(900).ends())
    assert (
        "where 0 had to: broker-b was stopped at 205.0 s; billing-2 was dropped by broker-a at "
        "203.0 s."
    ) in cause


def test_more_than_three_changes_of_one_rebalance_are_counted() -> None:
    journal = two_joins(one_has_four()).at_s(203).note("broker-a", left(TWO, "channel closed"))
    journal.at_s(205).note("broker-b", NodeStopped("broker", "asked"))
    journal.at_s(206).note(ONE, RouteChanged("orders", ("broker-a",)))
    journal.consumer("billing-3").consumer("billing-4")
    two_gives(journal.passed(ONE, 2, ONE, "billing-3", "billing-4", queues=4)).at_s(207)
    journal.stopped("billing-3").at_s(210).passed(ONE, 4, ONE, "billing-4", queues=4)
    journal.released(ONE, *FOUR[3:]).claimed("billing-4", *FOUR[3:])
    cause = cause_of_expectation(journal.at_s(900).ends())
    assert (
        "broker-b was stopped at 205.0 s; billing-3 and billing-4 joined at 206.0 s; billing-3 "
        "left at 207.0 s; 1 more change."
    ) in cause


def test_the_first_rebalance_of_a_member_shows_that_it_joined() -> None:
    journal = one_has_four().at_s(100).consumer(TWO).released(ONE, *FOUR[2:])
    journal.passed(TWO, 2, *BOTH, queues=4).claimed(TWO, *FOUR[2:])
    cause = cause_of_expectation(journal.at_s(400).ends())
    assert "where 2 had to: billing-2 joined at 100.0 s." in cause


def test_a_broker_that_has_dropped_a_member_and_restarted_does_not_know_it() -> None:
    journal = two_joins(one_has_four()).at_s(195).note("broker-a", left(TWO, "channel closed"))
    cause = cause_of_expectation(two_goes(restarted(journal, "broker-a", 195, 5)).at_s(900).ends())
    assert "billing-2 was unknown to broker-a since its restart at 200.0 s." in cause


# Faults of other brokers ----------------------------------------------------------------------


def an_owner_releases_as_broker_b_leaves(metric: str, stop_s: float | None = 63) -> AJournal:
    """broker-a, which has the queue, was restarted long before."""
    journal = expecting(metric).note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7")).consumer(ONE).consumer(TWO)
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, "")).pulled(0, 0)
    journal.note(ONE, RouteChanged("orders", BOTH_BROKERS)).claimed(ONE, Q0).claimed(TWO, Q1)
    restarted(journal, "broker-a", 20, 5).at_s(60).passed(ONE, 2, *BOTH, queues=3)
    return journal if stop_s is None else restarted(journal, "broker-b", stop_s, 3)


def test_no_owner_names_the_stop_of_another_broker_that_led_to_the_release() -> None:
    journal = an_owner_releases_as_broker_b_leaves("unowned_s")
    journal.at_s(67).note(ONE, RouteChanged("orders", ("broker-a",))).passed(ONE, 1, *BOTH)
    journal.released(ONE, Q0).at_s(90).claimed(TWO, Q0)
    cause = cause_of_expectation(journal.at_s(95).ends())
    assert cause.startswith("broker-b was stopped at 63.0 s and started again at 66.0 s. ")
    assert "broker-a was" not in cause


def test_two_owners_name_the_restart_of_another_broker_that_led_to_two_lists() -> None:
    journal = expecting("overlap_s").note("broker-b", NodeStarted("broker", "", "4.9.7"))
    journal.note("broker-b", a_member(client_of(ONE))).consumer(ONE).consumer(TWO)
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, "")).claimed(ONE, Q0)
    restarted(journal.claimed(TWO, Q1), "broker-a", 20, 5)
    restarted(journal, "broker-b", 63, 3)
    journal.at_s(70).passed(ONE, 1, *BOTH).at_s(75).passed(TWO, 2, TWO).claimed(TWO, Q0)
    cause = cause_of_expectation(journal.at_s(95).released(ONE, Q0).at_s(100).ends())
    assert cause.startswith("broker-b was stopped at 63.0 s and started again at 66.0 s. ")
    assert "broker-a was" not in cause


def test_two_owners_name_the_cut_after_which_a_broker_dropped_a_member() -> None:
    journal = expecting("overlap_s").consumer(ONE).consumer(TWO).passed(ONE, 1, *BOTH)
    journal.note("broker-b", a_member(client_of(ONE))).claimed(ONE, Q0).claimed(TWO, Q1)
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, ""))
    began(journal.at_s(10), "cut around", "broker-b").at_s(60)
    journal.note("broker-b", left(ONE, "channel closed")).at_s(70).passed(TWO, 2, TWO)
    journal.claimed(TWO, Q0).at_s(75).passed(ONE, 1, *BOTH).at_s(90).released(ONE, Q0)
    cause = cause_of_expectation(journal.ends())
    assert cause.startswith("The fault cut around broker-b held from 10.0 s to the end. ")


def test_a_gap_has_the_stops_of_a_rolling_restart_in_the_order_of_time() -> None:
    """The queue's broker was stopped first, then the one that led to the release."""
    journal = an_owner_releases_as_broker_b_leaves("delivery_gap_s", stop_s=None)
    journal.at_s(71).note("broker-a", NodeStopped("broker", "asked")).at_s(88)
    journal.note("broker-b", NodeStopped("broker", "asked")).at_s(91)
    for broker in BOTH_BROKERS:
        journal.note(broker, NodeStarted("broker", "", "4.9.7"))
    journal.sent(0).at_s(96).note(ONE, RouteChanged("orders", ("broker-a",)))
    journal.passed(ONE, 1, *BOTH).released(ONE, Q0).at_s(98).claimed(TWO, Q0).pulled(0, 1)
    cause = cause_of_expectation(journal.given(TWO, 0).consumed(TWO, 0).at_s(120).ends())
    assert "broker-a was stopped at 71.0 s and started again at 91.0 s. broker-b was" in cause


def test_a_broker_that_is_down_is_not_the_one_whose_list_lacks_a_member() -> None:
    journal = expecting("overlap_s").note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7")).consumer(ONE).consumer(TWO)
    for broker in BOTH_BROKERS:
        journal.note(broker, a_member(client_of(ONE)))
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, "")).claimed(ONE, Q0)
    journal.claimed(TWO, Q1).passed(ONE, 1, *BOTH).passed(TWO, 1, *BOTH).at_s(40)
    restarted(journal.note("broker-a", left(ONE, "channel closed")), "broker-a", 40, 8)
    journal.at_s(63).note("broker-b", left(ONE, "channel closed"))
    journal.note("broker-b", NodeStopped("broker", "asked")).at_s(68).passed(TWO, 2, TWO)
    journal.claimed(TWO, Q0).at_s(69).passed(ONE, 1, *BOTH).at_s(71)
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7")).at_s(90).released(ONE, Q0)
    cause = cause_of_expectation(journal.at_s(95).ends())
    assert cause.startswith("broker-a was stopped at 40.0 s and started again at 48.0 s. broker-a")


def test_a_fault_that_was_over_long_before_a_broker_dropped_a_member_is_not_told() -> None:
    journal = expecting("unowned_s").note("broker-b", NodeStarted("broker", "", "4.9.7"))
    journal.consumer(ONE).consumer(TWO).note("broker-a", TopicCreated("orders", 2, 2, 6, ""))
    journal.passed(ONE, 2, *BOTH).claimed(ONE, Q0).claimed(TWO, Q1)
    began(journal.note("broker-b", a_member(client_of(TWO))).at_s(10), "pause", "broker-b")
    journal.at_s(12).healed().at_s(200).note("broker-b", left(TWO, "channel closed"))
    journal.passed(ONE, 0, ONE).released(ONE, Q0).at_s(250).claimed(TWO, Q0)
    cause = cause_of_expectation(journal.at_s(260).ends())
    assert cause.startswith("billing-2 was dropped by broker-b at 200.0 s. billing-1 released it")


def test_what_led_to_a_release_comes_before_other_faults_of_the_queues_broker() -> None:
    journal = an_owner_releases_as_broker_b_leaves("unowned_s", stop_s=86)
    journal = restarted(journal.at_s(90).consumer("billing-3"), "broker-a", 92, 4)
    journal.note(ONE, RouteChanged("orders", ("broker-a",)))
    journal.passed(ONE, 0, *BOTH, "billing-3").released(ONE, Q0).at_s(120).claimed(TWO, Q0)
    cause = cause_of_expectation(journal.at_s(125).ends())
    assert cause.startswith(
        "broker-b was stopped at 86.0 s and started again at 89.0 s. billing-3 joined at 90.0 s. "
        "billing-1 released it"
    )


def test_a_fault_that_nothing_ties_to_a_release_is_said_to_be_near_in_time_only() -> None:
    journal = expecting("unowned_s").consumer(ONE).consumer(TWO)
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, "")).claimed(ONE, Q0)
    journal.claimed(TWO, Q1).passed(ONE, 1, *BOTH).at_s(50).passed(ONE, 1, *BOTH)
    restarted(journal, "broker-c", 63, 3).at_s(67).passed(ONE, 0, *BOTH).released(ONE, Q0)
    cause = cause_of_expectation(journal.at_s(90).claimed(TWO, Q0).at_s(95).ends())
    assert cause.startswith(
        "broker-c was stopped at 63.0 s and started again at 66.0 s: near in time, but no fact "
        "ties it to this. billing-1 released it (not mine) at 67.0 s"
    )


def test_a_member_that_joined_is_why_a_queue_changed_its_owner() -> None:
    """A fault near in time did not lead to it."""
    journal = expecting("unowned_s").note("broker-a", TopicCreated("orders", 2, 2, 6, ""))
    journal.consumer(ONE).passed(ONE, 2, ONE).claimed(ONE, Q0, Q1)
    restarted(journal, "broker-c", 40, 5).at_s(50).consumer(TWO).passed(ONE, 1, *BOTH)
    journal.released(ONE, Q1).at_s(55).passed(TWO, 1, *BOTH).claimed(TWO, Q1)
    cause = cause_of_expectation(journal.at_s(80).ends())
    assert cause.startswith("billing-2 joined at 50.0 s. billing-1 released it (not mine)")
    assert "broker-c" not in cause


# Idle members, refused locks, start-up --------------------------------------------------------


def works(journal: AJournal, node: str, seconds: range) -> AJournal:
    for offset in seconds:
        journal.at_s(offset).sent(offset).given(node, offset).consumed(node, offset)
    return journal


def idle_without_queues() -> AJournal:
    journal = expecting("idle_members").consumer(ONE).consumer(TWO).claimed(ONE, Q0)
    journal.claimed(TWO, QB).pulled(0, 0).note(TWO, RouteChanged("orders", BOTH_BROKERS))
    journal.passed(TWO, 1, *BOTH).at_s(1).sent(0, QB).consumed(TWO, 0, QB)
    journal.at_s(2).note("broker-b", NodeStopped("broker", "asked")).at_s(3)
    journal.note(TWO, RouteChanged("orders", ("broker-a",))).passed(TWO, 0, *BOTH, queues=1)
    return works(journal.released(TWO, QB), ONE, range(4, 44)).at_s(45).ends()


def idle_with_queues(*for_a_moment: Queue) -> AJournal:
    journal = expecting("idle_members").consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(ONE, Q0).claimed(TWO, QB).at_s(1).sent(0, QB).consumed(TWO, 0, QB)
    began(journal, "pause", "broker-b")
    journal.claimed(TWO, *for_a_moment).released(TWO, *for_a_moment)
    for second in range(2, 22):
        journal = works(journal, ONE, range(second, second + 1)).stored(second, QB)
        journal.note(TWO, PullFailed("billing", QB, "no answer"))
    return journal.healed().at_s(30).consumed(TWO, 2, QB).at_s(35).ends()


def a_lock_is_refused() -> AJournal:
    journal = expecting("locks_refused").consumer(ONE, orderly=True).consumer(TWO, orderly=True)
    journal.claimed(ONE, Q0).passed(TWO, 1, *BOTH).at_s(9)
    journal.note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0, Q1), ()))
    began(journal.at_s(10), "kill", ONE).at_s(11).passed(TWO, 2, TWO)
    for second in (11, 31, 51):
        refused = (Q0, Q1) if second == 31 else (Q0,)
        lock = QueuesLocked("billing", client_of(TWO), (), refused)
        journal.at_s(second).note("broker-a", lock)
    journal.at_s(71).note("broker-a", QueuesLocked("billing", client_of(TWO), (Q0,), ()))
    return journal.claimed(TWO, Q0).at_s(80).ends()


def no_owner_at_the_start() -> AJournal:
    journal = expecting("startup_unowned_s", 5)
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, "admin")).at_s(1).consumer(ONE)
    journal.consumer(TWO).passed(ONE, 1, *BOTH).claimed(ONE, Q0).at_s(21)
    return journal.passed(TWO, 1, *BOTH).claimed(TWO, Q1).at_s(80).ends()


def two_owners_at_the_start() -> AJournal:
    journal = expecting("startup_overlap_s", 5)
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, "admin")).at_s(1).consumer(ONE)
    journal.passed(ONE, 2, ONE).claimed(ONE, Q0, Q1).at_s(2).consumer(TWO)
    journal.passed(TWO, 1, *BOTH).claimed(TWO, Q1).at_s(21).passed(ONE, 1, *BOTH)
    return journal.released(ONE, Q1).at_s(80).ends()


def a_gap_at_the_start() -> AJournal:
    journal = expecting("startup_delivery_gap_s", 5)
    journal.note("broker-a", TopicCreated("orders", 2, 2, 6, "admin")).pulled(0, 0).at_s(1)
    journal.consumer(ONE).consumer(TWO).claimed(ONE, Q0).at_s(2).sent(0).at_s(15).pulled(0, 1)
    journal.note("broker-a", a_member(client_of(ONE))).pulled(0, 1).given(ONE, 0)
    journal.consumed(ONE, 0).passed(ONE, 1, *BOTH).passed(TWO, 1, *BOTH)
    return journal.claimed(TWO, Q1).at_s(80).ends()


OTHERS = (
    (
        idle_without_queues,
        (
            "billing-2 got no message for 44.0 s, from 1.0 s to 45.0 s, in which billing "
            "consumed 40: an even share of 2 members is 20. broker-b was stopped at 2.0 s. It "
            "held no queue from 3.0 s to 45.0 s. Its rebalance at 3.0 s gave it 0 of 1 queue of "
            "orders, for 2 members: a queue has one owner in a group. It got none until the "
            "end."
        ),
    ),
    (
        idle_with_queues,
        (
            "billing-2 got no message for 29.0 s, from 1.0 s to 30.0 s, in which billing "
            "consumed 21: an even share of 2 members is 10. The fault pause broker-b held from "
            "1.0 s to 21.0 s. It held 1 queue then, orders@broker-b:0, to which 20 messages "
            "came meanwhile. 20 times its pull failed, from 2.0 s to 21.0 s: no answer. It got "
            "its next message at 30.0 s."
        ),
    ),
    (
        a_lock_is_refused,
        (
            "4 requests for the lock of a queue of billing got a refusal, from 11.0 s to 51.0 "
            "s: 3 of them by billing-2 for orders@broker-a:0. The fault kill billing-1 held "
            "from 10.0 s to the end. broker-a refused billing-2 the lock 3 times, from 11.0 s "
            "to 51.0 s; members ask every 20 s. billing-1 had it, got or renewed it at 9.0 s, "
            "and a lock lasts 60 s: until 69.0 s. billing-2 got it at 71.0 s."
        ),
    ),
    (
        no_owner_at_the_start,
        (
            "No member had claimed orders@broker-a:1 before 1.0 s. Of 2 queues of orders "
            "billing-1 took 1. billing-2 started at 1.0 s, and rebalanced first at 21.0 s. "
            "billing-2 claimed it at 21.0 s, after 20.0 s."
        ),
    ),
    (
        two_owners_at_the_start,
        (
            "billing-2 joined at 2.0 s. billing-1 rebalanced last at 1.0 s, before a broker "
            "listed billing-2 for it. So two lists of the members of billing were in use: "
            "billing-2 had billing-1 and billing-2, billing-1 had billing-1. billing-2 claimed "
            "orders@broker-a:1 at 2.0 s, which billing-1 held since 1.0 s. Both held it for "
            "19.0 s, until billing-1 released it at 21.0 s (not mine)."
        ),
    ),
    (
        a_gap_at_the_start,
        (
            "orders@broker-a:0 had messages from 2.0 s to 15.0 s, and billing consumed none of "
            "them. billing-1 claimed the queue at 1.0 s. billing-1 got 0 with a pull that was "
            "answered at 15.0 s. The next message was consumed at 15.0 s."
        ),
    ),
)


@pytest.mark.parametrize(
    ("journal", "expected"), OTHERS, ids=[case[0].__name__ for case in OTHERS]
)
def test_idle_members_locks_and_start_ups_have_a_cause(journal, expected) -> None:
    assert cause_of_expectation(journal()) == expected


def test_the_time_without_an_owner_in_a_start_up_is_the_one_of_the_metric() -> None:
    """A longer one after the start-up is not told."""
    journal = no_owner_at_the_start()
    journal.at_s(100).released(ONE, Q0).at_s(150).passed(ONE, 1, *BOTH).claimed(ONE, Q0)
    assert "after 20.0 s." in cause_of_expectation(journal.at_s(160).ends())


def test_an_idle_members_fault_is_that_of_the_broker_whose_pulls_failed() -> None:
    journal = expecting("idle_members").consumer(ONE).consumer(TWO).pulled(0, 0).claimed(ONE, Q0)
    began(journal.claimed(TWO, QB, Q1).at_s(1).stored(0, QB), "pause", "broker-b")
    for second in range(2, 22):
        works(journal, ONE, range(second, second + 1)).note(TWO, PullFailed("billing", QB, "late"))
    cause = cause_of_expectation(journal.fault("slow", "broker-a", number=2).at_s(30).ends())
    assert "The fault pause broker-b held" in cause
    assert "slow" not in cause


def test_the_longest_of_several_idle_times_is_told_and_all_idle_members() -> None:
    journal = expecting("idle_members").consumer(ONE).consumer(TWO).consumer("billing-3")
    journal.pulled(0, 0).claimed(ONE, Q0).claimed(TWO, Q1).claimed("billing-3", QB).at_s(1)
    works(journal, ONE, range(1, 31)).sent(0, QB).consumed("billing-3", 0, QB)
    cause = cause_of_expectation(works(journal, ONE, range(31, 51)).at_s(52).ends())
    assert cause.startswith("billing-2 got no message for 52.0 s")
    assert "In all 2 members were idle for 10 s or more: billing-2 and billing-3." in cause


def test_a_queue_that_an_idle_member_held_for_a_moment_is_not_why_it_was_idle() -> None:
    assert cause_of_expectation(idle_with_queues(Q1)) == cause_of_expectation(idle_with_queues())
