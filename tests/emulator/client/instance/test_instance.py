"""A client instance: route polls, heartbeats, cleaning, shutdown."""

from __future__ import annotations

import msgspec
import pytest
import trio

from rocketmq_emulator.client.instance import topic_routes
from rocketmq_emulator.client.instance.process import client_id_of
from rocketmq_emulator.client.settings.config import ClientConfig
from rocketmq_emulator.errors.call_errors import GroupTaken, NoNameServer, NotRunning, NotStored
from rocketmq_emulator.facts import RouteChanged, RouteQueriesFailing, RouteQueriesRecovered
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerData
from rocketmq_emulator.protocol.bodies.routes import BrokerData
from rocketmq_emulator.protocol.requests.groups import (
    NotifyConsumerIdsChangedRequest,
    UnregisterClientRequest,
)
from tests.support.client.client_cluster import a_message, in_world
from tests.support.golden_data import cases


class FakeConsumer:
    """A consumer of one topic that records the calls of its instance."""

    def __init__(self, group="cg", topic="t", now_s=lambda: 0.0) -> None:
        self.group = group
        self.topic = topic
        self.queues = None
        self.persisted = []
        self.passes = []
        self._now_s = now_s

    def topics(self):
        return [self.topic]

    def subscribes(self, topic):
        return topic == self.topic

    def needs_route(self, topic):
        return topic == self.topic and self.queues is None

    def take_route(self, topic, queues):
        self.queues = queues

    def heartbeat_data(self):
        return ConsumerData(group_name=self.group)

    async def rebalance(self, cause):
        self.passes.append(round(self._now_s(), 3))
        return True

    async def pull(self, request):
        raise AssertionError("nothing was assigned")

    async def persist_offsets(self):
        self.persisted.append(round(self._now_s(), 3))


def an_unregistering() -> UnregisterClientRequest:
    return UnregisterClientRequest(client_id="somebody")


def a_config(cluster, **settings) -> ClientConfig:
    return ClientConfig(**{"namesrv": cluster.namesrv.address, **settings})


def test_client_ids_are_built_as_upstream_builds_them() -> None:
    for case in cases("ids.jsonl", "client_id"):
        given = case["in"]
        if given["stream_request"]:
            continue  # we have no setting enableStreamRequestType
        built = client_id_of(
            given["client_ip"],
            given["instance_name"],
            given["unit_name"] or "",
        )
        assert built == case["out"], case["id"]


def test_client_invariant_01_polls_heartbeats_and_writes_come_at_their_times() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        consumer = FakeConsumer(now_s=cluster.now_s)
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(consumer)
            await trio.sleep(64)
        assert cluster.namesrv.route_request_times("t") == [0.01, 30.01, 60.01]
        assert cluster.brokers["a"].heartbeat_times() == [1.0, 31.0, 61.0]
        assert consumer.persisted == [float(at) for at in range(10, 65, 5)]

    in_world(main)


def test_client_invariant_02_slow_heartbeats_make_the_route_poll_late() -> None:
    async def main(cluster):
        await cluster.start("a", "b", "c", topics={"t": 4})
        for broker in cluster.brokers.values():
            broker.heartbeats_answered = False
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster, heartbeat_first_ms=29_000))
            instance.register_consumer(FakeConsumer())
            await trio.sleep(70)
        # From 29 s on, three heartbeats take 3 s each; the poll due at 30.01 s waits for them.
        assert cluster.namesrv.route_request_times("t") == [0.01, 38.0, 68.0]

    in_world(main)


def test_client_invariant_03_slaves_get_heartbeats_of_consumers_only() -> None:
    async def main(cluster):
        await cluster.start("a")
        slave = await cluster.add_broker("a", broker_id=1)
        cluster.namesrv.routes["t"] = cluster.route()
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            await instance.routes.refresh("t")
            assert await instance.heartbeats.send_round()
            assert slave.heartbeats == []
            instance.register_consumer(FakeConsumer())
            assert await instance.heartbeats.send_round()
            assert len(slave.heartbeats) == 1
        assert len(cluster.brokers["a"].heartbeats) == 2

    in_world(main)


def test_client_invariant_04_a_broker_in_no_route_gets_no_more_heartbeats() -> None:
    async def main(cluster):
        await cluster.start("a", "b", topics={"t": 4})
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(FakeConsumer())
            await trio.sleep(5)
            cluster.namesrv.routes["t"] = cluster.route(only=["a"])
            await trio.sleep(60)
            assert [name for name, *_ in instance.brokers.all()] == ["a"]
        assert cluster.brokers["a"].heartbeat_times() == [1.0, 31.0, 61.0]
        assert cluster.brokers["b"].heartbeat_times() == [1.0]

    in_world(main)


def test_client_invariant_05_default_instance_names_are_unique() -> None:
    async def main(cluster):
        await cluster.start()
        async with cluster.process() as process:
            first = await process.instance(a_config(cluster))
            second = await process.instance(a_config(cluster))
            assert first is not second
            assert first.client_id != second.client_id
            for alone in (first, second):
                assert alone.client_id.startswith(f"{process.ip}@7#")
            shared = await process.instance(a_config(cluster), may_share_default=True)
            assert shared.client_id == f"{process.ip}@DEFAULT"
            again = await process.instance(a_config(cluster), may_share_default=True)
            assert again is shared

    in_world(main)


def test_members_that_start_together_under_one_name_share_one_instance() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        found = []
        async with cluster.process() as process, trio.open_nursery() as nursery:

            async def produce(group) -> None:
                named = cluster.a_producer(process, group=group, instance_name="one")
                async with named as producer:
                    await producer.send(a_message())
                    found.append(producer.instance)
                    await trio.sleep(5)

            for group in ("p", "q", "r"):
                nursery.start_soon(produce, group)
            await trio.sleep(4)
            assert list(process.instances) == [f"{process.ip}@one"]
            await trio.sleep(4)
            assert process.instances == {}
        assert len(found) == 3
        assert len(set(found)) == 1

    in_world(main)


def test_a_start_that_is_cancelled_frees_the_name() -> None:
    async def main(cluster):
        await cluster.start()
        config = a_config(cluster, instance_name="one")
        async with cluster.process() as process:
            with trio.CancelScope() as scope:
                scope.cancel()
                await process.instance(config)
            with trio.fail_after(1):
                instance = await process.instance(config)
            assert process.instances == {instance.client_id: instance}

    in_world(main)


def test_client_invariant_06_unregistering_reaches_every_known_address() -> None:
    async def main(cluster):
        await cluster.start("a", "b")
        slave = await cluster.add_broker("a", broker_id=1)
        cluster.namesrv.routes["t"] = cluster.route()
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(FakeConsumer("cg"))
            await instance.routes.refresh("t")
            await instance.unregister_consumer("cg")
            process.release(instance)
            assert process.instances == {}
        for broker in (*cluster.brokers.values(), slave):
            assert [request.consumer_group for request in broker.unregistered] == ["cg"]

    in_world(main)


def test_client_invariant_07_and_08_known_routes_are_kept() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        consumer = FakeConsumer()
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(consumer)
            await trio.sleep(1)
            known = consumer.queues
            assert len(known) == 4
            del cluster.namesrv.routes["t"]
            await trio.sleep(60)
            assert not await instance.routes.refresh("t")
            cluster.namesrv.stop()
            with pytest.raises(NoNameServer):
                await instance.routes.refresh("t")
            await trio.sleep(300)
            assert consumer.queues == known
            assert "t" in instance.routes.table

    in_world(main)


def test_client_invariant_11_a_route_change_alone_wakes_no_rebalance() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        consumer = FakeConsumer(now_s=cluster.now_s)
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(consumer)
            await trio.sleep(22)
            cluster.namesrv.routes["t"] = cluster.route(8)
            await trio.sleep(13)
            assert len(consumer.queues) == 8
            assert consumer.passes == [20.0]

    in_world(main)


def test_an_unchanged_route_is_no_fact() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(FakeConsumer())
            assert await instance.routes.refresh("t")
            assert not await instance.routes.refresh("t")
        assert cluster.facts_of(RouteChanged) == [RouteChanged("t", ("a",))]

    in_world(main)


def test_an_answer_that_did_not_change_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counting(body: bytes, kind: type) -> object:
        decoded.append(body)
        return decode_unlimited_body(body, kind)

    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:
            await producer.send(a_message())
            decoded.clear()
            await trio.sleep(95)
            assert decoded == [], "three polls with the same answer decode nothing"
            cluster.namesrv.routes["t"] = cluster.route(6)
            await trio.sleep(60)
            assert len(decoded) == 1
            assert len(await producer.publish_queues("t")) == 6

    monkeypatch.setattr(topic_routes, "decode_unlimited_body", counting)
    in_world(main)


def test_a_failing_name_server_ends_the_round_of_polls() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4, "u": 4})
        cluster.namesrv.is_silent = True
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(FakeConsumer("one", "t"))
            instance.register_consumer(FakeConsumer("two", "u"))
            await trio.sleep(10)
        assert [topic for _, topic in cluster.namesrv.route_requests] == ["t"]

    in_world(main)


def test_the_next_name_server_is_asked_when_one_cannot_be_connected() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        both = f"10.9.9.9:9876;{cluster.namesrv.address}"
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster, namesrv=both))
            instance.register_consumer(FakeConsumer())
            assert await instance.routes.refresh("t")

    in_world(main)


def test_waiting_for_the_route_lock_ends_after_its_limit() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        cluster.namesrv.is_silent = True
        config = a_config(cluster, api_timeout_ms=10_000, route_poll_first_ms=90_000)
        async with cluster.process() as process, trio.open_nursery() as nursery:
            instance = await process.instance(config)

            async def refresh_without_answer() -> None:
                with pytest.raises(NoNameServer):
                    await instance.routes.refresh("t")

            nursery.start_soon(refresh_without_answer)
            await trio.sleep(1)
            assert not await instance.routes.refresh("t")
            assert cluster.now_s() == pytest.approx(4.0)

    in_world(main)


def test_a_round_of_heartbeats_is_skipped_while_another_is_under_way() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        cluster.brokers["a"].heartbeats_answered = False
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(FakeConsumer())
            await trio.sleep(2)
            assert not await instance.heartbeats.send_round()
            await trio.sleep(10)
        assert cluster.brokers["a"].heartbeat_times() == [1.0]

    in_world(main)


@pytest.mark.parametrize(("release", "introduced"), [("4.9.8", False), ("5.3.3", True)])
def test_from_5_2_0_a_new_connection_sends_a_heartbeat_and_wakes_the_rebalance(
    release, introduced
) -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        broker = cluster.brokers["a"]
        consumer = FakeConsumer(now_s=cluster.now_s)
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster, release=release))
            instance.register_consumer(consumer)
            await trio.sleep(5)
            instance.remoting.close_all()
            instance.remoting.send_oneway(
                broker.address, catalog.UNREGISTER_CLIENT, an_unregistering()
            )
            await trio.sleep(1)
            assert broker.heartbeat_times() == ([1.0, 5.0] if introduced else [1.0])
            assert consumer.passes == ([5.0] if introduced else [])

    in_world(main)


def test_a_change_in_any_group_wakes_every_consumer_of_the_instance() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        consumer = FakeConsumer("cg", now_s=cluster.now_s)
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(consumer)
            await trio.sleep(5)
            broker = cluster.brokers["a"].server
            (peer,) = broker.connections
            broker.push(peer, 40, NotifyConsumerIdsChangedRequest(consumer_group="another"))
            await trio.sleep(1)
            assert consumer.passes == [5.0]

    in_world(main)


def test_a_group_has_one_member_on_an_instance() -> None:
    async def main(cluster):
        await cluster.start()
        async with cluster.process() as process:
            instance = await process.instance(a_config(cluster))
            instance.register_consumer(FakeConsumer("cg"))
            with pytest.raises(GroupTaken):
                instance.register_consumer(FakeConsumer("cg"))

    in_world(main)


def test_a_process_gives_no_instances_outside_of_its_block() -> None:
    async def main(cluster):
        process = cluster.process()
        with pytest.raises(NotRunning):
            await process.instance(a_config(cluster))

    in_world(main)


def test_invalid_routes_and_brokers_without_addresses_are_survived() -> None:
    async def main(cluster) -> None:
        await cluster.start("a", topics={"t": 4, "odd": 1})
        odd = msgspec.structs.replace(cluster.route(1), order_topic_conf="a:many")
        cluster.namesrv.routes["odd"] = odd
        nowhere = BrokerData(cluster="c", broker_name="z", broker_addrs={0: "nowhere"})
        good = cluster.route(1)
        cluster.namesrv.routes["t"] = msgspec.structs.replace(
            good,
            queue_datas=[msgspec.structs.replace(good.queue_datas[0], broker_name="z")],
            broker_datas=[nowhere],
        )
        settings = {"vip_channel_enabled": True, "sync_retries": 0}
        async with cluster.process() as app, cluster.a_producer(app, **settings) as producer:
            for topic in ("t", "odd"):
                with pytest.raises(NotStored):
                    await producer.send(a_message(topic=topic))
            await trio.sleep(31)
            cluster.namesrv.routes["odd"] = good
            await trio.sleep(30)
            assert [queue.topic for queue in await producer.publish_queues("odd")] == ["odd"]

    in_world(main)


def test_a_name_server_that_dies_and_comes_back_is_told_at_the_polls() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:
            await producer.send(a_message())
            cluster.namesrv.stop()
            await trio.sleep(100)
            await producer.send(a_message())  # with the route that it has
            await cluster.namesrv.start()
            await trio.sleep(60)
        (failing,) = cluster.facts_of(RouteQueriesFailing)
        (recovered,) = cluster.facts_of(RouteQueriesRecovered)
        assert failing.sentence() == (
            f"no NameServer answers this client ({failing.error}); it uses the routes that it "
            "has; tried again within 30 s; check that a NameServer listens there"
        )
        assert failing.error.startswith(f"{cluster.namesrv.address}: ")
        assert recovered == RouteQueriesRecovered(cluster.namesrv.address, failing_for_ms=120_000)
        assert recovered.sentence().endswith("9876 answers, after 120.0 s without any")

    in_world(main)


def test_a_client_that_is_closed_while_it_asks_does_not_warn() -> None:
    async def main(cluster):
        await cluster.namesrv.start()
        cluster.namesrv.is_silent = True
        process = cluster.process()
        async with process, cluster.a_producer(process):
            await trio.sleep(1)
            assert cluster.namesrv.route_requests, "its poll waits for an answer"
        assert cluster.facts_of(RouteQueriesFailing) == []

    in_world(main)
