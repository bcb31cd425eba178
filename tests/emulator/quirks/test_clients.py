"""Each quirk shows its bug when it is switched on, and only then."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client.consumer.push.pulling import Pulling
from rocketmq_emulator.client.settings.config import ProducerConfig
from rocketmq_emulator.facts import SendAttempted
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.settings.quirks import QUIRKS, class_for
from rocketmq_emulator.settings.setting_rules import BadField
from tests.support.client.client_cluster import a_message, producing
from tests.support.client.pulled_broker import in_group
from tests.support.client.whole_cluster import in_cluster

QUEUE = MessageQueue("T", "broker-a", 0)
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK


def on_and_off(name):
    return pytest.mark.parametrize(
        ("quirks", "is_on"), [((name,), True), ((), False)], ids=["on", "off"]
    )


def right_classes(name: str) -> set[type]:
    """The classes that the class of a bug can replace: all classes that it is made from."""
    bug = class_for(object, QUIRKS[name].role, (name,))
    return {kind for kind in bug.__mro__ if kind.__module__.startswith("rocketmq_emulator.")} - {
        bug
    }


@pytest.mark.parametrize("name", QUIRKS)
def test_every_quirk_has_a_class_that_takes_the_place_of_a_right_one(name) -> None:
    (right, *_) = sorted(right_classes(name), key=lambda kind: kind.__module__)
    role = QUIRKS[name].role
    others = [other for other in QUIRKS if QUIRKS[other].role != role]
    assert "quirks" not in right.__module__
    assert class_for(right, role, ()) is class_for(right, role, others) is right
    assert issubclass(class_for(right, role, (name,)), right)


def test_two_quirks_of_one_class_are_both_on() -> None:
    names = ("commit_when_pulled", "forget_full_queues")
    both = class_for(Pulling, "consumer", names)
    assert {class_for(Pulling, "consumer", (name,)) for name in names} < {*both.__mro__}


def test_an_unknown_quirk_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadField, match="no quirk 'lose_bell': did you mean lose_bells"):
        ProducerConfig(group="g", quirks=("lose_bell",))
    with pytest.raises(BadField, match="no quirk 'x', only commit_when_pulled"):
        BrokerConfig(quirks=("x",))


@on_and_off("commit_when_pulled")
def test_messages_may_be_committed_before_they_are_consumed(quirks, is_on) -> None:
    async def main(cluster, broker):
        async def never_ends(_messages) -> None:
            await trio.sleep_forever()

        broker.offsets["T", 0] = 0
        broker.store(5)
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, never_ends, quirks=quirks),
        ):
            await trio.sleep(20)
            return max(request.commit_offset for request in broker.requests(COMMIT))

    assert in_group(main) == (5 if is_on else 0)


@on_and_off("keep_queues")
def test_queues_may_be_kept_when_a_member_joins(quirks, is_on) -> None:
    async def main(cluster):
        async with (
            cluster.process("a") as a,
            cluster.a_consumer(a, lambda messages: None, {"T": "*"}, quirks=quirks) as first,
            cluster.process("b") as b,
            cluster.a_consumer(b, lambda messages: None, {"T": "*"}),
        ):
            await trio.sleep(25)
            return sum(queue.topic == "T" for queue in first.queues)

    assert in_cluster(main, T=4) == (4 if is_on else 2)


@on_and_off("ignore_lock")
def test_a_queue_may_be_taken_without_its_lock(quirks, is_on) -> None:
    async def main(cluster, broker):
        broker.refused.add(0)
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, orderly=True, quirks=quirks) as consumer,
        ):
            await trio.sleep(45)
            return QUEUE in consumer.queues

    assert in_group(main) is is_on


@on_and_off("lock_held_queues_only")
def test_the_lock_of_a_queue_that_is_to_be_claimed_may_count_as_refused(quirks, is_on) -> None:
    async def main(cluster, broker):
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, orderly=True, quirks=quirks) as consumer,
        ):
            await trio.sleep(45)
            return QUEUE in consumer.queues

    assert in_group(main) is not is_on


@on_and_off("keep_offsets")
def test_the_offset_of_a_queue_that_was_given_away_may_be_committed_again(quirks, is_on) -> None:
    async def main(cluster, broker):
        broker.offsets.update({("T", 0): 0, ("T", 1): 0})
        for queue_id in (0, 1):
            broker.store(5, queue_id=queue_id)
        async with cluster.process() as app, cluster.a_consumer(app, quirks=quirks) as consumer:
            await trio.sleep(12)
            broker.members = [consumer.instance.client_id, "zz@joined"]
            await trio.sleep(30)
            (given_away,) = {0, 1} - {queue.queue_id for queue in consumer.queues}
            commits = [at for at, r in broker.received[COMMIT] if r.queue_id == given_away]
            return max(commits) > broker.now_s() - 11

    assert in_group(main, queues=2) is is_on


@on_and_off("forget_full_queues")
def test_a_full_queue_may_be_taken_for_a_lost_one(quirks, is_on) -> None:
    """alibaba/RocketMQ#459."""

    async def stuck(_messages) -> None:
        await trio.sleep_forever()

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(100)
        settings = {"quirks": quirks, "queue_messages_max": 10}
        async with cluster.process() as app, cluster.a_consumer(app, stuck, **settings) as one:
            await trio.sleep(1)
            [full] = [
                pq
                for queue, pq in one._running.member.process_queue_table.items()
                if queue == QUEUE
            ]
            await trio.sleep(160)
            return full.dropped

    assert in_group(main) is is_on


@on_and_off("fail_when_interrupted")
def test_an_interrupted_listener_may_fail_after_the_offsets_were_written(quirks, is_on) -> None:
    """rocketmq #7182."""

    async def works(_messages) -> None:
        await trio.sleep(3)

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(1)
        async with cluster.process() as app:
            async with cluster.a_consumer(app, works, quirks=quirks):
                await trio.sleep(1)
            await trio.sleep(1)
        return broker.times(SEND_BACK), broker.offsets["T", 0]

    assert in_group(main) == ([1.0] if is_on else [], 0)


def test_who_is_killed_sends_nothing_back() -> None:
    begun = []

    async def works(_messages) -> None:
        begun.append(True)
        await trio.sleep(3)

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(1)
        with trio.move_on_after(1):
            async with (
                cluster.process() as app,
                cluster.a_consumer(app, works, quirks=("fail_when_interrupted",)),
            ):
                await trio.sleep_forever()
        await trio.sleep(1)
        return broker.requests(SEND_BACK)

    assert (in_group(main), begun) == ([], [True])


@on_and_off("retry_on_another_queue")
def test_a_retried_send_may_go_to_another_queue(quirks, is_on) -> None:
    async def main(cluster, producer):
        for n, broker in enumerate(cluster.brokers.values()):
            await producer.send(a_message(), queue=MessageQueue("t", broker.name, n))
        cluster.brokers["a"].stop()
        cluster.brokers["b"].stop()
        await trio.sleep(1)
        await producer.start_send(a_message()).wait_sent()
        tries = [fact.queue.queue_id for fact in cluster.facts_of(SendAttempted)[3:]]
        assert len(tries) == 3
        assert (len(set(tries)) > 1) is is_on

    producing(main, "a", "b", "c", quirks=quirks)


@on_and_off("lose_bells")
def test_a_held_pull_may_sleep_through_a_message(quirks, is_on) -> None:
    async def main(cluster):
        await cluster.start_broker("broker-b", quirks=quirks)
        late = []

        def listen(messages) -> None:
            late.extend(cluster.world.now_ms() - m.born_timestamp for m in messages)

        async with cluster.process("p") as p, cluster.a_producer(p) as producer:
            await producer.send(Message("U", b"creates it"), timeout_ms=3_000)
            async with (
                cluster.process("c") as c,
                cluster.a_consumer(c, listen, {"U": "*"}),
            ):
                await trio.sleep(45)
                for _ in range(6):
                    await producer.send(Message("U", b"x"), queue=MessageQueue("U", "broker-b", 0))
                    await trio.sleep(7)
        return max(late[-6:]) > 1_000

    assert in_cluster(main) is is_on
