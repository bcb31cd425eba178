"""Effects of a NameServer that knows only one topic of a broker are counted apart."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    Queue,
    QueuesClaimed,
    RebalancePassed,
    RunEnded,
    TopicCreated,
)
from tests.support.checks.small_journals import (
    Q0,
    AJournal,
    a_consumed_journal,
    client_of,
    objections,
)


def registered(topic_count: int, *, first: bool = True, at: str = "broker-a") -> BrokerRegistered:
    return BrokerRegistered("c", "broker-a", 0, at, topic_count, first)


def left_over(*facts: BrokerRegistered | BrokerExpired) -> AJournal:
    """Two messages that a member has not read 200 s later; it read all before them."""
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
        ((registered(1), BrokerExpired("broker-a", "broker-a", 120_000), registered(2)), 0),
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


def known(count: int, *, topic_count: int = 3, at: str = "broker-a") -> BrokerRegistered:
    """A NameServer knows *count* topics after registering *topic_count* (1: only the last one)."""
    return BrokerRegistered("c", at, 0, at, topic_count, first=False, known_count=count)


def a_partial_route(created: str = "returns", known_count: int = 1) -> AJournal:
    """Brokers a and b have orders and invoices; a creates *created* and registers it alone."""
    journal = AJournal().runs().store().store("broker-b")
    for broker in ("broker-a", "broker-b"):
        for topic in ("orders", "invoices"):
            journal.note(broker, TopicCreated(topic, 2, 2, 6, "admin"))
    journal.note("broker-b", TopicCreated("apart", 2, 2, 6, "admin"))
    journal.note("broker-a", TopicCreated(created, 2, 2, 6, "admin"))
    return journal.note("namesrv-b", known(known_count, topic_count=1))


def left_at(queue: Queue, *, repaired_s: float = 0, created: str = "returns") -> AJournal:
    """A message of *queue* is not consumed at 300 s, when the run stops waiting for it."""
    journal = a_partial_route(created).consumer("billing-1", topics=(queue.topic,))
    journal.pulled(0, 0, queue).sent(0, queue)
    if repaired_s:
        journal.at_s(repaired_s).note("namesrv-b", known(3))
    return journal.at_s(300).note("world", RunEnded("finished", "1 message to consume"))


@pytest.mark.parametrize(
    ("journal", "is_excused"),
    [
        (left_at(Q0), True),
        (left_at(Q0, created="orders"), False),
        (left_at(Queue("orders", "broker-b", 0)), False),
        (left_at(Q0, repaired_s=10), False),
    ],
    ids=["lacking", "the topic it was told of", "another broker", "repaired by a new version"],
)
def test_what_is_left_is_excused_where_its_own_queue_is_in_no_route(journal, is_excused) -> None:
    judged = journal.judged()
    assert len(objections(judged, "liveness")) == 1 - is_excused
    names = ("stuck", "excused_stuck", "unrouted", "backlog")
    found = [judged.metrics[name] for name in names]
    assert found == ([0, 1, 1, 0] if is_excused else [1, 0, 0, 1])


@pytest.mark.parametrize(
    ("topic", "repaired_s", "is_excused"),
    [("orders", 0, True), ("apart", 0, False), ("returns", 0, False), ("orders", 10, False)],
)
def test_unrest_is_excused_for_groups_whose_topic_is_lacking(
    topic, repaired_s, is_excused
) -> None:
    judged = left_at(Queue(topic, "broker-b", 0), repaired_s=repaired_s).judged()
    unrest = judged.metrics["unrest"], judged.metrics["excused_unrest"]
    assert unrest == ((0, 1) if is_excused else (1, 0))


def two_owners_of(queue: Queue, repaired_s: float, released_s: float = 200) -> AJournal:
    journal = a_partial_route()
    for node in ("billing-1", "billing-2"):
        journal.consumer(node, topics=(queue.topic,))
        journal.note(node, QueuesClaimed("billing", (queue,), (0,)))
    journal.at_s(repaired_s).note("namesrv-b", known(3))
    return journal.at_s(released_s).released("billing-2", queue).at_s(400).ends()


def test_two_owners_are_excused_until_60_s_after_the_repair_by_a_new_version() -> None:
    inside = two_owners_of(Q0, 141).judged()
    assert objections(inside, "ownership") == []
    assert inside.metrics["excused_overlap_s"] == pytest.approx(200, abs=0.1)
    assert len(objections(two_owners_of(Q0, 139).judged(), "ownership")) == 1
    assert (
        objections(two_owners_of(Queue("orders", "broker-b", 0), 141).judged(), "ownership") == []
    )


@pytest.mark.parametrize("topic", ["apart", "returns"])
def test_two_owners_of_a_topic_that_all_routes_have_are_not(topic) -> None:
    journal = two_owners_of(Queue(topic, "broker-b", 0), 141)
    assert len(objections(journal.judged(), "ownership")) == 1


def test_queues_need_an_owner_from_the_repair_by_a_new_version_on() -> None:
    journal = a_partial_route().consumer("billing-1").claimed("billing-1", *both_queues())
    journal.released("billing-1", Q0).at_s(100).note("namesrv-b", known(3))
    journal.at_s(150).claimed("billing-1", Q0).at_s(200).ends()
    assert round(journal.judged().metrics["unowned_s.billing"]) == 50


def both_queues() -> tuple[Queue, ...]:
    return tuple(
        Queue("orders", broker, number) for broker in ("broker-a", "broker-b") for number in (0, 1)
    )


# Members that count different queues -------------------------------------------------------------

OF_B = Queue("orders", "broker-b", 0)
MEMBERS = ("billing-1", "billing-2")


def nobody_takes(
    *,
    counts: tuple[int, int] = (4, 2),
    topic: str = "orders",
    repaired_s: float = 0,
    agreed_s: float = 0,
    held: bool = False,
) -> AJournal:
    """OF_B, with a message, is released at 10 s; members count *counts* queues of *topic*."""
    journal = a_partial_route()
    clients = tuple(map(client_of, MEMBERS))

    def passes(*queues: int) -> None:
        for node, count in zip(MEMBERS, queues, strict=True):
            journal.note(node, RebalancePassed("billing", topic, count, clients, 1, "timer"))

    for node in MEMBERS:
        journal.consumer(node)
    both = Queue("orders", "broker-b", 1), Queue("orders", "broker-a", 0)
    journal.claimed("billing-1", OF_B, *both, Queue("orders", "broker-a", 1), offsets=(0,) * 4)
    journal.passed("billing-1", 4, *MEMBERS, queues=4).passed("billing-2", 0, *MEMBERS, queues=4)
    journal.pulled(0, 0, OF_B).at_s(10).sent(0, OF_B)
    passes(*counts)
    if not held:
        journal.released("billing-1", OF_B)
    if repaired_s:
        journal.at_s(repaired_s).note("namesrv-b", known(3))
    if agreed_s:
        journal.at_s(agreed_s)
        passes(4, 4)
    return journal.at_s(300).ends()


def left_and_unowned(journal: AJournal) -> tuple[list[float], list[int]]:
    metrics = journal.judged().metrics
    left = [metrics[name] for name in ("stuck", "excused_stuck", "unrouted", "backlog")]
    return left, [round(metrics[name]) for name in ("unowned_s", "excused_unowned_s")]


EXCUSED, OBJECTED_TO = [0, 1, 1, 0], [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("journal", "left", "unowned"),
    [
        (nobody_takes(), EXCUSED, [0, 290]),
        (nobody_takes(counts=(4, 4)), OBJECTED_TO, [290, 0]),
        (nobody_takes(topic="invoices"), OBJECTED_TO, [290, 0]),
        (nobody_takes(held=True), OBJECTED_TO, [0, 0]),
        (nobody_takes(repaired_s=100), OBJECTED_TO, [200, 90]),
        (nobody_takes(agreed_s=100), OBJECTED_TO, [200, 90]),
    ],
    ids=["they differ", "they agree", "of another topic", "held", "repaired", "they agree again"],
)
def test_a_queue_that_nobody_takes_is_left_while_members_count_different_ones(
    journal, left, unowned
) -> None:
    assert left_and_unowned(journal) == (left, unowned)
