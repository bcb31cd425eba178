"""What a NameServer that knows one topic of a broker leaves undone is counted apart."""

from __future__ import annotations

import pytest
from small_journals import Q0, AJournal, a_consumed_journal, objections

from emulator.facts import BrokerExpired, BrokerRegistered, TopicCreated


def registered(topic_count: int, *, first: bool = True, at: str = "broker-a") -> BrokerRegistered:
    return BrokerRegistered("c", "broker-a", 0, at, topic_count, first)


def left_over(*facts: BrokerRegistered | BrokerExpired) -> AJournal:
    """Two messages of a queue that a member has read until then, 200 s before the end."""
    journal = a_consumed_journal()
    for topic in ("orders", "invoices"):
        journal.note("broker-a", TopicCreated(topic, 2, 2, 6, "admin"))
    for fact in facts:
        journal.note("namesrv-b", fact)
    journal.sent(10).sent(11).at_s(200).committed(10)
    return journal


@pytest.mark.parametrize(
    ("facts", "unrouted"),
    [
        ((registered(1),), 2),
        ((registered(1), registered(2, first=False)), 2),
        ((registered(2),), 0),
        ((registered(1, first=False),), 0),
        ((registered(1), BrokerExpired("broker-a", 0, "broker-a"), registered(2)), 0),
    ],
    ids=["one topic at first", "all, too late", "all", "not the first", "away, and all"],
)
def test_messages_left_at_a_broker_that_is_known_by_one_topic_are_unrouted(
    facts, unrouted
) -> None:
    judged = left_over(*facts).judged()
    assert (judged.metrics["unrouted"], judged.metrics["backlog"]) == (unrouted, 2 - unrouted)
    assert judged.metrics["stuck"] == 2 - unrouted
    assert len(objections(judged, "liveness")) == (0 if unrouted else 1)


@pytest.mark.parametrize(("topic_count", "overlap_is_named"), [(1, False), (2, True)])
def test_members_that_see_different_routes_may_both_hold_a_queue(
    topic_count, overlap_is_named
) -> None:
    journal = AJournal().runs().store().consumer("billing-1").consumer("billing-2")
    for topic in ("orders", "invoices"):
        journal.note("broker-a", TopicCreated(topic, 2, 2, 6, "admin"))
    journal.note("namesrv-b", registered(topic_count))
    journal.claimed("billing-1", Q0).claimed("billing-2", Q0).at_s(300).released("billing-1", Q0)
    assert bool(objections(journal.judged(), "ownership")) is overlap_is_named


@pytest.mark.parametrize(("topic_count", "unowned_s"), [(1, 0), (2, 100)])
def test_queues_without_an_owner_are_wanted_where_routes_are_whole(topic_count, unowned_s) -> None:
    journal = AJournal().runs().store().consumer("billing-1")
    for topic in ("orders", "invoices"):
        journal.note("broker-a", TopicCreated(topic, 1, 1, 6, "admin"))
    journal.claimed("billing-1", Q0).note("namesrv-b", registered(topic_count))
    journal.released("billing-1", Q0).at_s(100).stored(0)
    assert round(journal.judged().metrics["unowned_s.billing"]) == unowned_s
