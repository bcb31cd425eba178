"""Clients with message traces, in a whole cluster in virtual time: their traces and times."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client import LocalTransactionState, TransactionProducer
from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.client.instance.tracing import TraceBuffer, TraceContext, trace_rules
from rocketmq_emulator.errors.call_errors import BadArgument, BrokerRefused, SendNotWritten
from rocketmq_emulator.facts import MessageStored, TracesLost
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.messages.names import TRACE_TOPIC
from rocketmq_emulator.protocol.messages.properties import split_keys
from rocketmq_emulator.protocol.messages.traces import (
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    decode_traces,
)
from rocketmq_emulator.settings.releases import known_release
from tests.protocol.messages.test_traces import a_pub
from tests.support.client.whole_cluster import in_cluster

TRACED = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "trace": True}
BOTH = pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])


async def all_traces(cluster, topic=TRACE_TOPIC) -> list:
    """The traces that are stored, in the order of the trace messages."""
    return [trace for message in await messages_of(cluster, topic) for trace in read(message)]


async def messages_of(cluster, topic) -> list:
    found = []
    process = cluster.process("reader")
    async with (
        process,
        cluster.a_consumer(
            process,
            found.extend,
            {topic: "*"},
            group=f"reader-{cluster.now_s():.0f}",  # each reads from the first one on
            consume_from="CONSUME_FROM_FIRST_OFFSET",
        ),
    ):
        await trio.sleep(30)
    return sorted(found, key=lambda message: message.store_timestamp)


def read(message) -> list:
    traces, unreadable = decode_traces(message.body)
    assert unreadable == 0
    assert {trace.msg_id for trace in traces} <= set(split_keys(message.keys))
    return traces


def stored_at_s(cluster, topic=TRACE_TOPIC) -> list[float]:
    return [
        at_s
        for at_s, fact in cluster.entries
        if isinstance(fact, MessageStored) and fact.queue.topic == topic
    ]


# Producers ----------------------------------------------------------------------------


@BOTH
def test_every_form_of_sending_is_traced_but_one_way(release) -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_producer(process, trace=True) as producer:
            sync = await producer.send(Message("t", b"hello", tags="TagA", keys=["k1", "k2"]))
            plain = await producer.send(Message("t", b"x", delay_level=1))
            later = await producer.start_send(Message("t", b"xy")).wait_sent()
            batch = await producer.send_batch([Message("t", b"one"), Message("t", b"two")])
            await producer.send_oneway(Message("t", b"lost to traces"))
        traces = await all_traces(cluster)
        assert [trace.msg_id for trace in traces] == [
            each.msg_id for each in (sync, plain, later, batch)
        ]
        first = traces[0]
        assert isinstance(first, PubTrace)
        assert (first.group, first.topic, first.tags, first.keys) == ("pg", "t", "TagA", "k1 k2")
        assert first.store_host.endswith(":10911")
        assert first.offset_msg_id == sync.offset_msg_id
        assert (first.body_bytes, first.msg_type, first.ok) == (5, 0, True)
        assert first.region == "DefaultRegion"
        assert traces[1].msg_type == 3  # delayed
        assert traces[1].tags is None

    in_cluster(main, release=release, t=4)


def test_a_failed_attempt_and_one_without_the_switch_are_not_traced() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        await cluster.start_broker("silent", trace_on=False)
        await cluster.start_broker("small", message_bytes_max=100)
        async with process, cluster.a_producer(process, trace=True) as producer:
            queues = await producer.publish_queues("new")
            of = {queue.broker_name: queue for queue in queues}
            for name in ("broker-a", "silent"):
                await producer.send(Message("new", b"x"), queue=of[name])
            with pytest.raises(BrokerRefused):
                await producer.send(Message("new", b"x" * 1_000), queue=of["small"])
        traces = await all_traces(cluster)
        assert [trace.body_bytes for trace in traces] == [1]

    in_cluster(main, t=4)


def test_the_end_of_a_transaction_is_traced_as_java_does() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_producer(process, trace=True) as producer:
            traces = producer.pipeline.traces
            half = {"UNIQ_KEY": "ID", "KEYS": "t3", "MSG_REGION": "north"}
            ended = {"store_host": "h:10911", "state": "COMMIT_MESSAGE", "from_check": True}
            traces.transaction_ended("t", half, **ended)
        [trace] = await all_traces(cluster)
        assert trace == EndTransactionTrace(
            at_ms=trace.at_ms,
            region="north",
            group="pg",
            topic="t",
            msg_id="ID",
            tags=None,
            keys="t3",
            store_host="h:10911",
            msg_type=2,
            transaction_id="ID",
            state="COMMIT_MESSAGE",
            from_check=True,
        )

    in_cluster(main, t=1)


class Payments:
    """Local transactions whose state is the argument; a broker that asks hears of a rollback."""

    async def execute_local_transaction(self, message, argument) -> LocalTransactionState:
        return argument

    async def check_local_transaction(self, message) -> LocalTransactionState:
        return LocalTransactionState.ROLLBACK_MESSAGE


@BOTH
def test_a_producer_of_transactions_traces_its_ends_and_its_answers(release) -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        settings = {"group": "pg", "namesrv": cluster.namesrv, "release": release, "trace": True}
        producer = TransactionProducer(Payments(), process=process, **settings)
        async with process, producer:
            for state in (LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.UNKNOW):
                await producer.send_in_transaction(Message("t", b"one more"), state)
            await trio.sleep(90)
        traces = await all_traces(cluster)
        ends = [trace for trace in traces if isinstance(trace, EndTransactionTrace)]
        assert [(end.state, end.from_check) for end in ends] == [
            ("COMMIT_MESSAGE", False),
            ("UNKNOW", False),
            ("ROLLBACK_MESSAGE", True),
        ]
        assert len({end.msg_id for end in ends}) == 2

    in_cluster(main, release=release, t=4)


def test_without_trace_nothing_is_written() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:
            await producer.send(Message("t", b"x"))
        assert stored_at_s(cluster) == []

    in_cluster(main, t=4)


def test_traces_go_to_another_topic_if_one_is_given_and_are_not_traced_themselves() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        settings = {"trace": True, "trace_topic": "my-traces"}
        async with process, cluster.a_producer(process, **settings) as producer:
            await producer.send(Message("t", b"x"))
            await producer.send(Message("my-traces", b"by hand"))
        messages = await messages_of(cluster, "my-traces")
        assert [read(message)[0].topic for message in messages if message.keys] == ["t"]
        assert stored_at_s(cluster) == []

    in_cluster(main, t=4)


# When ---------------------------------------------------------------------------------


def test_before_5_3_1_traces_of_half_a_second_are_one_message() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_producer(process, trace=True) as producer:
            began_s = cluster.now_s()
            for _ in range(15):
                await producer.send(Message("t", b"x"))
            await trio.sleep(2)
            after_s = [round(at_s - began_s, 2) for at_s in stored_at_s(cluster)]
            assert after_s == [0.5]

    in_cluster(main, release="4.9.8", t=4)


def test_from_5_3_1_on_ten_traces_go_at_once_and_fewer_after_five_seconds() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_producer(process, trace=True) as producer:
            began_s = cluster.now_s()
            for _ in range(13):
                await producer.send(Message("t", b"x"))
            await trio.sleep(6)
            after_s = [round(at_s - began_s, 1) for at_s in stored_at_s(cluster)]
            assert after_s == [0.0, 5.0]
        messages = await messages_of(cluster, TRACE_TOPIC)
        assert [len(read(message)) for message in messages] == [10, 3]

    in_cluster(main, release="5.3.3", t=4)


def test_before_4_9_4_traces_go_when_five_milliseconds_pass_without_one() -> None:
    rules = trace_rules(known_release("4.9.3"), 10)
    buffer = TraceBuffer(rules, "traces", known_release("4.9.3"), 0.0)
    for at_s in (1.0, 1.004, 1.008):
        buffer.append(TraceContext("t", "r", (a_pub(),)), at_s)
    assert buffer.due_s == pytest.approx(1.013)
    for _ in range(97):
        buffer.append(TraceContext("t", "r", (a_pub(),)), 1.008)
    assert buffer.due_s == float("-inf")


def test_traces_of_two_topics_are_two_messages_from_5_3_1_on_and_one_before() -> None:
    for release, count in (("5.3.3", 2), ("5.3.0", 1)):
        buffer = TraceBuffer(trace_rules(known_release(release), 10), "traces", R_5, 0.0)
        for topic in ("a", "b", "a"):
            buffer.append(TraceContext(topic, "r", (a_pub(topic=topic),)), 0.0)
        assert len(buffer.take(9.0)) == count


def test_a_full_buffer_drops_traces_and_says_so() -> None:
    buffer = TraceBuffer(trace_rules(known_release("4.9.8"), 10), "traces", R_5, 0.0)
    context = TraceContext("t", "r", (a_pub(),))
    assert [buffer.append(context, 0.0) for _ in range(1_026)][-3:] == [True, False, False]
    assert buffer.due_s == float("-inf")
    taken = buffer.take(0.0)
    assert sum(count for _, count in taken) == 1_024
    assert all(len(message.body) <= 128_000 for message, _ in taken)
    assert buffer.append(context, 0.0)
    assert buffer.due_s == 0.5


def test_dropped_traces_are_counted_in_a_fact() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_producer(process, trace=True) as producer:
            sendings = [producer.start_send(Message("t", b"x")) for _ in range(3_000)]
            for sending in sendings:
                await sending.wait_sent()
        lost = sum(fact.count for fact in cluster.facts_of(TracesLost))
        written = sum(len(read(each)) for each in await messages_of(cluster, TRACE_TOPIC))
        assert lost + written == 3_000
        assert {fact.group for fact in cluster.facts_of(TracesLost)} <= {"pg"}

    in_cluster(main, t=4)


def test_traces_that_no_broker_stores_are_lost_and_the_messages_are_not() -> None:
    async def main(cluster) -> None:
        await cluster.start_broker("broker-b", auto_create_topic=False)
        process = cluster.process()
        settings = {"trace": True, "trace_topic": "a/b"}  # an invalid name
        async with process, cluster.a_producer(process, **settings) as producer:
            assert (await producer.send(Message("t", b"x"))).is_ok
        [lost] = cluster.facts_of(TracesLost)
        assert (lost.group, lost.count, lost.topic) == ("pg", 1, "a/b")
        assert "illegal" in lost.reason or "characters" in lost.reason
        assert "traceTopicEnable" in lost.sentence()

    in_cluster(main, t=4)


def test_a_trace_whose_send_fails_at_once_is_lost_and_does_not_delay_the_end() -> None:
    class Ended:
        async def wait_sent(self):
            raise AssertionError("it is over, and nothing is left to wait for")

    def fails_at_once(_message, callback):
        callback(SendNotWritten("broker-a has no master"))
        return Ended()

    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_producer(process, trace=True) as producer:
            producer.pipeline.traces._dispatcher._producer.start_send = fails_at_once
            assert (await producer.send(Message("t", b"x"))).is_ok
            ends_s = cluster.now_s()
        assert cluster.now_s() == ends_s
        [lost] = cluster.facts_of(TracesLost)
        assert (lost.count, lost.reason) == (1, "broker-a has no master")

    in_cluster(main, t=4)


def test_before_4_9_1_two_clients_of_one_group_and_process_cannot_both_trace() -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        settings = {"trace": True, "release": "4.9.0"}
        async with process, cluster.a_producer(process, **settings) as first:
            async with cluster.a_producer(process, **settings) as second:
                await first.send(Message("t", b"1"))
                await second.send(Message("t", b"22"))
            [lost] = cluster.facts_of(TracesLost)
            assert (lost.count, lost.group) == (0, "pg")
            assert "already has a producer group" in lost.sentence()
        assert [trace.body_bytes for trace in await all_traces(cluster)] == [1]

    in_cluster(main, t=1)


# Consumers ----------------------------------------------------------------------------


@BOTH
def test_a_listener_s_call_is_traced_before_and_after_with_its_result(release) -> None:
    async def main(cluster) -> None:
        async def listener(messages):
            await trio.sleep(0.25)
            if messages[0].body == b"raises" and messages[0].reconsume_times == 0:
                raise ValueError("as the test wants it")
            if messages[0].body == b"later" and messages[0].reconsume_times == 0:
                return ConsumeResult.RECONSUME_LATER
            return ConsumeResult.SUCCESS

        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:
            bodies = (b"fine", b"raises", b"later")
            ids = [(await producer.send(Message("t", b, keys="k"))).msg_id for b in bodies]
            async with cluster.a_consumer(process, listener, {"t": "*"}, **TRACED):
                await trio.sleep(40)
        traces = await all_traces(cluster)
        befores = [each for each in traces if isinstance(each, SubBeforeTrace)]
        afters = {each.request_id: each for each in traces if isinstance(each, SubAfterTrace)}
        outcomes = {
            (ids.index(each.msg_id), each.retry_times): afters[each.request_id]
            for each in befores
            if each.msg_id in ids
        }
        assert {at: (each.ok, each.code) for at, each in outcomes.items()} == {
            (0, 0): (True, 0),
            (1, 0): (False, 2),
            (1, 1): (True, 0),
            (2, 0): (False, 4),
            (2, 1): (True, 0),
        }
        assert {each.cost_ms for each in outcomes.values()} == {250}
        assert {each.group for each in (*befores, *afters.values())} == {"cg"}
        region = "DefaultRegion" if release == "5.3.3" else None
        assert {each.region for each in befores} == {region}

    in_cluster(main, release=release, t=1)


@BOTH
def test_an_orderly_consumer_traces_its_suspension(release) -> None:
    async def main(cluster) -> None:
        tries = []

        async def listener(messages):
            tries.append(messages)
            return ConsumeResult.SUSPEND if len(tries) == 1 else ConsumeResult.SUCCESS

        process = cluster.process()
        async with (
            process,
            cluster.a_consumer(process, listener, {"t": "*"}, orderly=True, **TRACED),
        ):
            await trio.sleep(5)
        calls = [each for each in await all_traces(cluster) if isinstance(each, SubAfterTrace)]
        assert [(each.ok, each.code) for each in calls] == [(False, 4), (True, 0)]

    in_cluster(main, release=release, t=1)


@pytest.mark.parametrize(("release", "before_poll"), [("4.9.7", 2), ("5.3.3", 0)])
def test_a_lite_consumer_traces_pulls_before_5_0_0_and_polls_since(release, before_poll) -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        async with process, cluster.a_lite_consumer(process, {"t": "*"}, **TRACED) as lite:
            await trio.sleep(9)
            assert len(await all_traces(cluster)) == before_poll
            [polled] = await lite.poll()
        traces = await all_traces(cluster)
        assert [type(each) for each in traces] == [SubBeforeTrace, SubAfterTrace]
        assert {each.msg_id for each in traces} == {polled.msg_id}

    in_cluster(main, release=release, t=1)


def test_trace_producers_have_groups_of_their_own_on_one_instance() -> None:
    async def main(cluster) -> None:
        for release, number in (("4.9.0", ""), ("4.9.1", "-1")):
            process = cluster.process()
            async with process, cluster.a_producer(process, trace=True, release=release):
                [name] = [name for name in process.instances if "TRACE" in name]
                assert name == f"{process.ip}@PID_CLIENT_INNER_TRACE_PRODUCER_{cluster.namesrv}"
                groups = set(process.instances[name].producers)
                assert f"_INNER_TRACE_PRODUCER-pg-PRODUCE{number}" in groups
            assert process.instances == {}

    in_cluster(main, t=1)


def test_from_5_3_1_on_messages_without_a_region_are_not_traced() -> None:
    buffer = TraceBuffer(trace_rules(R_5, 10), "traces", R_5, 0.0)
    buffer.append(TraceContext("t", None, (a_pub(),)), 0.0)
    assert buffer.take(9.0) == []


def test_a_batch_of_traces_has_at_least_one() -> None:
    async def main(cluster) -> None:
        with pytest.raises(BadArgument, match="trace_batch_max"):
            cluster.a_producer(cluster.process(), trace_batch_max=0)

    in_cluster(main)


R_5 = known_release("5.3.3")
