"""Times of a consumer's rebalances; claims and releases of queues."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client.consumer.group.allocation import CannotAllocate, Strategy
from rocketmq_emulator.client.instance.services import RebalanceService
from rocketmq_emulator.clocks.clock import TrioAlarm
from rocketmq_emulator.errors.call_errors import NoRoute
from rocketmq_emulator.facts import QueuesClaimed, QueuesReleased, RebalancePassed
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.requests.groups import NotifyConsumerIdsChangedRequest
from rocketmq_emulator.settings.releases import Release
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import LIST, LOCK, PULL, a_queue, in_group


class ACountingConsumer:
    def __init__(self, *, balanced=True, takes_s=0.0) -> None:
        self.passes = []
        self.causes = []
        self.balanced = balanced
        self.takes_s = takes_s

    async def rebalance(self, cause) -> bool:
        self.causes.append(cause)
        self.passes.append(round(trio.current_time() - self.began_s, 3))
        await trio.sleep(self.takes_s)
        return self.balanced


async def passes_of(consumer, release, ring_at_s=(), until_s=61) -> list[float]:
    """The times at which passes begin, with wake-ups at *ring_at_s*."""
    consumer.began_s = trio.current_time()
    rules = Release.parse(release)
    intervals = {"interval_ms": 20_000, "interval_ms_min": 1_000}
    service = RebalanceService({"cg": consumer}, rules, **intervals, alarm=TrioAlarm())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        for at_s in ring_at_s:
            await trio.sleep_until(consumer.began_s + at_s)
            service.wake(f"notice at {at_s}")
        await trio.sleep_until(consumer.began_s + until_s)
        nursery.cancel_scope.cancel()
    return consumer.passes


@pytest.mark.parametrize("release", ["4.9.7", "5.1.4", "5.3.3"])
async def test_client_invariant_25_undisturbed_a_pass_every_20_seconds(
    release, autojump_clock
) -> None:
    assert await passes_of(ACountingConsumer(), release) == [20, 40, 60]


@pytest.mark.parametrize(
    ("release", "causes"),
    [
        ("4.9.7", ["notice at 5.0", "notice at 5.1", "timer"]),
        ("5.3.3", ["notice at 5.0", "notice at 5.1", "timer"]),
    ],
)
async def test_a_pass_has_the_first_cause_that_woke_it(release, causes, autojump_clock) -> None:
    consumer = ACountingConsumer(takes_s=0.3)
    await passes_of(consumer, release, (5.0, 5.1, 5.2), until_s=30)
    assert consumer.causes == causes


async def test_client_invariant_26_two_passes_are_a_second_apart(autojump_clock) -> None:
    rung = (5.0, 5.1, 5.2, 5.9, 7.5)
    assert await passes_of(ACountingConsumer(), "5.3.3", rung, until_s=9) == [5.0, 6.0, 7.5]


async def test_client_invariant_26_out_of_balance_the_next_pass_comes_after_a_second(
    autojump_clock,
) -> None:
    unbalanced = ACountingConsumer(balanced=False)
    assert await passes_of(unbalanced, "5.3.3", until_s=23.5) == [20, 21, 22, 23]


async def test_before_5_2_every_wake_up_costs_a_pass(autojump_clock) -> None:
    rung = (5.0, 5.1, 5.2)
    assert await passes_of(ACountingConsumer(), "4.9.7", rung, until_s=9) == [5.0, 5.1, 5.2]


async def test_wake_ups_during_a_pass_make_one_more(autojump_clock) -> None:
    slow = ACountingConsumer(takes_s=3)
    assert await passes_of(slow, "4.9.7", (5.0, 6.0, 7.0), until_s=15) == [5.0, 8.0]


def test_the_first_pass_comes_with_the_start() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app):
            await trio.sleep(45)
        return broker.times(LIST)

    assert in_group(main) == [0.0, 20.0, 40.0]


def test_client_invariant_32_without_a_list_of_members_everything_stays() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            refusal = Reply(code=ResponseCode.SYSTEM_ERROR, remark="no consumer for this group")
            broker.replies[LIST].extend([refusal, SILENT, refusal])
            await trio.sleep(62)
            return consumer.queues

    assert in_group(main, queues=2) == [a_queue(0), a_queue(1)]


def test_client_invariant_32_a_client_missing_in_the_members_list_drops_every_queue() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            broker.members = ["somebody@else"]
            await trio.sleep(20)
            return consumer.queues, cluster.facts_of(QueuesReleased)

    queues, released = in_group(main, queues=2)
    assert queues == []
    assert [len(fact.queues) for fact in released] == [2]


def test_a_strategy_that_cannot_decide_changes_nothing() -> None:
    fails = []

    def allocate(queues, members, me):
        if fails:
            raise CannotAllocate("as scripted")
        return list(queues)

    async def main(cluster, broker):
        strategy = Strategy("MINE", allocate)
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, strategy=strategy) as consumer,
        ):
            await trio.sleep(1)
            fails.append(True)
            await trio.sleep(60)
            return consumer.queues

    assert in_group(main) == [a_queue(0)]


def test_client_invariant_34_broadcasting_members_hold_all_queues_without_a_members_list() -> None:
    async def main(cluster, broker):
        async with (
            cluster.process("one") as first,
            cluster.process("two") as second,
            cluster.a_consumer(first, model="BROADCASTING") as one,
            cluster.a_consumer(second, model="BROADCASTING") as two,
        ):
            await trio.sleep(1)
            return one.queues, two.queues, broker.received[LIST]

    everything = [a_queue(0), a_queue(1)]
    assert in_group(main, queues=2) == (everything, everything, [])


def test_client_invariant_35_a_notification_starts_a_pass_at_once() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app):
            await trio.sleep(7)
            (peer,) = broker.server.connections
            request = NotifyConsumerIdsChangedRequest(consumer_group="another")
            broker.server.push(peer, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, request)
            await trio.sleep(1)
        return broker.times(LIST)

    assert in_group(main) == [0.0, 7.0]


@pytest.mark.parametrize("expires_s", [21, 25, 31, 39])
@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_client_invariant_35_a_member_that_expires_is_noticed_within_20_seconds(
    release, expires_s
) -> None:
    async def main(cluster, broker):
        async with cluster.process() as app:
            consumer = cluster.a_consumer(app, release=release)
            async with consumer:
                broker.members = [consumer.instance.client_id, "~another@one"]
                await trio.sleep(expires_s)
                shared = len(consumer.queues)
                broker.members = [consumer.instance.client_id]  # without a notice
                await trio.sleep(20)
                return shared, len(consumer.queues)

    assert in_group(main, queues=4) == (2, 4)


def test_client_invariant_45_a_new_share_sends_a_newer_subscription_version() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            mine = consumer.instance.client_id
            broker.members = [mine, "~another@one"]
            await trio.sleep(20)
        return [
            (round(at, 3), s.sub_version)
            for at, beat in broker.heartbeats
            for s in beat.consumer_data_set[0].subscription_data_set
            if s.topic == "T"
        ]

    beats = dict(in_group(main, queues=2))
    assert 20.0 in beats  # not that of the start, not one of each 30 s
    assert beats[20.0] > beats[1.0]


def test_new_queues_are_claimed_and_lost_ones_released() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            broker.members = [consumer.instance.client_id, "~another@one"]
            await trio.sleep(20)
        return cluster

    cluster = in_group(main, queues=4)
    (claimed,) = cluster.facts_of(QueuesClaimed)
    assert [queue.queue_id for queue in claimed.queues] == [0, 1, 2, 3]
    lost, at_the_end = cluster.facts_of(QueuesReleased)
    assert [queue.queue_id for queue in lost.queues] == [2, 3]
    assert [queue.queue_id for queue in at_the_end.queues] == [0, 1]
    passes = cluster.facts_of(RebalancePassed)
    assert [(fact.queue_count, fact.own_count) for fact in passes] == [(4, 4), (4, 2)]


def test_a_released_queue_s_offset_is_written_at_once() -> None:
    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(3)
        async with cluster.process() as app, cluster.a_consumer(app):
            await trio.sleep(1)
            broker.members = ["somebody@else"]
            broker.offsets.clear()
            await trio.sleep(19.5)  # the pass is due at 20.0, the next write at 25.0
            return broker.offsets

    assert in_group(main) == {("T", 0): 3}


def test_an_unsubscribed_topic_is_dropped_with_the_next_pass() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            consumer.unsubscribe("T")
            await trio.sleep(20)
            return consumer.queues

    assert in_group(main) == []


def test_a_topic_subscribed_while_running_comes_with_the_second_pass() -> None:
    async def main(cluster, broker):
        cluster.namesrv.routes["U"] = cluster.route(1)
        async with cluster.process() as app, cluster.a_consumer(app, topics={}) as consumer:
            await trio.sleep(1)
            await consumer.subscribe("U", "TagA")
            held = []
            for _ in range(3):
                await trio.sleep(20)
                held.append(consumer.queues)
            return held

    assert in_group(main)[-1] == [a_queue(0, "U")]


def busy_orderly(release, *, hand_over_at_s, until_s):
    """Give a queue whose orderly listener never ends to another member.

    Returns the times at which it was released, of passes, and of lock requests.
    """
    times = []

    async def stuck(messages) -> None:
        await trio.sleep_forever()

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(1)
        process = cluster.process()
        note = process.note

        def timed(fact) -> None:
            if isinstance(fact, QueuesReleased):
                times.append(round(cluster.now_s(), 3))
            note(fact)

        process.note = timed
        consumer = cluster.a_consumer(process, stuck, orderly=True, release=release)
        async with process, consumer:
            await trio.sleep(hand_over_at_s)
            broker.members = ["somebody@else"]
            await trio.sleep(until_s - hand_over_at_s)
            released = list(times)
        return released, broker.times(LIST), broker.times(LOCK)

    return in_group(main)


def test_client_invariant_52_up_to_5_1_a_busy_orderly_queue_is_kept_for_ever() -> None:
    released, passes, _ = busy_orderly("4.9.7", hand_over_at_s=1, until_s=130)
    assert released == []
    # Each pass waits a second for the listener; the next begins 20 seconds later.
    assert passes[1:4] == [20.0, 41.0, 62.0]


def test_client_invariant_52_since_5_2_it_is_released_20_seconds_after_its_lock() -> None:
    released, passes, locks = busy_orderly("5.3.3", hand_over_at_s=2, until_s=90)
    (at,) = released
    assert passes[2] - passes[1] == 20.5  # the pass that drops it waits for the listener
    last_lock = max(lock for lock in locks if lock < at)
    assert at == next(one for one in passes if one - last_lock > 20)
    assert locks == [1.0, 21.0], "a dropped queue's lock is not renewed"


def test_a_queue_whose_lock_is_refused_is_not_claimed() -> None:
    async def main(cluster, broker):
        broker.refused = {1}
        async with cluster.process() as app, cluster.a_consumer(app, orderly=True) as consumer:
            await trio.sleep(1)
            before = consumer.queues
            broker.refused = set()
            await trio.sleep(20)
            return before, consumer.queues, broker.received[LOCK]

    before, after, _ = in_group(main, queues=2)
    assert before == [a_queue(0)]
    assert after == [a_queue(0), a_queue(1)]


def test_since_5_0_a_refused_lock_is_requested_again_half_a_second_later() -> None:
    async def main(cluster, broker):
        broker.refused = {0}
        process = cluster.process()
        async with process, cluster.a_consumer(process, orderly=True, release="5.0.0"):
            await trio.sleep(2.2)
        return broker.times(LOCK)

    assert in_group(main) == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_two_consumers_of_one_instance_rebalance_together() -> None:
    async def main(cluster, broker):
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, instance_name="shared", group="one") as one,
            cluster.a_consumer(app, instance_name="shared", group="two") as two,
        ):
            await trio.sleep(1)
            return one.instance is two.instance, one.queues, two.queues

    assert in_group(main) == (True, [a_queue(0)], [a_queue(0)])


def test_client_invariant_36_the_outcome_of_a_dropped_queue_s_listener_is_discarded() -> None:
    ended = []

    async def main(cluster, broker):
        async def slow(messages) -> None:
            await trio.sleep(30)
            ended.append(cluster.now_s())
            raise ValueError("too late to matter")

        broker.offsets["T", 0] = 0
        broker.store(1)
        async with cluster.process() as app, cluster.a_consumer(app, slow):
            await trio.sleep(1)
            broker.members = ["somebody@else"]
            await trio.sleep(60)
        return broker

    broker = in_group(main)
    assert ended == [30.0]  # the queue was dropped at 20 s, its listener was not stopped
    assert broker.received[36] == []
    assert broker.offsets["T", 0] == 0
    assert [offset for _, offset in broker.pulls()][:2] == [0, 1]
    assert PULL in broker.received


@pytest.mark.parametrize("orderly", [False, True])
def test_client_invariant_59_without_its_master_a_queue_is_read_from_the_slave_but_not_in_order(
    orderly,
) -> None:
    received = []

    async def main(cluster, broker):
        slave = await cluster.add_broker("broker-a", broker_id=1)
        cluster.namesrv.routes["T"] = cluster.route(1)

        async def listen(messages) -> None:
            received.extend(message.queue_offset for message in messages)

        broker.offsets["T", 0] = 0
        for one in (broker, slave):
            one.store(2)
        process = cluster.process()
        async with (
            process,
            cluster.a_consumer(process, listen, orderly=orderly) as consumer,
            cluster.a_producer(process) as producer,
        ):
            publishes = [len(await producer.publish_queues("T"))]
            await trio.sleep_until(55)  # the last lock is 15 or 14 s old
            broker.stop()
            del cluster.brokers["broker-a"]
            cluster.namesrv.routes["T"] = cluster.route(1)
            slave.store(1)
            await trio.sleep_until(69)
            soon = list(received)
            await trio.sleep_until(75)
            slave.store(3)
            await trio.sleep_until(120)
            with pytest.raises(NoRoute):
                publishes.append(len(await producer.publish_queues("T")))
            return consumer.queues, broker.times(LOCK), publishes, soon

    queues, locks, publishes, soon = in_group(main)
    assert queues == [a_queue()]
    assert publishes == [1]
    assert soon == [0, 1, 2], "a lock is valid for 30 s"
    assert received == soon + ([] if orderly else [3, 4, 5])
    assert not orderly or 75 - 30 > max(locks) > 69 - 30
