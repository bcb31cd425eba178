"""A pull consumer's answers to brokers and tools, and its handling of their notices."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from rocketmq_emulator.client import GroupCallRefused
from rocketmq_emulator.facts import CallbackRaised, QueuesClaimed
from rocketmq_emulator.net.results import NO_REPLY, Refusal, Reply, Wait
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import GetConsumerListByGroupReply
from rocketmq_emulator.protocol.bodies.offsets import GetConsumerStatusBody
from rocketmq_emulator.protocol.bodies.running import ConsumerRunningInfo
from rocketmq_emulator.protocol.requests.groups import (
    ConsumeMessageDirectlyRequest,
    GetConsumerStatusRequest,
)
from rocketmq_emulator.settings.releases import R_4_9_7
from tests.support.client.pulled_broker import LIST, a_queue, in_group


def requests_of(consumer):
    return consumer.instance.consumers["cg"].requests


def status_of(consumer, topic="T"):
    asked = SimpleNamespace(request=GetConsumerStatusRequest(topic=topic, group="cg"))
    reply = requests_of(consumer).consumer_status(asked)
    return decode_unlimited_body(reply.body, GetConsumerStatusBody).message_queue_table


def test_tools_see_a_pull_consumers_offsets_and_settings() -> None:
    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app, subscriptions={"T": "*"}) as consumer:
            consumer.update_consume_offset(a_queue(), 5)
            consumer.update_consume_offset(a_queue(topic="U"), 6)
            reply = requests_of(consumer).running_info(None)
            return status_of(consumer), decode_unlimited_body(reply.body, ConsumerRunningInfo)

    status, info = in_group(main)
    assert status == {a_queue(): 5}
    shown = info.properties
    assert (shown["PROP_CONSUME_TYPE"], shown["brokerSuspendMaxTimeMillis"]) == (
        "CONSUME_ACTIVELY",
        "20000",
    )
    assert [subscription.topic for subscription in info.subscription_set] == ["T"]
    assert info.mq_table == {}


def test_a_lite_pull_consumer_tells_no_offsets() -> None:
    async def main(cluster, broker):
        broker.store(1)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app) as consumer:
            consumer.assign([a_queue()])
            await consumer.seek_to_begin(a_queue())
            await consumer.poll()
            consumer.commit()
            return await consumer.committed(a_queue()), status_of(consumer)

    assert in_group(main) == (1, {})


def test_a_reset_is_ignored_and_a_message_for_its_listener_refused() -> None:
    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            consumer.update_consume_offset(a_queue(), 5)
            assert requests_of(consumer).reset_offset(None) is NO_REPLY
            request = ConsumeMessageDirectlyRequest(
                consumer_group="cg", client_id="me", msg_id="1"
            )
            with pytest.raises(Refusal) as refused:
                requests_of(consumer).consume_directly(SimpleNamespace(request=request))
            return refused.value.code, await consumer.fetch_consume_offset(a_queue())

    assert in_group(main) == (1, 5)


def test_the_route_of_a_pulled_topic_is_refreshed_as_that_of_one_it_announces() -> None:
    async def main(cluster, _broker):
        cluster.namesrv.routes["U"] = cluster.route(1)
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app, subscriptions={"U": "*"}) as consumer:
            await consumer.pull(a_queue(), 0)
            cluster.namesrv.routes["T"] = cluster.route(2)
            await trio.sleep(31)
            return len(await consumer.fetch_subscribe_message_queues("T"))

    assert in_group(main) == 2


def test_listeners_that_raise_are_facts_and_the_rest_goes_on() -> None:
    async def main(cluster, _broker):
        app = cluster.process()

        def raises(*_told) -> None:
            raise RuntimeError("no")

        topics, named = {"T": "*"}, {"on_queues": raises}
        async with app, cluster.a_lite_consumer(app, topics, **named) as consumer:
            await consumer.register_topic_message_queue_change_listener("T", raises)
            await trio.sleep(21)
            cluster.namesrv.routes["T"] = cluster.route(2)
            await trio.sleep(60)
            held = len(consumer.queues)
        return held, {fact.function for fact in cluster.facts_of(CallbackRaised)}

    assert in_group(main) == (2, {"on_queues", "on_topic_queues"})


def test_a_pass_that_outlives_its_consumer_leaves_the_others_of_its_instance_alone() -> None:
    async def main(cluster, broker):
        app, shared = cluster.process(), {"instance_name": "shared"}
        async with app, cluster.a_lite_consumer(app, {"T": "*"}, group="stays", **shared) as other:
            await trio.sleep(1)
            async with cluster.a_lite_consumer(app, {"T": "*"}, **shared):
                await trio.sleep(18)
                members = Reply(
                    body=encode_body(
                        GetConsumerListByGroupReply(consumer_id_list=[other.instance.client_id]),
                        R_4_9_7,
                    )
                )
                until_ms = cluster.world.now_ms() + 3_500
                late = Wait(object(), until_ms, lambda _now_ms, _expired: members)
                broker.replies[LIST] += [members, late]
                await trio.sleep(2)
                assert broker.replies[LIST] == [], "its pass is running"
            await trio.sleep(25)
            claims = [fact.group for fact in cluster.facts_of(QueuesClaimed)]
            return other.queues, claims, cluster.facts_of(CallbackRaised)

    assert in_group(main) == ([a_queue()], ["stays"], [])


def test_a_pull_without_a_route_says_why_there_is_none() -> None:
    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            cluster.namesrv.stop()
            with pytest.raises(GroupCallRefused, match="broker-a: no NameServer answered"):
                await consumer.pull(a_queue(), 0)

    in_group(main)
