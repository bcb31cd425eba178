"""Queues that get no messages, and queues that no member reads: counted from small journals."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    BrokerRegistered,
    BrokerUnregistered,
    Queue,
    SettingsChanged,
    TopicChanged,
    TopicCreated,
    WritePermChanged,
)
from tests.support.checks.small_journals import AJournal

A0, B0, B1 = (Queue("orders", "broker-a", 0), *(Queue("orders", "broker-b", n) for n in (0, 1)))
AT_THE_BROKER = "broker-b", SettingsChanged("10.0.0.9:1", ("brokerPermission=4",))
BROKER_FREE = "broker-b", SettingsChanged("10.0.0.9:1", ("brokerPermission=6",))
AT_THE_TOPIC = "broker-b", TopicChanged("orders", 2, 2, 4)
AT_THE_NAME_SERVER = "namesrv", WritePermChanged("broker-b", 1, writable=False)


def a_group(*, second: tuple[Queue, ...] = (B0, B1)) -> AJournal:
    """Two members; broker-a has one queue of the topic, broker-b two."""
    journal = AJournal().runs().note("broker-a", TopicCreated("orders", 1, 1, 6, "admin"))
    journal.note("broker-b", TopicCreated("orders", 2, 2, 6, "admin"))
    journal.consumer("billing-1").consumer("billing-2")
    journal.claimed("billing-1", A0)
    if second:
        journal.claimed("billing-2", *second)
    for node, count in (("billing-1", 1), ("billing-2", len(second))):
        journal.passed(node, count, "billing-1", "billing-2", queues=3)
    return journal


def measured(journal: AJournal, *names: str) -> tuple[float, ...]:
    judgement = journal.judged()
    assert judgement.raised == {}
    return tuple(round(judgement.metrics[name], 3) for name in names)


@pytest.mark.parametrize("how", [AT_THE_BROKER, AT_THE_TOPIC, AT_THE_NAME_SERVER])
def test_a_member_with_queues_of_a_read_only_broker_alone_has_no_load(how) -> None:
    journal = a_group().at_s(10).note(*how).at_s(40).ends()
    names = ("no_load_members.billing", "declared_idle_queues.billing", "no_load_ratio.orders")
    assert measured(journal, *names) == (1, 2, 0.667)
    assert measured(journal, "no_load_s") == (30,)


def test_a_queue_that_is_not_read_to_its_end_is_not_declared_idle() -> None:
    journal = a_group().pulled(0, 0, B0).sent(0, B0).at_s(10).note(*AT_THE_BROKER)
    journal.at_s(25).given("billing-2", 0, B0).consumed("billing-2", 0, B0)
    journal.at_s(40).note(*BROKER_FREE).at_s(60).ends()
    assert measured(journal, "no_load_s", "no_load_members") == (15, 1)


def test_members_with_a_queue_of_another_broker_have_load() -> None:
    journal = a_group(second=(B0,)).claimed("billing-1", B1).at_s(10).note(*AT_THE_BROKER)
    assert measured(journal.at_s(20).ends(), "no_load_members", "no_load_s") == (1, 10)
    journal = a_group(second=()).consumer("billing-2").claimed("billing-2", B0, A0)
    assert measured(journal.note(*AT_THE_BROKER).at_s(20).ends(), "no_load_members") == (0,)


def test_idleness_moves_to_who_gets_the_queues() -> None:
    journal = a_group().at_s(10).note(*AT_THE_BROKER).at_s(20).stopped("billing-2")
    journal.claimed("billing-1", B0, B1).released("billing-1", A0)
    assert measured(journal.at_s(50).ends(), "no_load_members", "no_load_s") == (1, 40)


def test_a_broker_that_starts_again_may_be_written_to() -> None:
    journal = a_group().at_s(10).note(*AT_THE_BROKER).at_s(20).store("broker-b")
    assert measured(journal.at_s(50).ends(), "no_load_s") == (10,)


def test_a_queue_that_nobody_ever_had_starves() -> None:
    journal = a_group(second=(B0,)).at_s(90).ends()
    names = ("starved_queues.billing", "unowned_s", "startup_unowned_s")
    assert measured(journal, *names) == (1, 88, 2)
    assert measured(a_group().at_s(90).ends(), "starved_queues", "unowned_s") == (0, 0)


def test_a_queue_starves_only_while_there_are_members_and_its_broker_is_there() -> None:
    gone = a_group(second=(B0,)).at_s(50).stopped("billing-1").stopped("billing-2")
    assert measured(gone.at_s(200).ends(), "starved_queues") == (0,)
    lost = BrokerUnregistered("broker-b", 0, "10.0.0.2:10911", "channel closed")
    back = BrokerRegistered("c", "broker-b", 0, "10.0.0.2:10911", 1, first=True)
    journal = a_group(second=(B0,)).at_s(50).note("namesrv", lost).at_s(100)
    assert measured(journal.note("namesrv", back).at_s(150).ends(), "starved_queues") == (0,)


def test_what_a_killed_member_had_starves_until_it_is_claimed() -> None:
    journal = a_group().at_s(10).fault("kill", "billing-2")
    assert measured(journal.at_s(75).claimed("billing-1", B0).ends(), "starved_queues") == (2,)
    journal = a_group().at_s(10).fault("kill", "billing-2").at_s(60).claimed("billing-1", B0, B1)
    assert measured(journal.at_s(200).ends(), "starved_queues") == (0,)
