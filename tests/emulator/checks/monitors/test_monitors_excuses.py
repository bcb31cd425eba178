"""Excuses of monitors for a fault: they hold while it lasts, not for the rest of the run."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import NodeStarted, PullFailed, QueuesReleased
from tests.support.checks.journals_of_members import (
    ONE,
    Q_OF_B,
    TWO,
    a_cluster,
    a_fault,
    attempt,
    found,
    passed,
    registered,
    woken,
)
from tests.support.checks.small_journals import Q0, AJournal


@pytest.mark.parametrize(
    ("node", "began_s", "ended_s", "expected"),
    [
        ("broker-a", 10, 159, (0, 1)),
        ("namesrv-a", 10, 159, (0, 1)),
        ("broker-a", 10, 157, (1, 0)),  # broker-a is back, and does not register
        ("broker-b", 10, 159, (1, 0)),
        ("producer-1", 10, 159, (1, 0)),
    ],
)
def test_a_registration_may_be_late_by_a_fault_of_the_broker_or_a_name_server(
    node, began_s, ended_s, expected
) -> None:
    journal = AJournal().runs().note("namesrv-a", NodeStarted("nameserver", "", "4.9.7"))
    registered(journal.note("broker-a", NodeStarted("broker", "", "4.9.7")), "broker-a")
    registered(a_fault(journal, node, began_s, ended_s).at_s(200), "broker-a")
    assert found(journal, "registrations_come") == expected


@pytest.mark.parametrize(
    ("node", "ended_s", "after_s", "expected"),
    [
        ("namesrv-a", 110, 60, (0, 1)),
        ("producer-1", 110, 60, (0, 1)),
        ("broker-a", 110, 60, (1, 0)),
        ("namesrv-a", 110, 174, (0, 1)),
        ("namesrv-a", 110, 176, (1, 0)),  # the NameServer has scanned its brokers meanwhile
    ],
)
def test_a_dead_broker_stays_in_a_route_until_its_name_server_misses_it(
    node, ended_s, after_s, expected
) -> None:
    journal = a_fault(a_cluster(), node, 90, 99).at_s(100).fault("kill", "broker-b", number=2)
    a_fault(journal, node, 101, ended_s).at_s(100 + after_s)
    attempt(journal, 1, Q_OF_B, "RemoteFailed: no answer")
    assert found(journal, "dead_brokers_leave") == expected


@pytest.mark.parametrize(
    ("word", "after_s", "expected"),
    [("kill", 34, 0), ("kill", 36, 1), ("power_off", 164, 0), ("power_off", 166, 1)],
)
def test_a_broker_without_power_stays_in_routes_until_its_silence_is_noticed(
    word, after_s, expected
) -> None:
    journal = a_cluster().at_s(100).fault(word, "broker-b").at_s(100 + after_s)
    attempt(journal, 1, Q_OF_B, "RemoteFailed: no answer")
    assert found(journal, "dead_brokers_leave") == (expected, 0)


@pytest.mark.parametrize(
    ("node", "ended_s", "expected"),
    [("producer-1", 71, (0, 1)), ("producer-1", 69, (1, 0)), ("producer-2", 71, (1, 0))],
)
def test_a_send_may_stay_open_while_its_producer_stands_still(node, ended_s, expected) -> None:
    journal = attempt(a_cluster().at_s(10), 1, Q0, "RemoteFailed: x")
    a_fault(journal, node, 15, ended_s).at_s(80).ends()
    assert found(journal, "sends_end") == expected


@pytest.mark.parametrize(
    ("node", "began_s", "expected"),
    [("producer-1", 12, (0, 1)), ("producer-2", 12, (1, 0)), ("producer-1", 2, (1, 0))],
)
def test_a_send_takes_longer_while_its_producer_stands_still(node, began_s, expected) -> None:
    journal = a_cluster()
    if began_s < 10:
        a_fault(journal, node, began_s, began_s + 1)
    attempt(journal.at_s(10), 1, Q0, "RemoteFailed: x")
    if began_s > 10:
        a_fault(journal, node, began_s, began_s + 1)
    assert found(attempt(journal.at_s(16), 2, Q_OF_B, "SEND_OK"), "send_timeouts") == expected


@pytest.mark.parametrize(
    ("node", "ended_s", "expected"),
    [
        (ONE, 256, (0, 1)),
        ("broker-b", 256, (0, 1)),
        (ONE, 254, (1, 0)),  # the member runs again, and does not rebalance
        (TWO, 256, (1, 0)),
    ],
)
def test_a_pass_may_be_late_by_a_fault_of_the_member_or_of_servers(
    node, ended_s, expected
) -> None:
    journal = passed(a_cluster().at_s(90).consumer(ONE).at_s(100), ONE, ONE)
    passed(a_fault(journal, node, 110, ended_s).at_s(300), ONE, ONE)
    assert found(journal, "passes") == expected


@pytest.mark.parametrize(
    ("node", "began_s", "expected"), [(ONE, 75, (0, 1)), (TWO, 75, (1, 0)), (ONE, 10, (1, 0))]
)
def test_a_clock_that_jumped_once_does_not_excuse_old_subscriptions_for_ever(
    node, began_s, expected
) -> None:
    journal = a_cluster().consumer(ONE).claimed(ONE, Q0).at_s(began_s)
    journal.fault("clock_jump", node, ms=60_000).at_s(began_s + 1).healed()
    refused = PullFailed("billing", Q0, "code 25: SUBSCRIPTION_NOT_LATEST")
    journal.at_s(80).note(ONE, refused).at_s(84).note(ONE, refused)
    assert found(journal, "subscriptions_are_latest") == expected


@pytest.mark.parametrize(
    ("node", "healed_s", "refused_s", "expected"),
    [
        ("broker-b", 75, 80, (0, 1)),
        (TWO, 75, 80, (1, 0)),
        ("broker-b", 65, 80, (1, 0)),
        ("broker-b", 75, 88, (1, 0)),  # the round of heartbeats is over by then
    ],
)
def test_a_newer_subscription_waits_while_another_broker_of_the_round_does_not_answer(
    node, healed_s, refused_s, expected
) -> None:
    journal = a_cluster().consumer(ONE).at_s(45).fault("pause", node).at_s(healed_s).healed()
    journal.at_s(79).claimed(ONE, Q0)
    refused = PullFailed("billing", Q0, "code 25: SUBSCRIPTION_NOT_LATEST")
    journal.at_s(refused_s).note(ONE, refused).at_s(refused_s + 4).note(ONE, refused)
    assert found(journal, "subscriptions_are_latest") == expected


@pytest.mark.parametrize(
    ("node", "began_s", "expected"), [(ONE, 29, (0, 1)), (TWO, 29, (1, 0)), (ONE, 20, (1, 0))]
)
def test_a_member_that_stood_still_gives_up_what_a_pass_long_before_decided(
    node, began_s, expected
) -> None:
    journal = a_cluster().consumer(ONE).claimed(ONE, Q0).at_s(10)
    a_fault(passed(journal, ONE, ONE, TWO), node, began_s, began_s + 1).at_s(31)
    journal.note(ONE, QueuesReleased("billing", (Q0,), "not mine"))
    assert found(journal, "releases_follow_passes") == expected


@pytest.mark.parametrize(
    ("word", "node", "after_s", "expected"),
    [
        ("partition", "broker-a", 100, (0, 1)),
        ("partition", "broker-a", 160, (1, 0)),
        ("partition", "producer-1", 100, (1, 0)),
    ],
)
def test_a_member_that_vanished_is_listed_until_brokers_miss_it(
    word, node, after_s, expected
) -> None:
    journal = a_cluster().consumer(ONE).consumer(TWO).at_s(9).fault(word, node, number=2)
    journal.at_s(10).fault("kill", TWO)
    passed(journal.at_s(10 + after_s), ONE, ONE, TWO)
    assert found(journal, "leavers_are_forgotten") == expected


@pytest.mark.parametrize(("notifies", "expected"), [(False, (0, 1)), (True, (1, 0))])
def test_members_of_brokers_that_are_set_to_send_no_notices_wake_by_themselves(
    notifies, expected
) -> None:
    journal = woken(19, notify_consumer_ids_changed=notifies)
    assert found(journal, "notices_wake") == expected
