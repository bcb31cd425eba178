"""Facts: the cause of each rebalance pass and the reason of each release."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.facts import MembersNotified, QueuesReleased, RebalancePassed
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.offsets import ResetOffsetBody
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.requests.groups import NotifyConsumerIdsChangedRequest
from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest
from rocketmq_emulator.settings.releases import R_4_9_7
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import PULL, a_queue, in_group
from tests.support.client.whole_cluster import in_cluster


def notify(broker) -> None:
    (peer,) = broker.server.connections
    notice = NotifyConsumerIdsChangedRequest(consumer_group="cg")
    broker.server.push(peer, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, notice)


def causes_of(cluster, topic="T") -> list[str]:
    return [fact.cause for fact in cluster.facts_of(RebalancePassed) if fact.topic == topic]


def reasons_of(cluster) -> list[tuple[str, list[int]]]:
    """Each release: its reason and the ids of its queues."""
    return [
        (fact.reason, [queue.queue_id for queue in fact.queues])
        for fact in cluster.facts_of(QueuesReleased)
    ]


def test_the_first_pass_has_cause_started_and_later_ones_timer() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app):
            await trio.sleep(45)
        return cluster

    assert causes_of(in_group(main)) == ["started", "timer", "timer"]


def test_a_broker_s_notice_is_the_cause_of_the_pass_it_wakes() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app):
            await trio.sleep(5)
            notify(broker)
            await trio.sleep(1)
        return cluster

    assert causes_of(in_group(main)) == ["started", "notice"]


def test_the_notice_after_our_own_first_heartbeat_has_cause_started() -> None:
    async def main(cluster):
        async with cluster.process() as app, cluster.a_consumer(app, print, {"orders": "*"}):
            await trio.sleep(5)
        return cluster

    cluster = in_cluster(main, orders=1)
    assert [fact.group for fact in cluster.facts_of(MembersNotified)] == ["cg"]
    assert set(causes_of(cluster, "orders")) == {"started"}


def test_the_notice_after_our_own_new_topic_has_cause_subscription_changed() -> None:
    async def main(cluster):
        process = cluster.process()
        async with process, cluster.a_consumer(process, print, {"orders": "*"}) as consumer:
            await trio.sleep(5)
            await consumer.subscribe("more")
            await trio.sleep(1)
        return cluster

    cluster = in_cluster(main, orders=1, more=1)
    *first, last = causes_of(cluster, "orders")
    assert set(first) == {"started"}, "the notice after the first heartbeat may cause a second one"
    assert last == "subscription changed"


def test_a_notice_after_an_unsubscription_has_cause_subscription_changed_once() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(5)
            await consumer.subscribe("U")
            consumer.unsubscribe("U")
            for _ in range(2):
                notify(broker)
                await trio.sleep(1)
        return cluster

    assert causes_of(in_group(main)) == ["started", "subscription changed", "notice"]


def test_since_5_0_a_refused_lock_causes_passes_half_a_second_later() -> None:
    async def main(cluster, broker):
        broker.refused = {0}
        settings = {"orderly": True, "release": "5.0.0"}
        async with cluster.process() as app, cluster.a_consumer(app, **settings):
            await trio.sleep(1.2)
        return cluster

    assert causes_of(in_group(main)) == ["started", "lock refused", "lock refused"]


def test_a_pass_that_ends_a_pause_has_cause_resumed() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(5)
            consumer.suspend()
            await trio.sleep(20)
            await consumer.resume()
        return cluster

    assert causes_of(in_group(main)) == ["started", "resumed"]


def test_since_5_2_a_repaired_offset_causes_a_pass_and_resets_its_queue() -> None:
    async def main(cluster, broker):
        broker.offsets["T", 0] = 500
        broker.store(100)
        async with cluster.process() as app, cluster.a_consumer(app, release="5.3.3"):
            await trio.sleep(5)
        return cluster

    cluster = in_group(main)
    assert causes_of(cluster)[:2] == ["started", "offset repaired"]
    assert reasons_of(cluster) == [("reset", [0]), ("shutdown", [0])]


def test_since_5_2_a_new_connection_causes_a_pass() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app, release="5.3.3") as consumer:
            await trio.sleep(5)
            consumer.instance.remoting.close_all()
            await trio.sleep(5)
        return cluster

    assert causes_of(in_group(main))[:2] == ["started", "connected"]


# Releases -------------------------------------------------------------------------------


def test_queues_that_fall_to_another_member_are_not_mine() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            broker.members = [consumer.instance.client_id, "zzz@else"]
            notify(broker)
            await trio.sleep(1)
        return cluster

    assert reasons_of(in_group(main, queues=4)) == [("not mine", [2, 3]), ("shutdown", [0, 1])]


def test_a_queue_that_is_not_pulled_for_two_minutes_is_released_as_expired() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            broker.replies[PULL].extend([SILENT])
            # The next pull request is lost, as with a thread that died.
            consumer.instance.pull_service.pull_now = lambda request: None
            consumer.instance.pull_service.pull_later = lambda request, delay_ms: None
            await trio.sleep(140)
            return reasons_of(cluster)

    assert in_group(main) == [("pull expired", [0])]


def test_queues_of_a_topic_that_is_not_subscribed_any_more_are_released_as_unsubscribed() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            consumer.unsubscribe("T")
            await trio.sleep(20)
            return reasons_of(cluster)

    assert in_group(main, queues=2) == [("unsubscribed", [0]), ("unsubscribed", [1])]


@pytest.mark.parametrize("orderly", [False, True])
def test_queues_whose_offsets_an_operator_resets_are_released_as_reset(orderly) -> None:
    async def main(cluster, broker):
        process = cluster.process()
        async with process, cluster.a_consumer(process, orderly=orderly) as consumer:
            await trio.sleep(1)
            (connection,) = broker.server.connections.values()
            body = encode_body(ResetOffsetBody(offset_table={a_queue(1): 3}), R_4_9_7)
            request = ResetOffsetRequest(topic="T", group="cg", timestamp=0)
            connection.send_oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, request, body)
            await trio.sleep(15)
            return reasons_of(cluster), causes_of(cluster), consumer.queues

    reasons, causes, queues = in_group(main, queues=2)
    assert reasons == [("reset", [1])]
    assert causes[-1] == "resumed"
    assert queues == [a_queue(0), a_queue(1)]


def test_a_clean_end_releases_every_queue_as_shutdown() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app):
            await trio.sleep(1)
        return cluster

    assert reasons_of(in_group(main, queues=3)) == [("shutdown", [0, 1, 2])]
