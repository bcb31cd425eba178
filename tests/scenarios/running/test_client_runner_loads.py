"""The sends of a load and the results of a listener follow from their plans and the seed."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio

from rocketmq_emulator.client import ConsumeResult
from rocketmq_emulator.cluster.fault_values import Kill
from rocketmq_emulator.facts import (
    ConsumerStarted,
    DelayedDelivered,
    MessageConsumed,
    MessageSent,
    MessageStored,
    SeekRequested,
    TimerMessageDelivered,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import dlq_topic
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    ListenerPlan,
    LoadPlan,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.running.client_runner import (
    Contents,
    PlannedListener,
    due_messages,
)
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.scenarios.running_plans import a_plan

ORDERS = {"orders": "*"}


def due(
    load: LoadPlan, index: int = 0, not_before_ms: float = 0
) -> list[tuple[tuple[int, ...], float]]:
    return [(each.numbers, each.at_ms) for each in due_messages(load, index, not_before_ms)]


# Loads --------------------------------------------------------------------------------------


def test_each_message_has_one_of_the_values_of_a_property_or_none() -> None:
    values = {"region": ("eu", "us", ""), "amount": ("3",)}
    contents = Contents(LoadPlan(topic="orders", rate=10, properties=values), seed=1)
    found = [contents.message(number).properties for number in range(50)]
    assert {each.get("region") for each in found} == {"eu", "us", None}
    assert {each["amount"] for each in found} == {"3"}


def test_messages_are_due_one_by_one_and_shared_among_producers() -> None:
    load = LoadPlan(topic="orders", rate=10, producers=2, count_max=4)
    assert due(load) == [((0,), 0), ((2,), 200)]
    assert due(load, 1) == [((1,), 100), ((3,), 300)]
    assert due(load, 1, not_before_ms=150) == [((3,), 300)]


def test_a_batch_is_due_with_its_last_message_and_the_last_one_may_be_smaller() -> None:
    load = LoadPlan(topic="orders", rate=10, producers=2, batch=3, until_ms=1_000)
    assert due(load) == [((0, 1, 2), 200), ((6, 7, 8), 800)]
    assert due(load, 1) == [((3, 4, 5), 500), ((9,), 900)]
    assert due(load, 0, not_before_ms=700) == [((6, 7, 8), 800)]


def test_each_message_draws_its_delay_once() -> None:
    load = LoadPlan(topic="orders", rate=10, delay_levels=(0, 1, 3))
    contents = Contents(load, seed=1)
    levels = [contents.message(number).delay_level for number in range(100)]
    assert set(levels) == {0, 1, 3}
    assert levels == [contents.message(number).delay_level for number in range(100)]
    timers = Contents(LoadPlan(topic="orders", rate=10, timer_ms=(0, 5_000)), seed=1)
    assert {timers.message(number).delay_ms for number in range(100)} == {0, 5_000}


def test_each_message_of_a_load_has_its_properties() -> None:
    load = LoadPlan(topic="orders", rate=10, tags=("red",), properties={"color": "red"})
    message = Contents(load, seed=1).message(3)
    assert message.properties["color"] == "red"
    assert message.tags == "red"
    assert load.properties == {"color": "red"}, "the properties of a message are its own"


# Listeners ----------------------------------------------------------------------------------


def outcomes(plan: ListenerPlan, bodies: list[bytes], salt: str = "1/billing") -> list[bool]:
    async def listen() -> list[bool]:
        listener = PlannedListener(plan, random.Random(1), lambda: 500.0, salt=salt)
        found = []
        for body in bodies:
            result = await listener.listen([SimpleNamespace(body=body)])  # type: ignore[list-item]
            found.append(result is ConsumeResult.SUCCESS)
        return found

    return trio.run(listen, clock=trio.testing.MockClock(autojump_threshold=0))


BODIES = [f"orders {number} ".encode() for number in range(200)]


def test_what_always_fails_fails_each_time_and_nothing_else_does() -> None:
    plan = ListenerPlan(always_fails=0.2)
    first = outcomes(plan, BODIES)
    assert first == outcomes(plan, BODIES)
    assert 20 <= first.count(False) <= 60
    assert first != outcomes(plan, BODIES, salt="1/audit")
    assert all(outcomes(ListenerPlan(always_fails=0.2, from_ms=600), BODIES))


# In runs ------------------------------------------------------------------------------------


def entries(plan: Plan, seed: int = 1) -> list[Entry]:
    row, found = finished_run(plan, seed)
    assert (row.verdict, row.reason) == ("passed", "")
    return found


def facts(found: list[Entry], *kinds: type) -> list[Any]:
    return [entry.fact for entry in found if isinstance(entry.fact, kinds)]


def a_run(consumers: ConsumersPlan, load: LoadPlan, release: str = "4.9.7") -> Plan:
    cluster = ClusterPlan(brokers=1, release=release)
    return a_plan(
        cluster=cluster,
        topics={"orders": TopicPlan(queues=2)},
        consumers=(consumers,),
        load=(load,),
    )


BILLING = ConsumersPlan(group="billing", topics=ORDERS)


def test_the_run_waits_for_delayed_messages_and_they_are_consumed() -> None:
    load = LoadPlan(topic="orders", rate=4, until_ms=4_000, delay_levels=(0, 2, 4))
    found = entries(a_run(BILLING, load))
    delivered = facts(found, DelayedDelivered)
    assert {fact.delay_level for fact in delivered} == {2, 4}
    assert len(facts(found, MessageConsumed)) == 16


def test_the_run_waits_for_timer_messages_of_5x_brokers() -> None:
    load = LoadPlan(topic="orders", rate=4, until_ms=4_000, timer_ms=(0, 60_000))
    found = entries(a_run(BILLING, load, release="5.3.3"))
    assert facts(found, TimerMessageDelivered)
    assert len(facts(found, MessageConsumed)) == 16


def test_what_fails_for_ever_becomes_a_dead_letter_within_the_run() -> None:
    listener = ListenerPlan(always_fails=0.3)
    group = ConsumersPlan(
        group="billing",
        topics=ORDERS,
        listener=listener,
        settings={"reconsume_times_max": 1},
    )
    found = entries(a_run(group, LoadPlan(topic="orders", rate=5, until_ms=4_000)))
    letters = [
        fact for fact in facts(found, MessageStored) if fact.queue.topic == dlq_topic("billing")
    ]
    failed = {fact.uniq_key for fact in facts(found, MessageConsumed) if not fact.ok}
    assert {letter.uniq_key for letter in letters} == failed
    assert letters
    tries = [fact.ok for fact in facts(found, MessageConsumed) if fact.uniq_key in failed]
    assert tries == [False] * 2 * len(letters)


def test_batches_are_stored_together_in_one_queue() -> None:
    load = LoadPlan(topic="orders", rate=20, until_ms=2_000, batch=4)
    found = facts(entries(a_run(BILLING, load)), MessageSent)
    assert len(found) == 40
    for at in range(0, 40, 4):
        offsets = [fact.offset for fact in found[at : at + 4]]
        assert len({fact.queue for fact in found[at : at + 4]}) == 1
        assert offsets == list(range(offsets[0], offsets[0] + 4))


@pytest.mark.parametrize(
    ("settings", "is_complete"), [({"offset_folder": "o"}, True), ({}, False)]
)
def test_a_broadcasting_member_with_a_folder_gets_what_came_while_it_was_killed(
    settings: dict[str, str], is_complete: bool
) -> None:
    news = ConsumersPlan(group="news", topics=ORDERS, broadcast=True, settings=settings)
    kill = Step(does=Kill(node="news-1"), at_ms=20_000, for_ms=10_000)
    load = LoadPlan(topic="orders", rate=5, from_ms=5_000, until_ms=40_000)
    plan = msgspec.structs.replace(a_run(news, load), timeline=(kill,))
    consumed = facts(entries(plan), MessageConsumed)
    places = {(fact.queue, fact.offset) for fact in consumed}
    assert (len(places) == 35 * 5) is is_complete
    assert len(places) > 20 * 5


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_members_and_producers_may_be_of_another_release_than_the_cluster(release: str) -> None:
    other = {"4.9.7": "5.3.3", "5.3.3": "4.9.7"}[release]
    group = ConsumersPlan(
        group="billing",
        topics=ORDERS,
        members=2,
        settings_of={"billing-2": {"release": other}},
    )
    load = LoadPlan(topic="orders", rate=5, until_ms=15_000, settings={"release": other})
    found = entries(a_run(group, load, release))
    assert {f.release for f in facts(found, ConsumerStarted)} == {release, other}
    assert len(facts(found, MessageConsumed)) == 75


def test_lite_pull_members_seek_when_they_are_to() -> None:
    group = ConsumersPlan(
        group="reading",
        topics=ORDERS,
        kind="lite_pull",
        seeks_ms=(9_000, 12_000),
        seek_back_max=5,
    )
    found = entries(a_run(group, LoadPlan(topic="orders", rate=5, until_ms=15_000)))
    sought = [e.mono_us for e in found if isinstance(e.fact, SeekRequested)]
    assert len(sought) == 2
    assert sought[1] - sought[0] == pytest.approx(3_000_000, abs=500_000)
