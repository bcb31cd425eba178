"""Waits for a group: what their errors name, and until when its queues count as shared."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import trio

from rocketmq_emulator import (
    AdminRefused,
    ClusterUnreachable,
    NobodyAnswered,
    Strategy,
    UnknownNode,
)
from rocketmq_emulator.facts import Fact, MessageStored, NodeKilled, OffsetCommitted, Queue
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.sync import Message, Producer, PushConsumer
from rocketmq_emulator.testing.cluster_queries import GroupProgress, GroupShares
from rocketmq_emulator.testing.group_waits import HeldMessages, WantedMessages, held_elsewhere
from rocketmq_emulator.testing.rocketmq import NotBalanced, NotConsumed, RocketMQ

FROM_FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
QUEUES = tuple(MessageQueue("orders", "broker-a", number) for number in range(4))
STEPS = MessageQueue("steps", "broker-a", 0)


@pytest.fixture(scope="module")
def shared() -> Iterator[RocketMQ]:
    with RocketMQ(brokers=2, topics=["orders"], release="5.3.3") as running:
        yield running


@pytest.fixture
def cluster(shared: RocketMQ) -> RocketMQ:
    shared.reset()
    return shared


def consumer(cluster: RocketMQ, topic: str = "orders", **more: Any) -> PushConsumer:
    settings = {**cluster.client_settings(), **FROM_FIRST, **more}
    return PushConsumer(lambda _messages: None, {topic: "*"}, group="billing", **settings)


# Errors -------------------------------------------------------------------------------


def test_waits_beside_a_paused_broker_end_in_time_and_name_it(cluster: RocketMQ) -> None:
    with consumer(cluster):
        cluster.pause("broker-b")
        try:
            began_s = time.monotonic()
            with pytest.raises(NotConsumed) as consumed:
                cluster.wait_until_consumed("billing", timeout=0.5, topics=["orders"])
            with pytest.raises(NotBalanced) as balanced:
                cluster.wait_until_balanced("billing", timeout=0.5)
            took_s = time.monotonic() - began_s
        finally:
            cluster.resume("broker-b")
    assert took_s < 9, "an unanswered request takes 5 s"
    why = "after 0.5 s: broker-b is paused; "
    assert str(consumed.value).startswith(f"nobody can say what billing has consumed, {why}")
    assert str(balanced.value).startswith(f"nobody can say how billing shares its queues, {why}")


def test_a_query_without_an_answer_names_the_node_that_does_not_run(cluster: RocketMQ) -> None:
    cluster.kill("namesrv")
    with pytest.raises(ClusterUnreachable, match=r"^namesrv was killed; no NameServer") as caught:
        cluster.sent_to("orders")
    assert isinstance(caught.value, NobodyAnswered)


def test_a_topic_that_brokers_refuse_is_an_error_with_a_public_name(cluster: RocketMQ) -> None:
    with pytest.raises(AdminRefused, match="illegal"):
        cluster.create_topic("two words")


def test_an_error_begins_with_a_topic_that_does_not_exist_and_the_name_that_is_like_it(
    cluster: RocketMQ,
) -> None:
    topics = {"ordres": "*", "orders": "*"}  # a second topic, so that brokers know the group
    settings = {**cluster.client_settings(quick=True), **FROM_FIRST}
    with (
        Producer(group="shop", **settings_of_a_producer(settings)) as producer,
        PushConsumer(lambda _: None, topics, group="billing", **settings),
    ):
        producer.send(Message("orders", b"two cups"))
        cluster.wait_until_consumed("billing", topics=["orders"])
        with pytest.raises(NotConsumed) as caught:
            cluster.wait_until_consumed("billing", timeout=0.1, topics=["ordres"])
    told = str(caught.value)
    assert "after 0.1 s: likely mistake: " in told
    assert "subscribes to ordres, which does not exist (did you mean orders?): it gets" in told
    assert told.endswith("; 1 member; it does not read ordres (did you mean orders?)")


def settings_of_a_producer(settings: dict[str, Any]) -> dict[str, Any]:
    return {"namesrv": settings["namesrv"]}


def test_an_error_names_messages_that_went_to_a_topic_with_a_similar_name(
    cluster: RocketMQ,
) -> None:
    with Producer(group="shop", **cluster.client_settings()) as producer, consumer(cluster):
        producer.send(Message("ordres", b"two cups"))
        cluster.wait_until_consumed("billing", topics=["orders"])
        with pytest.raises(NotConsumed) as caught:
            cluster.wait_until_consumed("biling", timeout=0.1, topics=["ordres"])
    told = str(caught.value)
    wanted = "1 message was sent to ordres, which no group reads, and billing reads orders: is one"
    assert f"after 0.1 s: likely mistake: {wanted}" in told
    assert told.endswith("no member is connected, and none ever was: did you mean billing?")


def test_topics_that_both_have_messages_are_no_misspelling(cluster: RocketMQ) -> None:
    with Producer(group="shop", **cluster.client_settings()) as producer:
        for topic in ("orders", "orders2"):
            producer.send(Message(topic, b"two cups"))
        with consumer(cluster):
            cluster.wait_until_consumed("billing", topics=["orders"])
            with pytest.raises(NotConsumed) as caught:
                cluster.wait_until_consumed("billing", timeout=0.1, topics=["orders2"])
    assert "likely mistake" not in str(caught.value)


# Brokers that do not run --------------------------------------------------------------


def send_to_each_queue(cluster: RocketMQ) -> None:
    with Producer(group="shop", **cluster.client_settings()) as producer:
        for number in range(8):
            producer.send(Message("orders", b"%d" % number))


@pytest.mark.parametrize(("verb", "was"), [("kill", "was killed"), ("stop", "was stopped")])
def test_what_a_dead_broker_holds_is_waited_for_and_named(
    cluster: RocketMQ, verb: str, was: str
) -> None:
    send_to_each_queue(cluster)
    getattr(cluster, verb)("broker-b")
    settings = {**cluster.client_settings(quick=True), **FROM_FIRST}
    got: list[Any] = []
    with PushConsumer(got.extend, {"orders": "*"}, group="billing", **settings):
        cluster.wait_until_consumed("billing", topics=["orders"], brokers=["broker-a"])
        assert len(got) == 4
        with pytest.raises(NotConsumed) as caught:
            cluster.wait_until_consumed("billing", timeout=0.1, topics=["orders"])
        cluster.start("broker-b")
        cluster.wait_until_consumed("billing", topics=["orders"])
    assert len(got) == 8
    assert (
        f"after 0.1 s: broker-b {was} and holds 4 messages of orders that billing has not "
        "consumed: start it, or wait for the messages of the other brokers only: "
        "brokers=['broker-a']; 1 member"
    ) in str(caught.value)


def test_a_dead_broker_whose_messages_are_consumed_is_not_waited_for(cluster: RocketMQ) -> None:
    send_to_each_queue(cluster)
    with consumer(cluster):
        cluster.wait_until_consumed("billing", topics=["orders"])
        cluster.kill("broker-b")
        cluster.wait_until_consumed("billing", topics=["orders"])


def test_a_wait_for_brokers_leaves_out_a_paused_one_and_refuses_an_unknown_one(
    cluster: RocketMQ,
) -> None:
    send_to_each_queue(cluster)
    with consumer(cluster):
        cluster.wait_until_consumed("billing", topics=["orders"])
        cluster.pause("broker-b")
        try:
            cluster.wait_until_consumed("billing", topics=["orders"], brokers="broker-a")
        finally:
            cluster.resume("broker-b")
        with pytest.raises(UnknownNode, match="did you mean broker-a"):
            cluster.wait_until_consumed("billing", brokers=["broker_a"])


def held(*noted: tuple[str, Fact], elsewhere: dict[MessageQueue, int] | None = None) -> Any:
    """What broker-a holds of billing; it was killed after the facts *noted*."""
    told = [*noted, ("world", NodeKilled("broker-a"))]
    entries = [Entry(number, 0, number, node, fact) for number, (node, fact) in enumerate(told, 1)]
    wanted = WantedMessages("billing", ("orders",))
    return held_elsewhere(
        wanted, GroupProgress({}, (), ("broker-b",), elsewhere or {}), entries[::-1]
    )


def test_a_dead_broker_holds_what_members_of_other_programs_have_not_consumed() -> None:
    queue = Queue("orders", "broker-a", 0)
    stored = [("broker-a", MessageStored(queue, n, 0, f"K{n}", 100)) for n in range(3)]
    committed = ("broker-a", OffsetCommitted("billing", queue, 1, "127.0.0.1:5000"))
    assert held(*stored, committed) == {"broker-a": HeldMessages("was killed", 2, ("orders",))}
    at = MessageQueue("orders", "broker-a", 0)
    assert held(*stored, committed, elsewhere={at: 3}) == {}
    assert held(("broker-b", MessageStored(Queue("orders", "broker-b", 0), 0, 0, "K", 1))) == {}
    assert held(*stored, committed, elsewhere={at: 2})["broker-a"].message_count == 1
    assert held(("broker-a", MessageStored(Queue("prices", "broker-a", 0), 0, 0, "K", 1))) == {}


# Sharing ------------------------------------------------------------------------------


def shares(held: dict[str, Any], queues: tuple[MessageQueue, ...] = QUEUES) -> GroupShares:
    found = {name: None if own is None else frozenset(own) for name, own in held.items()}
    return GroupShares(queues, found)


@pytest.mark.parametrize(
    ("held", "members", "is_balanced"),
    [
        ({"c1": QUEUES}, None, True),
        ({"c1": QUEUES}, 2, False),
        ({"c1": QUEUES, "c2": ()}, 2, False),  # it has just joined
        ({"c1": QUEUES, "c2": QUEUES[2:]}, 2, False),  # not released yet
        ({"c1": QUEUES[:2], "c2": ()}, 2, False),  # released, not claimed yet
        ({"c1": QUEUES[:2], "c2": QUEUES[2:]}, 2, True),
        ({"c1": QUEUES[:2], "c2": QUEUES[2:]}, None, True),
        ({"c1": QUEUES, "c2": None}, 2, False),  # no answer
        ({}, None, False),
    ],
)
def test_queues_are_shared_when_each_has_one_owner_and_no_member_lacks_one(
    held: dict[str, Any], members: int | None, *, is_balanced: bool
) -> None:
    assert shares(held).is_balanced(members) is is_balanced


def test_members_without_a_queue_are_right_if_a_topic_has_too_few() -> None:
    both = (*QUEUES, STEPS)
    held = {"c1": (*QUEUES[:2], STEPS), "c2": QUEUES[2:]}
    assert shares(held, both).is_balanced(2)


def test_members_of_a_broadcasting_group_own_every_queue_each() -> None:
    every: dict[str, frozenset[MessageQueue] | None] = {
        name: frozenset(QUEUES) for name in ("c1", "c2")
    }
    assert GroupShares(QUEUES, every, is_broadcasting=True).is_balanced(2)
    assert not GroupShares(QUEUES, every).is_balanced(2)


def test_two_orderly_members_are_waited_for_until_both_own_queues(cluster: RocketMQ) -> None:
    with ExitStack() as open_clients:
        for name in ("one", "two"):
            member = consumer(cluster, orderly=True, instance_name=name, rebalance_interval_ms=300)
            open_clients.enter_context(member)
        cluster.wait_until_balanced("billing", members=2)
        claimed = {entry.node for entry in cluster.entries if is_claim(entry)}
    assert len(claimed) == 2


def is_claim(entry: Any) -> bool:
    fact = entry.fact
    return type(fact).__name__ == "QueuesClaimed" and fact.queues[0].topic == "orders"


def test_the_error_of_a_wait_for_shares_names_owners_and_the_next_rebalance(
    cluster: RocketMQ,
) -> None:
    async def in_a_loop() -> None:
        with pytest.raises(RuntimeError, match=r"await cluster\.awaited\.wait_until_balanced"):
            cluster.wait_until_balanced("billing")
        await cluster.awaited.wait_until_balanced("billing")

    with consumer(cluster):
        trio.run(in_a_loop)
    lazy = Strategy("FIRST_ONLY", lambda queues, _members, _me: list(queues)[:1])
    with consumer(cluster, strategy=lazy), pytest.raises(NotBalanced) as caught:
        cluster.wait_until_balanced("billing", members=1, timeout=0.5)
    told = str(caught.value)
    assert told.startswith("billing has not shared its queues after 0.5 s: 1 member; ")
    assert "nobody owns orders@broker-a#1, orders@broker-a#2," in told
    assert "; rebalances come next: billing-2 within " in told
    assert told.endswith(
        "(the interval is 20 s by default, 0.3 s for clients with the setting quick=True)"
    )


def test_the_error_of_a_wait_for_another_number_of_members_names_those_that_are_connected(
    cluster: RocketMQ,
) -> None:
    with consumer(cluster), pytest.raises(NotBalanced) as caught:
        cluster.wait_until_balanced("billing", members=2, timeout=0.1)
    only = "billing has 1 of 2 members, after 0.1 s: only billing-1 is connected"
    assert str(caught.value) == only
    with pytest.raises(NotBalanced) as caught:
        cluster.wait_until_balanced("billing", members=1, timeout=0.1)
    left = "billing has 0 of 1 members, after 0.1 s: no member is connected: billing-1 has left"
    assert str(caught.value) == left
    with pytest.raises(NotBalanced) as caught:
        cluster.wait_until_balanced("stock", members=1, timeout=0.1)
    assert str(caught.value).endswith(
        "no member is connected, and none ever was: its consumer starts by with, or by start()"
    )


def test_the_error_about_failing_listeners_has_their_exception_and_what_to_do(
    cluster: RocketMQ,
) -> None:
    def bill(_messages: Any) -> None:
        raise RuntimeError("card refused")

    send_to_each_queue(cluster)
    settings = {**cluster.client_settings(quick=True), **FROM_FIRST}
    wanted = re.compile(
        r"after 0.1 s: 8 messages failed: 1 attempt failed: RuntimeError: card refused.*: "
        r"advance_until_consumed does not wait for retries; 1 member; "
        r"retries not yet delivered: 8"
    )
    with PushConsumer(bill, {"orders": "*"}, group="billing", **settings):
        for _ in range(200):  # until the offsets of all eight are committed, too
            with pytest.raises(NotConsumed) as caught:
                cluster.wait_until_consumed("billing", timeout=0.1, topics=["orders"])
            if wanted.search(str(caught.value)):
                break
    assert wanted.search(str(caught.value))


def test_an_error_names_a_declared_topic_that_nobody_uses() -> None:
    with (
        RocketMQ(brokers=1, topics=["ordres"]) as cluster,
        consumer(cluster),
        pytest.raises(NotConsumed) as caught,
    ):
        cluster.wait_until_consumed("billing", timeout=0.1, topics=["orders"])
    told = "likely mistake: orders is not declared, and nobody uses ordres, which is (topics=)"
    assert told in str(caught.value)


def test_waits_refuse_broadcasting_members_that_have_one_client_id(cluster: RocketMQ) -> None:
    with consumer(cluster, model="BROADCASTING"):
        with consumer(cluster, model="BROADCASTING"):
            with pytest.raises(NotConsumed, match=r"@DEFAULT, .* its own instance_name="):
                cluster.wait_until_consumed("billing")
            with pytest.raises(NotBalanced, match="2 broadcasting members of group billing"):
                cluster.wait_until_balanced("billing", members=2)
        cluster.wait_until_consumed("billing", topics=["orders"])  # the other one has left
