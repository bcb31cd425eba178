"""A group allocates averagely until its last member is new, then by circle (#3465)."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio

from rocketmq_emulator.client.consumer.group.allocation import AVG, AVG_BY_CIRCLE, averagely_auto
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import Release
from tests.support.client.pulled_broker import in_group
from tests.support.client.whole_cluster import in_cluster

AUTO = averagely_auto("4.9.7")
OLD, NEW = "4.9.7", "5.3.3"
QUEUES = [MessageQueue("T", "broker-a", number) for number in range(4)]
CONNECTIONS = RequestCode.GET_CONSUMER_CONNECTION_LIST
BLOCKS, CIRCLE = [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def shares(versions) -> list[list[int]]:
    """The queues of two members when a broker reports these versions."""
    allocate = AUTO.by_versions(versions)
    return [[q.queue_id for q in allocate(QUEUES, ["a", "b"], me)] for me in ("a", "b")]


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        ({"a": NEW, "b": NEW}, CIRCLE),
        ({"a": NEW, "b": OLD}, BLOCKS),  # the threshold itself is not above it
        ({"a": NEW}, BLOCKS),  # the version of b is unknown
        ({"a": NEW, "b": NEW, "stranger": OLD}, CIRCLE),  # no member, so not counted
    ],
)
def test_a_group_goes_by_circle_when_every_member_is_above_the_threshold(
    releases, expected
) -> None:
    versions = {member: Release.parse(release).version for member, release in releases.items()}
    assert shares(versions) == expected


def test_a_threshold_is_a_release() -> None:
    with pytest.raises(ValueError, match="a release looks like"):
        averagely_auto("newest")


async def owned(cluster, *members, settle_s=25.0) -> list[list[int]]:
    """The queues that consumers of (name, release, strategy) hold after *settle_s*."""
    async with AsyncExitStack() as stack:
        consumers = [
            await a_member(cluster, stack, name, release, strategy)
            for name, release, strategy in members
        ]
        await trio.sleep(settle_s)
        return [held(consumer) for consumer in consumers]


async def a_member(cluster, stack, name, release, strategy):
    process = await stack.enter_async_context(cluster.process(name))
    consumer = cluster.a_consumer(
        process, lambda messages: None, {"T": "*"}, release=release, strategy=strategy
    )
    return await stack.enter_async_context(consumer)


def held(consumer) -> list[int]:
    return sorted(queue.queue_id for queue in consumer.queues if queue.topic == "T")


@pytest.mark.parametrize("broker_release", [OLD, NEW])
def test_a_group_changes_over_with_the_upgrade_of_its_last_old_member(broker_release) -> None:
    async def main(cluster):
        async with AsyncExitStack() as stack:
            first = await a_member(cluster, stack, "a", NEW, AUTO)
            async with AsyncExitStack() as old:
                second = await a_member(cluster, old, "b", OLD, AUTO)
                await trio.sleep(25)
                before = [held(first), held(second)]
            second = await a_member(cluster, stack, "b2", NEW, AUTO)
            await trio.sleep(25)
            return before, [held(first), held(second)]

    before, after = in_cluster(main, release=broker_release, T=4)
    assert (sorted(before), sorted(after)) == (BLOCKS, CIRCLE)


def test_a_group_that_mixes_the_two_strategies_leaves_a_queue_to_nobody() -> None:
    async def main(cluster):
        return await owned(cluster, ("a", OLD, AVG), ("b", OLD, AVG_BY_CIRCLE), settle_s=130)

    of_a, of_b = in_cluster(main, T=4)
    assert set(of_a) & set(of_b), "a queue with two owners"
    assert {0, 1, 2, 3} - set(of_a) - set(of_b), "a queue without an owner"


def test_without_an_answer_about_versions_every_queue_stays() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app, strategy=AUTO) as consumer:
            await trio.sleep(1)
            before = list(consumer.queues)
            broker.replies[CONNECTIONS].append(Reply(code=ResponseCode.SYSTEM_ERROR))
            await trio.sleep(42)
            return before, list(consumer.queues), len(broker.received[CONNECTIONS])

    before, after, asked = in_group(main, queues=2)
    assert before == after != []
    assert asked >= 2, "each pass sends one request"


def test_a_strategy_that_needs_no_versions_asks_for_none() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app, strategy=AVG):
            await trio.sleep(42)
        return broker.received[CONNECTIONS]

    assert in_group(main) == []
