"""The public producer against servers with scripted answers."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.client.producer.publish_info import by_hash
from rocketmq_emulator.client.producer.send_kernel import SendStatus
from rocketmq_emulator.errors.call_errors import (
    BadArgument,
    BadSelector,
    BrokerRefused,
    GroupTaken,
    MaybeStored,
    MessageIllegal,
    NoNameServer,
    NoRoute,
    NotRunning,
    NotStored,
)
from rocketmq_emulator.facts import MessageSent, Queue, SendFailed
from rocketmq_emulator.faults.links_and_drives import Cut, Rule, Stall, between, reaching
from rocketmq_emulator.protocol.messages.properties import decode_properties
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.client.client_cluster import SILENT, a_message, in_world, producing, sends_of


def keys_of(cluster) -> list[str]:
    return [
        decode_properties(request.properties)["UNIQ_KEY"]
        for broker in cluster.brokers.values()
        for _, request, _ in broker.sends
    ]


# Success --------------------------------------------------------------------------------


def test_a_send_returns_where_the_message_was_stored() -> None:
    async def main(cluster, producer):
        message = a_message()
        result = await producer.send(message)
        assert result.status is SendStatus.SEND_OK
        assert result.msg_id == message.uniq_key
        assert result.queue.topic == "t"
        assert result.queue_offset == 0
        (fact,) = cluster.facts_of(MessageSent)
        queue = Queue("t", result.queue.broker_name, result.queue.queue_id)
        assert fact == MessageSent("t", queue, 0, message.uniq_key, 1, 0, "SEND_OK")

    producing(main)


def test_the_request_is_the_one_a_java_client_makes() -> None:
    async def main(cluster, producer):
        await producer.send(a_message())
        ((_, request, body),) = cluster.brokers["a"].sends
        assert body == b"hello"
        assert (request.producer_group, request.topic) == ("pg", "t")
        assert (request.default_topic, request.default_topic_queue_nums) == ("TBW102", 4)
        assert (request.sys_flag, request.flag, request.reconsume_times) == (0, 0, 0)
        assert (request.unit_mode, request.batch, request.bname) == (False, False, "a")
        pairs = decode_properties(request.properties)
        assert pairs.keys() == {"KEYS", "UNIQ_KEY", "WAIT", "TAGS"}

    producing(main, "a")


def test_client_invariant_12_sends_go_round_all_queues() -> None:
    async def main(cluster, producer):
        for _ in range(24):
            await producer.send(a_message())
        for broker in cluster.brokers.values():
            assert Counter(broker.queue_ids()) == dict.fromkeys(range(4), 3)

    producing(main)


def test_client_invariant_10_an_unknown_topic_borrows_the_default_topics_brokers() -> None:
    async def main(cluster, producer):
        cluster.namesrv.offer_default_topic(queues=8)
        for _ in range(16):
            await producer.send(a_message(topic="new"))
        for broker in cluster.brokers.values():
            assert Counter(broker.queue_ids()) == dict.fromkeys(range(4), 2)
        # After the next poll, only the broker that registered the topic is in the route.
        cluster.namesrv.routes["new"] = cluster.route(4, only=["a"])
        await trio.sleep(31)
        assert {q.broker_name for q in await producer.publish_queues("new")} == {"a"}

    producing(main, topics={})


def test_client_invariant_10_a_topic_without_writable_queues_is_an_error_and_borrows_none() -> (
    None
):
    async def main(cluster, producer):
        cluster.namesrv.offer_default_topic()
        cluster.namesrv.routes["t"] = cluster.route(4, perm=4)
        with pytest.raises(NoRoute) as caught:
            await producer.send(a_message())
        assert caught.value.code == 10005
        assert not caught.value.maybe_stored
        (fact,) = cluster.facts_of(SendFailed)
        assert (fact.topic, fact.attempts, fact.maybe_stored) == ("t", 0, False)

    producing(main)


@pytest.mark.parametrize(
    ("release", "lender", "is_polled"), [("4.9.8", "other", True), ("5.1.1", "TBW102", False)]
)
def test_from_5_1_1_the_default_topic_is_tbw102_and_not_polled(release, lender, is_polled) -> None:
    async def main(cluster, producer):
        await trio.sleep(5)
        assert cluster.namesrv.route_request_times(lender) == ([0.01] if is_polled else [])
        with pytest.raises(NoRoute):
            await producer.send(a_message(topic="new"))
        assert cluster.namesrv.route_requests[-1] == (5.0, lender)

    producing(main, release=release, create_topic_key="other")


# Failure --------------------------------------------------------------------------------


def test_client_invariant_13_three_attempts_never_twice_in_a_row_at_one_broker() -> None:
    async def main(cluster, producer):
        for broker in cluster.brokers.values():
            broker.always = 1
        with pytest.raises(BrokerRefused) as caught:
            await producer.send(a_message())
        first, second, third = caught.value.brokers
        assert first != second != third
        assert sum(sends_of(cluster).values()) == 3
        assert len(set(keys_of(cluster))) == 1
        (fact,) = cluster.facts_of(SendFailed)
        assert (fact.attempts, fact.maybe_stored) == (3, False)

    producing(main)


def test_client_invariant_13_one_way_and_explicit_sends_make_one_attempt() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = 1
        with pytest.raises(BrokerRefused):
            await producer.send(a_message(), queue=MessageQueue("t", "a", 2))
        with pytest.raises(BrokerRefused):
            await producer.send_to_selected(a_message(), lambda queues, m, arg: queues[arg], 1)
        await producer.send_oneway(a_message())
        await trio.sleep(1)
        assert cluster.brokers["a"].queue_ids()[:2] == [2, 1]
        assert len(cluster.brokers["a"].sends) == 3

    producing(main, "a")


def test_a_refused_connection_leaves_time_for_the_others() -> None:
    async def main(cluster, producer):
        await producer.send(a_message())
        await producer.send(a_message(), queue=MessageQueue("t", "a", 0))
        cluster.brokers["a"].stop()
        await trio.sleep(1)
        results = [await producer.send(a_message()) for _ in range(8)]
        assert {result.queue.broker_name for result in results} == {"b"}
        assert cluster.now_s() == pytest.approx(1.0)

    producing(main)


def test_client_invariant_15_a_hung_broker_uses_the_whole_timeout() -> None:
    async def main(cluster, producer):
        for broker in cluster.brokers.values():
            broker.always = SILENT
        with pytest.raises(MaybeStored, match="out of time") as caught:
            await producer.send(a_message())
        assert cluster.now_s() == pytest.approx(3.0)
        assert (caught.value.attempts, caught.value.code) == (1, 10002)
        assert sum(sends_of(cluster).values()) == 1
        (fact,) = cluster.facts_of(SendFailed)
        assert fact.maybe_stored

    producing(main)


def test_a_cap_for_each_attempt_lets_a_hung_broker_be_retried_elsewhere() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = SILENT
        for _ in range(8):
            result = await producer.send(a_message())
            assert result.queue.broker_name == "b"

    producing(main, send_timeout_ms_per_attempt=500)


def test_client_invariant_23_all_copies_of_a_message_share_its_key() -> None:
    async def main(cluster, producer):
        for broker in cluster.brokers.values():
            broker.answers = [14]
        message = a_message()
        await producer.send(message)
        assert set(keys_of(cluster)) == {message.uniq_key}
        assert len(keys_of(cluster)) == 3

    producing(main)


def test_a_half_done_store_is_a_status_not_an_error() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = 10
        result = await producer.send(a_message())
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
        assert cluster.facts_of(MessageSent)[0].status == "FLUSH_DISK_TIMEOUT"

    producing(main, "a")


def test_a_half_done_store_is_retried_elsewhere_on_request() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = 11
        for _ in range(8):
            assert (await producer.send(a_message())).queue.broker_name == "b"

    producing(main, retry_another_broker_when_not_store_ok=True)


def test_a_cut_connection_leaves_the_message_perhaps_stored() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = SILENT

        async def cut_soon() -> None:
            await trio.sleep(0.5)
            with cluster.world.network.under(Rule(between("app", "a"), Cut())):
                await trio.sleep(5)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_soon)
            with pytest.raises(MaybeStored) as caught:
                await producer.send(a_message())
            assert caught.value.attempts == 3
            assert cluster.now_s() == pytest.approx(0.5)
            nursery.cancel_scope.cancel()

    producing(main, "a")


def test_a_host_that_is_not_there_stores_nothing_for_sure() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        with cluster.world.network.under(Rule(reaching("a"), Stall())):
            with pytest.raises(NotStored) as caught:
                await producer.send(a_message())
            assert not caught.value.maybe_stored
            assert cluster.now_s() == pytest.approx(3.0)

    producing(main, "a")


def test_without_a_name_server_there_is_no_route() -> None:
    async def main(cluster, producer):
        cluster.namesrv.stop()
        with pytest.raises(NoNameServer) as caught:
            await producer.send(a_message())
        assert caught.value.code == 10004

    producing(main)


def test_client_invariant_07_known_routes_outlive_every_name_server() -> None:
    async def main(cluster, producer):
        await producer.send(a_message())
        cluster.namesrv.stop()
        await trio.sleep(600)
        assert (await producer.send(a_message())).is_ok

    producing(main)


# Other forms ----------------------------------------------------------------------------


def test_a_selector_keeps_together_what_belongs_together() -> None:
    async def main(cluster, producer):
        queues = set()
        for _ in range(4):
            result = await producer.send_to_selected(a_message(), by_hash, "order-7")
            queues.add(result.queue)
        assert len(queues) == 1

    producing(main)


@pytest.mark.parametrize("selector", [lambda *_: None, lambda *_: 1 // 0])
def test_a_selector_that_fails_is_the_applications_fault(selector) -> None:
    async def main(cluster, producer):
        with pytest.raises(BadSelector):
            await producer.send_to_selected(a_message(), selector)
        assert sum(sends_of(cluster).values()) == 0

    producing(main)


def test_a_batch_is_one_request_and_many_facts() -> None:
    async def main(cluster, producer):
        messages = [a_message(b"%d" % n) for n in range(3)]
        result = await producer.send_batch(messages)
        assert result.msg_id == ",".join(message.uniq_key for message in messages)
        ((_, request, _),) = cluster.brokers["a"].sends
        assert request.batch
        facts = cluster.facts_of(MessageSent)
        assert [(fact.offset, fact.uniq_key) for fact in facts] == [
            (n, message.uniq_key) for n, message in enumerate(messages)
        ]

    producing(main, "a")


def test_a_one_way_send_without_a_master_fails_before_it_leaves() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        with pytest.raises(NotStored) as caught:
            await producer.send_oneway(a_message(), queue=MessageQueue("t", "nobody", 0))
        assert caught.value.code == 10003

    producing(main)


# Start and end --------------------------------------------------------------------------


def test_a_closed_producer_unregisters_at_its_brokers() -> None:
    async def main(cluster):
        await cluster.start("a", "b", topics={"t": 4})
        async with cluster.process() as process:
            async with cluster.a_producer(process) as producer:
                await producer.send(a_message())
            assert process.instances == {}
        for broker in cluster.brokers.values():
            assert [request.producer_group for request in broker.unregistered] == ["pg"]

    in_world(main)


def test_heartbeats_name_the_group_and_the_inner_producer() -> None:
    async def main(cluster, producer):
        await producer.send(a_message())
        await trio.sleep(2)
        ((_, heartbeat),) = cluster.brokers["a"].heartbeats
        names = [data.group_name for data in heartbeat.producer_data_set]
        assert names == ["CLIENT_INNER_PRODUCER", "pg"]
        assert heartbeat.client_id == producer.instance.client_id

    producing(main, "a")


def test_producers_share_an_instance_by_its_name() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        async with cluster.process() as process:
            shared = {"instance_name": "shared"}
            async with cluster.a_producer(process, **shared) as first:
                async with cluster.a_producer(process, group="other", **shared) as second:
                    assert first.instance is second.instance
                with pytest.raises(GroupTaken):
                    async with cluster.a_producer(process, **shared):
                        pass
                assert (await first.send(a_message())).is_ok

    in_world(main)


def test_a_producer_is_used_inside_its_block_only() -> None:
    async def main(cluster):
        await cluster.start("a")
        producer = cluster.a_producer(cluster.process())
        with pytest.raises(NotRunning):
            await producer.send(a_message())

    in_world(main)


def test_an_error_in_the_block_is_raised_unchanged() -> None:
    async def fail(cluster):
        process = cluster.process()
        async with process, cluster.a_producer(process):
            raise ZeroDivisionError

    async def main(cluster):
        await cluster.start("a")
        with pytest.raises(ZeroDivisionError):
            await fail(cluster)

    in_world(main)


@pytest.mark.parametrize("group", ["", "a b", "DEFAULT_PRODUCER", "x" * 256])
def test_a_group_that_no_broker_would_take_is_refused_at_once(group) -> None:
    with pytest.raises(MessageIllegal):
        Producer(group=group)


def test_settings_that_do_not_exist_are_refused_at_once() -> None:
    with pytest.raises(BadArgument, match=r"sync_retrys.: did you mean sync_retries?"):
        Producer(group="pg", sync_retrys=3)


# The start --------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "is_known"), [("5.1.4", False), ("5.2.0", True)])
def test_from_5_2_0_a_producer_with_topics_is_known_to_their_brokers_when_it_has_started(
    release, is_known
) -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        settings = {"topics": ["t"], "release": release}
        async with cluster.process() as process, cluster.a_producer(process, **settings):
            groups = [
                data.group_name
                for _, heartbeat in cluster.brokers["a"].heartbeats
                for data in heartbeat.producer_data_set
            ]
            assert ("pg" in groups) == is_known

    in_world(main)


def test_a_producer_starts_although_a_topic_of_its_setting_has_no_route() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        settings = {"topics": ["none"], "release": "5.3.3"}
        async with (
            cluster.process() as process,
            cluster.a_producer(process, **settings) as producer,
        ):
            await producer.send(a_message())

    in_world(main)
