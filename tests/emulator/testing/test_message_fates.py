"""Fates of messages from facts made by hand: clients of other languages, and lost members."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    ConsumerStarted,
    Fact,
    ListenerRaised,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageGivenToListener,
    MessageStored,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    PullFailed,
    Queue,
    QueuesClaimed,
    SubscriptionChanged,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.testing.message_fates import Fate, MessageFates, matches

ORDERS = Queue("orders", "broker-a", 0)
PEER = "127.0.0.1:5000"
JAVA = MemberJoined("billing", "java-1", PEER, "CONSUME_PASSIVELY", "CLUSTERING", "JAVA", 399)
READS = SubscriptionChanged("billing", ("orders", "%RETRY%billing"), ())
STORED = MessageStored(ORDERS, 0, 0, "K1", 100)


def a_pull(next_offset: int) -> PullAnswered:
    return PullAnswered("billing", ORDERS, 0, 0, 1, next_offset, PEER, 1)


def a_member(
    expression: str = "*", *, broadcast: bool = False, orderly: bool = False, client: str = "1"
) -> ConsumerStarted:
    one, topics = f"127.0.0.1@{client}", ("orders",)
    return ConsumerStarted(
        "billing", one, "push", broadcast, orderly, topics, (expression,), "4.9.7"
    )


def consumed(attempt: int = 1, *, ok: bool = True) -> MessageConsumed:
    return MessageConsumed("billing", "orders", ORDERS, 0, "K1", attempt - 1, ok=ok)


def two_broadcasters(*, orderly: bool = False) -> list[tuple[str, Fact]]:
    """The facts of the members one and two, and of a message."""
    owns = QueuesClaimed("billing", (ORDERS,), (0,))
    started = [
        (name, a_member(broadcast=True, orderly=orderly, client=name)) for name in ("one", "two")
    ]
    return [*started, ("one", owns), ("two", owns), ("broker-a", STORED)]


def fate(*noted: tuple[str, Fact], until_us: int = 10_000_000) -> Fate:
    """The fate of the first message in billing; the facts are 0.1 s apart."""
    entries = [
        Entry(number, 0, number * 100_000, node, fact)
        for number, (node, fact) in enumerate(noted, 1)
    ]
    fates = MessageFates(entries, until_us, {"billing": ()})
    return fates.fate_of(fates.messages[0], "billing")


def test_a_client_without_facts_has_consumed_what_it_has_committed() -> None:
    noted = [("broker-a", JAVA), ("broker-a", READS), ("broker-a", STORED)]
    given = [*noted, ("broker-a", a_pull(1))]
    assert fate(*given) == Fate("running", "given to java-1, not committed")
    committed = OffsetCommitted("billing", ORDERS, 1, PEER)
    assert fate(*given, ("broker-a", committed)) == Fate("consumed")


def test_a_message_waits_for_a_broker_an_owner_or_a_member() -> None:
    stored = ("broker-a", STORED)
    assert fate(stored).why == "billing has no member"
    assert fate(stored, ("world", NodeKilled("broker-a"))).why == "broker-a was killed"
    back = ("broker-a", NodeStarted("broker", PEER, "4.9.7"))
    assert fate(stored, ("world", NodeKilled("broker-a")), back).why == "billing has no member"
    paused = ("world", NodePaused("broker-a"))
    assert fate(stored, paused).why == "broker-a is paused"
    goes_on = ("world", NodeResumed("broker-a"))
    assert fate(stored, paused, goes_on).why == "billing has no member"
    joined = [stored, ("billing-1", a_member())]
    assert fate(*joined).why == "broker-a/0 has no owner in billing"
    owned = [*joined, ("billing-1", QueuesClaimed("billing", (ORDERS,), (0,)))]
    assert fate(*owned).why == "billing-1 has not pulled it yet"
    killed = ("world", NodeKilled("billing-1"))
    assert fate(*owned, killed).why == "its owner billing-1 was killed"
    refused = ("billing-1", PullFailed("billing", ORDERS, "code 25: not latest"))
    assert fate(*owned, refused).why == "billing-1 has not pulled it yet: code 25: not latest"


def test_a_message_that_was_not_flushed_is_lost_with_the_power_of_its_broker() -> None:
    flushed = ("broker-a", MessageStored(ORDERS, 0, 100, "K0", 100))
    stored = ("broker-a", MessageStored(ORDERS, 0, 200, "K1", 100))
    power_lost = ("broker-a", PowerLost(200, 200, 300, ()))
    assert fate(stored, power_lost) == Fate("lost", "broker-a lost power before it was flushed")
    assert fate(flushed, power_lost) == Fate("waits", "broker-a has lost power")


def test_members_that_are_gone_are_named_with_the_reason() -> None:
    lost = MemberLeft("billing", "java-1", PEER, "channel closed")
    noted = [("broker-a", JAVA), ("broker-a", READS), ("broker-a", lost)]
    assert fate(*noted, ("broker-a", STORED)).why == "java-1 is gone (channel closed)"


def test_a_group_that_began_later_has_skipped_the_message() -> None:
    began = ("billing-1", QueuesClaimed("billing", (ORDERS,), (1,)))
    found = fate(("broker-a", STORED), ("billing-1", a_member()), began)
    assert found.state == "skipped"
    assert found.why.startswith("billing-1 began after it")


def test_a_failed_message_waits_for_its_retry() -> None:
    given = MessageGivenToListener("billing", ORDERS, 0, "K1", 0)
    raised = ListenerRaised("billing", ORDERS, 0, "K1", "ValueError: no price", "", 1)
    failed = MessageConsumed("billing", "orders", ORDERS, 0, "K1", 0, ok=False)
    retry = MessageStored(Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2), 0, 0, "K1", 100)
    noted = [("broker-a", STORED), ("billing-1", a_member()), ("billing-1", given)]
    running = fate(*noted, until_us=400_000)
    assert running == Fate("running", "the listener of billing-1 has it for 0.1 s")
    noted += [("billing-1", raised), ("billing-1", failed), ("broker-a", retry)]
    waiting = fate(*noted, until_us=600_000)
    assert waiting == Fate("retried", "1 attempt failed: ValueError: no price, again in 10 s")


def test_members_of_a_broadcasting_group_consume_a_message_once_each() -> None:
    both = [*two_broadcasters(), ("one", consumed())]
    assert fate(*both) == Fate("waits", "two has not pulled it yet")
    assert fate(*both, ("two", consumed())) == Fate("consumed")


def test_a_broadcasting_member_that_fails_is_named_and_gets_no_retry() -> None:
    raised = ListenerRaised("billing", ORDERS, 0, "K1", "ValueError: no price", "", 1)
    failed = [("one", consumed()), ("two", raised), ("two", consumed(ok=False))]
    why = "two: ValueError: no price; broadcasting has no retries"
    assert fate(*two_broadcasters(), *failed) == Fate("dropped", why)
    orderly = fate(*two_broadcasters(orderly=True), *failed)
    assert orderly.state == "retried"
    assert orderly.why.startswith("two: 1 attempt failed")


def test_a_broadcasting_member_that_began_later_does_not_wait_for_older_messages() -> None:
    later = ("two", QueuesClaimed("billing", (ORDERS,), (1,)))
    noted = [fact for fact in two_broadcasters() if fact[0] != "two"]
    joined = ("two", a_member(broadcast=True, client="two"))
    assert fate(*noted, joined, later, ("one", consumed())) == Fate("consumed")


def test_a_broker_s_unconsumed_messages_are_those_with_which_the_group_has_more_to_do() -> None:
    other = MessageStored(Queue("orders", "broker-b", 0), 0, 0, "K2", 100)
    unread = MessageStored(Queue("prices", "broker-a", 0), 0, 0, "K3", 100)
    stored: list[tuple[str, Fact]] = [("billing-1", a_member("paid || sent"))]
    stored += [(f"broker-{name}", fact) for name, fact in (("b", other), ("a", unread))]
    stored += [("broker-a", MessageStored(ORDERS, n, 0, f"K{n}", 100, "paid")) for n in (5, 1)]
    stored += [("broker-a", MessageStored(ORDERS, 6, 0, "K6", 100, "draft"))]
    stored += [("billing-1", consumed())]
    entries = [Entry(n, 0, n, node, fact) for n, (node, fact) in enumerate(stored, 1)]
    found = MessageFates(entries, 100).unconsumed_at("broker-a", "billing")
    assert [message.uniq_key for message in found] == ["K5"]


@pytest.mark.parametrize(
    ("expression", "tags", "is_read"),
    [
        ("*", "", True),
        ("paid", "paid", True),
        ("paid", "Paid", False),
        ("paid || sent", "sent", True),
        ("paid||sent", "", False),
        ("price > 5", "any", True),  # SQL: its fields are not known
    ],
)
def test_tags_are_compared_as_a_broker_compares_them(
    expression: str, tags: str, is_read: bool
) -> None:
    assert matches(expression, tags) is is_read
