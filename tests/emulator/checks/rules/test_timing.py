"""Waiting times of messages and producers, and whether sends are even again after a fault."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    BrokerIsolated,
    GroupOffsetMoved,
    PowerLost,
    RebalancePassed,
    RouteChanged,
    SendAttempted,
    TopicCreated,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, objections


def metrics(journal: AJournal) -> dict[str, float]:
    judgement = journal.judged()
    assert judgement.raised == {}
    return {name: round(value, 1) for name, value in judgement.metrics.items()}


def a_member() -> AJournal:
    return AJournal().runs().store().consumer("billing-1").pulled(0, 0).claimed("billing-1", Q0)


def test_a_message_waits_from_being_stored_to_being_consumed() -> None:
    journal = a_member()
    for offset in range(100):
        journal.at_s(offset).sent(offset).at_s(offset + (0.9 if offset == 50 else 0.1))
        journal.consumed("billing-1", offset)
    found = metrics(journal)
    assert 98 <= found["deliver_ms_p50.billing"] <= 100
    assert found["longest_deliver_ms"] == 900
    assert found["delivery_gap_s"] == 0.9


def test_a_queue_that_has_messages_and_gets_none_has_a_gap_also_at_the_end() -> None:
    journal = a_member().at_s(1).sent(0).sent(1).sent(2).at_s(2).consumed("billing-1", 0)
    assert metrics(journal.at_s(9).consumed("billing-1", 1))["delivery_gap_s.billing"] == 7
    assert metrics(journal.at_s(30).ends())["delivery_gap_s.billing"] == 21


def test_a_backlog_from_before_the_end_of_a_groups_start_up_is_a_gap_of_the_start_up() -> None:
    journal = AJournal().runs().store().note("broker-a", TopicCreated("orders", 2, 2, 6, "admin"))
    journal.pulled(0, 0).sent(0).sent(1).sent(2).at_s(10).consumer("billing-1")
    journal.passed("billing-1", 2, "billing-1").claimed("billing-1", Q0, Q1)  # start-up: to 12 s
    found = metrics(journal.at_s(15).consumed("billing-1", 0))
    assert (found["startup_delivery_gap_s"], found["delivery_gap_s.billing"]) == (12, 3)
    found = metrics(journal.at_s(23).consumed("billing-1", 1))
    assert (found["startup_delivery_gap_s"], found["delivery_gap_s.billing"]) == (12, 8)


def test_a_gap_that_ends_with_a_repeat_counts_and_is_split_at_the_end_of_the_start_up() -> None:
    journal = AJournal().runs().store().note("broker-a", TopicCreated("orders", 2, 2, 6, "admin"))
    journal.pulled(0, 0).at_s(10).consumer("billing-1").sent(0).sent(1)
    journal.passed("billing-1", 2, "billing-1").claimed("billing-1", Q0, Q1)  # start-up: to 12 s
    journal.at_s(11).consumed("billing-1", 0).at_s(40).consumed("billing-1", 0)
    found = metrics(journal.consumed("billing-1", 1))
    assert (found["startup_delivery_gap_s"], found["delivery_gap_s.billing"]) == (1, 28)


def test_a_repeat_of_all_that_was_consumed_ends_no_gap() -> None:
    journal = a_member().at_s(70).sent(0).consumed("billing-1", 0)
    found = metrics(journal.at_s(90).consumed("billing-1", 0))
    assert found["delivery_gap_s"] == 0


def test_a_gap_begins_when_its_oldest_message_was_stored_also_if_a_later_one_ends_first() -> None:
    journal = a_member().at_s(70).sent(0).at_s(74).sent(1)
    found = metrics(journal.at_s(80).consumed("billing-1", 1).consumed("billing-1", 0))
    assert found["delivery_gap_s.billing"] == 10


def test_what_was_skipped_and_comes_after_all_comes_for_the_first_time() -> None:
    journal = (
        a_member()
        .at_s(1)
        .sent(0)
        .sent(1)
        .note("broker-a", GroupOffsetMoved("billing", Q0, 2, "broker", "tool"))
    )
    found = metrics(journal.at_s(5).consumed("billing-1", 1))
    assert (found["longest_deliver_ms"], found["duplicates"]) == (4_000, 0)
    found = metrics(journal.at_s(6).consumed("billing-1", 1))
    assert (found["longest_deliver_ms"], found["duplicates"]) == (4_000, 1)


def test_a_message_that_its_broker_has_lost_meanwhile_was_delivered_all_the_same() -> None:
    journal = a_member().at_s(1).sent(0).at_s(2).note("broker-a", PowerLost(0, 0, 1_000, ()))
    assert metrics(journal.at_s(3).consumed("billing-1", 0))["longest_deliver_ms"] == 2_000
    journal = a_member().at_s(1).sent(0).at_s(2).note("broker-a", PowerLost(0, 0, 1_000, ()))
    journal.at_s(8).sent(0, key="another")  # in the place of the first one
    found = metrics(journal.at_s(9).consumed("billing-1", 0, key="another"))
    assert found["longest_deliver_ms"] == 1_000


def test_an_empty_queue_has_no_gap() -> None:
    journal = a_member().sent(0).consumed("billing-1", 0).at_s(500).sent(1)
    assert metrics(journal.consumed("billing-1", 1).at_s(900).ends())["delivery_gap_s"] == 0


def test_a_consumer_s_failover_ends_with_the_next_message_of_its_queue() -> None:
    journal = a_member().consumer("billing-2").sent(0).consumed("billing-1", 0).at_s(10)
    journal.fault("pause", "billing-1").sent(1).at_s(42).claimed("billing-2", Q0)
    assert metrics(journal.consumed("billing-2", 1))["consumer_failover_s.billing"] == 32


def test_a_failover_without_an_end_counts_apart_up_to_the_end_if_messages_wait() -> None:
    def journal() -> AJournal:
        return a_member().consumer("billing-2").sent(0).consumed("billing-1", 0).at_s(10)

    def failovers(found: dict[str, float]) -> tuple[float, float]:
        return found["consumer_failover_s.billing"], found["open_failover_s.billing"]

    killed = journal().fault("kill", "billing-1")
    assert failovers(metrics(killed.at_s(15).sent(1).at_s(60).ends())) == (0, 45)
    killed = journal().fault("kill", "billing-1")
    assert failovers(metrics(killed.at_s(60).ends())) == (0, 0), "no message waits"
    killed = journal().sent(1).fault("kill", "billing-1").at_s(30).claimed("billing-2", Q0)
    assert failovers(metrics(killed.at_s(42).consumed("billing-2", 1).at_s(60).ends())) == (32, 0)


def test_a_consumer_s_failover_counts_for_a_queue_that_was_never_consumed_before() -> None:
    journal = a_member().consumer("billing-2").at_s(10).fault("pause", "billing-1")
    journal.sent(0).at_s(42).claimed("billing-2", Q0)
    assert metrics(journal.consumed("billing-2", 0))["consumer_failover_s.billing"] == 32


def test_a_failover_counts_from_the_oldest_message_that_waits_for_the_next_owner() -> None:
    journal = a_member().consumer("billing-2").sent(0).at_s(10).fault("kill", "billing-1")
    journal.at_s(30).sent(1).at_s(42).claimed("billing-2", Q0).consumed("billing-2", 1)
    assert metrics(journal)["consumer_failover_s.billing"] == 32


def test_a_message_that_failed_before_the_fault_waits_for_its_retry_and_not_for_an_owner() -> None:
    journal = a_member().consumer("billing-2").sent(0).sent(1).consumed("billing-1", 0, ok=False)
    journal.at_s(10).fault("kill", "billing-1").sent(2)
    journal.at_s(30).claimed("billing-2", Q0).consumed("billing-2", 2)
    assert metrics(journal)["consumer_failover_s.billing"] == 20, "from the fault: 1 waits"


def test_a_message_at_an_offset_that_the_group_was_beyond_waits_for_no_owner() -> None:
    journal = a_member().consumer("billing-2").sent(0).sent(1).given("billing-1", 1)
    journal.consumed("billing-1", 0).note("broker-a", PowerLost(0, 0, 2_000, ())).store()
    journal.at_s(10).fault("kill", "billing-1").sent(0, key="new-0").sent(1, key="new-1")
    journal.at_s(30).sent(2).at_s(42).claimed("billing-2", Q0, offsets=(2,))
    found = metrics(journal.consumed("billing-2", 2).committed(3))
    assert (found["consumer_failover_s.billing"], found["hidden.billing"]) == (12, 2)


def test_a_process_that_is_stopped_finishes_its_messages_and_that_is_no_failover() -> None:
    journal = a_member().consumer("billing-2").sent(0).at_s(10).fault("stop", "billing-1")
    journal.sent(1).at_s(10.5).consumed("billing-1", 0).at_s(42).claimed("billing-2", Q0)
    journal.consumed("billing-2", 1)
    assert metrics(journal)["consumer_failover_s.billing"] == 32


def attempt(
    journal: AJournal, queue=Q0, outcome: str = "SEND_OK", node: str = "producer"
) -> AJournal:
    return journal.note(node, SendAttempted("orders", queue, "k", 1, 1, outcome))


def test_a_producer_s_failover_ends_with_its_last_failure_at_that_broker() -> None:
    journal = attempt(AJournal().runs()).at_s(10).fault("kill", "broker-a")
    attempt(journal.at_s(11), outcome="NoAnswer")
    attempt(journal.at_s(38), outcome="CannotConnect")
    attempt(journal.at_s(39))
    journal.at_s(50).healed()
    found = metrics(attempt(journal.at_s(90), outcome="SYSTEM_BUSY"))
    assert found["producer_failover_s"] == found["producer_failover_s.broker-a"] == 28
    assert found["failed_attempts.orders"] == 3


def sends(isolated: bool, share_of_first: float) -> AJournal:
    journal = attempt(attempt(AJournal().runs(), Q0), Q1)
    if isolated:
        journal.note("producer", BrokerIsolated("broker-a", 30_000))
    journal.at_s(40)
    for number in range(1_000):
        attempt(journal, Q0 if number % 100 < share_of_first * 100 else Q1)
    return journal


def test_sends_that_stay_uneven_after_an_isolation_are_a_violation() -> None:
    judgement = sends(isolated=True, share_of_first=0.9).judged()
    assert objections(judgement, "fairness") == [
        (
            "producer sent 900 of 1000 messages to orders@broker-a:0, one of 2 queues, although "
            "it avoids no broker any more"
        )
    ]
    assert judgement.metrics["send_unfairness.orders"] == 0.8


def test_even_sends_are_none_nor_are_uneven_ones_without_an_isolation() -> None:
    assert objections(sends(isolated=True, share_of_first=0.5).judged(), "fairness") == []
    assert objections(sends(isolated=False, share_of_first=0.9).judged(), "fairness") == []


def uneven_then_even(uneven_s: float, route_of: str = "") -> list[str]:
    """A fault ends at 70 s; at *uneven_s* 600 sends go to one queue, from 120 s on to both."""
    journal = attempt(attempt(AJournal().runs().store(), Q0), Q1)
    journal.note("producer", BrokerIsolated("broker-a", 10_000))
    attempt(journal.at_s(30).fault("pause", "broker-b").at_s(40)).at_s(70).healed().at_s(uneven_s)
    for _ in range(600):
        attempt(journal)
    if route_of:
        journal.note(route_of, RouteChanged("orders", ("broker-a",)))
    journal.at_s(120)
    for number in range(300):
        attempt(journal, Q0 if number % 2 else Q1)
    return objections(journal.judged(), "fairness")


def test_shares_count_from_31_s_after_a_fault_and_anew_with_another_route() -> None:
    assert uneven_then_even(80) == []
    assert len(uneven_then_even(102)) == 1
    assert uneven_then_even(102, route_of="producer") == []
    assert len(uneven_then_even(102, route_of="billing-1")) == 1


def test_a_queue_that_gets_the_share_of_avoided_ones_is_a_number_and_no_violation() -> None:
    journal = attempt(attempt(AJournal().runs(), Q0), Q1)
    journal.note("producer", BrokerIsolated("broker-b", 600_000))
    for number in range(200):
        attempt(journal, Q1 if number % 4 == 3 else Q0)
    judgement = journal.judged()
    assert judgement.metrics["send_crowding.orders"] == 1.5
    assert objections(judgement, "fairness") == []
    assert sends(isolated=True, share_of_first=0.9).judged().metrics["send_crowding"] == 0


def test_keys_choose_queues_as_they_like() -> None:
    journal = sends(isolated=True, share_of_first=0.9)
    plan = '{"load":[{"topic":"orders","keys":7}]}'
    assert objections(AJournal().runs(plan).judged(), "fairness") == []
    keyed = AJournal().runs(plan)
    for entry in journal.entries[1:]:
        keyed.at_s(entry.mono_us / 1e6).note(entry.node, entry.fact)
    assert objections(keyed.judged(), "fairness") == []


@pytest.mark.parametrize(("answers_s", "after_s"), [(25, 5), (20.5, 40)])
def test_how_long_a_broker_is_avoided_that_is_well_again(answers_s, after_s) -> None:
    journal = attempt(AJournal().runs().fault("slow_link", "broker-a", "producer"))
    journal.note("producer", BrokerIsolated("broker-a", 60_000)).at_s(20).healed().at_s(answers_s)
    journal.note("producer", SendAttempted("orders", Q0, "k", 1, 1_000, "SEND_OK"))
    found = metrics(journal.at_s(60).ends())
    begun_before = answers_s < 21  # then that send does not count
    assert found["avoided_after_s"] == (after_s if begun_before else after_s - 1)
    assert metrics(attempt(AJournal().runs()))["avoided_after_s"] == 0


def test_the_longest_a_member_took_no_pass_is_told_while_it_runs() -> None:
    def passed(journal: AJournal, node: str, topic: str = "orders") -> None:
        fact = RebalancePassed("billing", topic, 4, (), 2, "timer")
        journal.note(node, fact)

    journal = AJournal().runs().consumer("billing-1").consumer("billing-2")
    for at_s in (1, 21, 41):
        passed(journal.at_s(at_s), "billing-1")
        passed(journal, "billing-1", "others")
        passed(journal, "billing-2")
    passed(journal.at_s(93), "billing-1", "others")
    journal.at_s(100).fault("kill", "billing-1").at_s(110).ends()
    found = journal.judged().metrics
    assert round(found["rebalance_gap_s"]) == 69, "the gap of billing-2 until the end"
    passed(journal.at_s(111), "billing-2")
    journal.stopped("billing-2").at_s(500).ends()
    assert round(journal.judged().metrics["rebalance_gap_s.billing"]) == 70
