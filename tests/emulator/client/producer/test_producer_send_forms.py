"""Each form of sending: its timeouts, workers and bodies, and the facts about its end."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest
import trio

from rocketmq_emulator.client.producer.publish_info import by_random, hash_code
from rocketmq_emulator.errors.call_errors import (
    BrokerRefused,
    MaybeStored,
    NoRoute,
    NotStored,
    RecallFailed,
    SendNotWritten,
    TooManySends,
)
from rocketmq_emulator.facts import MessageSent, SendAttempted, SendFailed
from rocketmq_emulator.faults.links_and_drives import Cut, Rule, between
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.messages.message_ids import RecallHandle
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.client.client_cluster import SILENT, a_message, in_world, producing, sends_of

A0 = MessageQueue("t", "a", 0)
HANDLE = RecallHandle("t", "a", "1700000000000", "KEY").encode()


def first(queues, message, argument) -> MessageQueue:
    return queues[0]


FORMS = {
    "sync": lambda p: p.send(a_message(), timeout_ms=700),
    "batch": lambda p: p.send_batch([a_message(), a_message()], timeout_ms=700),
    "given": lambda p: p.send(a_message(), queue=A0, timeout_ms=700),
    "selected": lambda p: p.send_to_selected(a_message(), first, None, timeout_ms=700),
    "async": lambda p: p.start_send(a_message(), timeout_ms=700).wait_sent(),
    "async, given": lambda p: p.start_send(a_message(), queue=A0, timeout_ms=700).wait_sent(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_sending_waits_as_long_as_its_caller_said(form) -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].always = SILENT
        with pytest.raises(MaybeStored) as caught:
            await FORMS[form](producer)
        assert cluster.now_s() == pytest.approx(0.7)
        assert caught.value.took_ms == 700
        (attempt,) = cluster.facts_of(SendAttempted)
        assert (attempt.attempt, attempt.took_ms) == (1, 700)
        failed = cluster.facts_of(SendFailed)
        assert len(failed) == (2 if form == "batch" else 1)
        assert {(fact.attempts, fact.maybe_stored) for fact in failed} == {(1, True)}

    producing(main, "a", sync_retries=0)


WORKING = {
    "sync": lambda p, worker: p.send(a_message(), worker=worker),
    "batch": lambda p, worker: p.send_batch([a_message()], worker=worker),
    "one way": lambda p, worker: p.send_oneway(a_message(), worker=worker),
    "async": lambda p, worker: p.start_send(a_message(), worker=worker).wait_sent(),
}


@pytest.mark.parametrize("form", WORKING)
def test_workers_go_round_apart_and_the_first_one_is_meant_where_none_is_named(form) -> None:
    async def main(cluster, producer):
        info = await producer.pipeline.table.find("t")
        send = WORKING[form]
        for worker in (0, 1, 1, 2, 2):
            await send(producer, worker)
        await trio.sleep(1)
        steps = dict(info.index._at)
        assert set(steps) == {0, 1, 2}
        unnamed = {
            "sync": lambda: producer.send(a_message()),
            "batch": lambda: producer.send_batch([a_message()]),
            "one way": lambda: producer.send_oneway(a_message()),
            "async": lambda: producer.start_send(a_message()).wait_sent(),
        }
        await unnamed[form]()
        assert info.index._at == {**steps, 0: steps[0] + 1}
        kernel_forms = {
            "sync": lambda: producer.pipeline.send(a_message()),
            "batch": lambda: producer.pipeline.send_batch([a_message()]),
            "one way": lambda: producer.pipeline.send_oneway(a_message()),
            "async": lambda: producer.pipeline.start_send(a_message()).wait_sent(),
        }
        await kernel_forms[form]()
        assert info.index._at == {**steps, 0: steps[0] + 2}

    producing(main, "a")


def test_a_worker_keeps_its_round_where_the_route_is_looked_up_first() -> None:
    async def main(cluster, producer):
        await producer.start_send(a_message(), worker=5).wait_sent()
        assert set(producer.pipeline.table.known("t").index._at) == {5}

    producing(main, "a")


def test_a_one_way_send_carries_its_body() -> None:
    async def main(cluster, producer):
        await producer.send_oneway(a_message(b"one way"))
        await trio.sleep(1)
        ((_, _, body),) = cluster.brokers["a"].sends
        assert body == b"one way"

    producing(main, "a")


def test_a_one_way_send_without_a_master_is_a_failed_attempt_and_no_send() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        with pytest.raises(NotStored, match=r"^nobody has no master$"):
            await producer.send_oneway(a_message(), queue=MessageQueue("t", "nobody", 0))
        (attempt,) = cluster.facts_of(SendAttempted)
        assert (attempt.attempt, attempt.took_ms) == (1, 0)
        assert attempt.outcome == "NoMaster: nobody has no master"
        (failed,) = cluster.facts_of(SendFailed)
        assert (failed.attempts, failed.maybe_stored) == (0, False)
        assert failed.error == "NoBrokerAnswered: nobody has no master"
        assert producer.pipeline.kernel.strategy.faults.items["nobody"].latency_ms == 0

    producing(main, "a", send_latency_fault_enable=True)


def test_what_was_only_handed_over_took_no_time() -> None:
    async def main(cluster, producer):
        await producer.send_oneway(a_message())
        assert producer.pipeline.kernel.strategy.faults.items["a"].latency_ms == 0

    producing(main, "a", send_latency_fault_enable=True)


@pytest.mark.parametrize(("form", "wait_ms"), [("sync", 300), ("async", 300)])
def test_an_answer_s_time_is_the_latency_of_its_broker(form, wait_ms) -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        await trio.sleep(5)
        cluster.brokers["a"].slow_ms = wait_ms
        await FORMS[form](producer)
        assert producer.pipeline.kernel.strategy.faults.items["a"].latency_ms == wait_ms
        (sent,) = cluster.facts_of(MessageSent)
        assert (sent.took_ms, sent.attempts) == (wait_ms, 1)

    producing(main, "a", send_latency_fault_enable=True)


def test_a_batch_has_a_code_of_its_own() -> None:
    async def main(cluster, producer):
        await producer.send(a_message())
        await producer.send_batch([a_message()])
        assert cluster.brokers["a"].send_codes == [310, 320]

    producing(main, "a")


@pytest.mark.parametrize("form", ["given", "selected"])
def test_a_send_to_a_chosen_queue_is_tried_once(form) -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].always = 1  # retried, unless the queue is chosen
        with pytest.raises(BrokerRefused) as caught:
            await FORMS[form](producer)
        assert caught.value.attempts == 1

    producing(main, "a")


@pytest.mark.parametrize("form", ["given", "selected"])
def test_the_cap_of_an_attempt_is_for_those_that_another_may_follow(form) -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].always = SILENT
        with pytest.raises(MaybeStored) as caught:
            await FORMS[form](producer)
        assert caught.value.took_ms == 700

    producing(main, "a", send_timeout_ms_per_attempt=100)


def test_only_retries_begin_their_round_anywhere() -> None:
    restarts = []

    async def main(cluster, producer):
        info = await producer.pipeline.table.find("t")
        restart = info.index.restart
        info.index.restart = lambda worker: restarts.append(worker) or restart(worker)
        await producer.send(a_message(), worker=4)
        assert restarts == []
        for broker in cluster.brokers.values():
            broker.always = 1
        with pytest.raises(BrokerRefused):
            await producer.send(a_message(), worker=4)
        assert restarts == [4, 4]

    producing(main, release="5.3.3", send_latency_fault_enable=True)


def test_an_async_send_to_a_broker_without_a_master_fails_at_once() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        queue = MessageQueue("t", "nobody", 0)
        with pytest.raises(NotStored, match="nobody has no master") as caught:
            await producer.start_send(a_message(), queue=queue).wait_sent()
        assert caught.value.code == 10003
        (attempt,) = cluster.facts_of(SendAttempted)
        assert attempt.outcome == "NoMaster: nobody has no master"

    producing(main, "a")


def test_a_millisecond_is_time_enough_for_an_attempt() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        assert (await producer.send(a_message(), timeout_ms=1)).is_ok
        assert sends_of(cluster) == {"a": 1}

    producing(main, "a")


def test_an_async_send_without_any_time_does_not_leave() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        with pytest.raises(NotStored, match="out of time"):
            await producer.start_send(a_message(), timeout_ms=0).wait_sent()
        assert (await producer.start_send(a_message(), timeout_ms=1).wait_sent()).is_ok
        assert sends_of(cluster) == {"a": 1}

    producing(main, "a")


def test_one_unanswered_attempt_makes_a_whole_async_send_uncertain() -> None:
    async def main(cluster, producer):
        await producer.send(a_message(), queue=A0)
        cluster.brokers["a"].always = SILENT
        sending = producer.start_send(a_message())
        await trio.sleep(0.4)
        cluster.brokers["a"].stop()  # connections of the retries are refused
        with pytest.raises(MaybeStored) as caught:
            await sending.wait_sent()
        assert caught.value.attempts == 3
        outcomes = [fact.outcome.split(":")[0] for fact in cluster.facts_of(SendAttempted)[1:]]
        assert outcomes == ["NoAnswer", "NeverSent", "NeverSent"]

    producing(main, "a")


def test_an_async_send_that_was_answered_is_an_attempt_with_its_status() -> None:
    async def main(cluster, producer):
        await producer.start_send(a_message()).wait_sent()
        (attempt,) = cluster.facts_of(SendAttempted)
        assert attempt.outcome == "SEND_OK"

    producing(main, "a")


@pytest.mark.parametrize(("master", "isolated_ms"), [(True, 0), (False, 600_000)])
def test_what_a_launch_does_to_its_broker_before_5_1_4(master, isolated_ms) -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        if not master:
            producer.pipeline.instance.brokers.keep_only(set())
        sending = producer.start_send(a_message())
        item = producer.pipeline.kernel.strategy.faults.items["a"]
        now_ms = producer.pipeline.kernel.now_ms()
        assert (item.available_from_ms - now_ms, item.latency_ms) == (isolated_ms, 0)
        with suppress(NotStored):
            await sending.wait_sent()

    producing(main, "a", release="4.9.7", send_latency_fault_enable=True)


def test_a_batch_has_a_fact_for_each_of_its_messages() -> None:
    async def main(cluster, producer):
        await producer.send(a_message(), queue=A0)
        await producer.send_batch([a_message(), a_message()])
        batch = cluster.facts_of(MessageSent)[1:]
        assert [fact.offset - batch[0].offset for fact in batch] == [0, 1]
        assert len({fact.uniq_key for fact in batch}) == 2

    producing(main, "a")


def test_a_producer_that_closes_says_what_it_abandoned() -> None:
    sendings = []

    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        cluster.brokers["a"].always = SILENT
        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:
            await producer.publish_queues("t")
            sendings.append(producer.start_send(a_message()))
            await trio.sleep(1)
        error = sendings[0].result
        assert isinstance(error, MaybeStored)
        assert str(error) == "t: the producer was closed"
        assert error.brokers == ("a",)
        (attempt,) = cluster.facts_of(SendAttempted)
        assert attempt.outcome == "NoAnswer: a: the producer was closed"

    in_world(main)


def test_a_send_that_never_left_is_surely_not_stored_when_its_producer_closes() -> None:
    sendings = []

    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        cluster.namesrv.is_silent = True
        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:
            sendings.append(producer.start_send(a_message()))
        assert type(sendings[0].result) is SendNotWritten
        assert sendings[0].result.brokers == ()
        assert cluster.facts_of(SendAttempted) == []

    in_world(main)


def test_an_async_send_whose_connection_is_cut_is_tried_three_times_and_no_more() -> None:
    async def main(cluster, producer):
        await producer.send(a_message(), queue=A0)
        cluster.brokers["a"].always = SILENT
        sending = producer.start_send(a_message(), timeout_ms=1_000)
        await trio.sleep(0.4)
        cluster.brokers["a"].stop()
        with pytest.raises(MaybeStored) as caught:
            await sending.wait_sent()
        assert caught.value.attempts == 3
        assert caught.value.took_ms < 1_000

    producing(main, "a")


def test_a_send_of_an_unknown_topic_fails_in_the_background_too() -> None:
    async def main(cluster, producer):
        with pytest.raises(NoRoute):
            await producer.start_send(a_message(topic="unknown")).wait_sent()
        (failed,) = cluster.facts_of(SendFailed)
        assert (failed.topic, failed.attempts) == ("unknown", 0)

    producing(main, "a")


def test_as_many_async_sends_are_under_way_as_the_limit_says() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        for _ in range(2):
            producer.start_send(a_message())
        with pytest.raises(TooManySends, match=r"^2 sends are under way$"):
            producer.start_send(a_message())

    producing(main, "a", async_sends_max=2)


# Recalling ----------------------------------------------------------------------------------


def test_a_recall_goes_to_the_broker_of_its_handle() -> None:
    async def main(cluster, producer):
        assert await producer.recall_message("t", HANDLE) == "recalled"
        ((_, request),) = cluster.brokers["a"].recalls
        assert (request.topic, request.recall_handle) == ("t", HANDLE)
        assert (request.producer_group, request.bname) == ("pg", "a")
        assert cluster.brokers["b"].recalls == []

    producing(main, release="5.3.3")


def test_a_recall_waits_as_long_as_its_caller_said() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].always = SILENT
        for timeout_ms, seconds in ((700, 0.7), (None, 3.7)):
            with pytest.raises(RecallFailed) as caught:
                await producer.recall_message("t", HANDLE, timeout_ms=timeout_ms)
            assert caught.value.maybe_recalled
            assert cluster.now_s() == pytest.approx(seconds)

    producing(main, "a", release="5.3.3")


# Choosing -----------------------------------------------------------------------------------


def test_chance_chooses_every_queue() -> None:
    queues = [MessageQueue("t", "a", number) for number in range(3)]
    choose = by_random(random.Random(7))
    chosen = Counter(choose(queues, Message("t"), None).queue_id for _ in range(60))
    assert sorted(chosen) == [0, 1, 2]


def test_a_number_is_a_java_int_up_to_31_bits_and_a_long_beyond() -> None:
    """Java: ``Integer.hashCode`` is the number, ``Long.hashCode`` folds its halves."""
    hashes = {
        2**31 - 1: 2**31 - 1,
        -(2**31): -(2**31),
        100: 100,
        2**31: -(2**31),
        -(2**31) - 1: -(2**31),
        2**32: 1,
        2**32 + 5: 4,
        3 * 2**32: 3,
    }
    assert {number: hash_code(number) for number in hashes} == hashes


def test_what_has_no_hash_in_java_is_named() -> None:
    with pytest.raises(TypeError, match=r"a text or a whole number, not 1\.5$"):
        hash_code(1.5)


# Probing ------------------------------------------------------------------------------------


def test_a_probe_asks_for_the_first_queue_of_any_topic() -> None:
    async def main(cluster, producer):
        await producer.send(a_message(), queue=A0)
        with cluster.world.network.under(Rule(between("app", "a"), Cut())):
            for _ in range(8):
                await producer.send(a_message())
        await trio.sleep(10)
        probes = [request for _, request in cluster.brokers["a"].probes]
        assert probes
        assert {(probe.topic, probe.queue_id) for probe in probes} == {("t", 0)}
        assert sends_of(cluster)["b"] == 8

    producing(main, release="5.3.3", send_latency_fault_enable=True, start_detector_enable=True)
