"""Requests and replies, with whole brokers of both releases in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from rocketmq_emulator.client.instance.request_futures import ENDED_MAX, RequestFutureTable
from rocketmq_emulator.errors.call_errors import (
    BadArgument,
    BrokerRefused,
    ClientErrorCode,
    MaybeStored,
    MessageIllegal,
    NoRoute,
    NotARequest,
    RequesterGone,
    RequestUnanswered,
    TooManySends,
)
from rocketmq_emulator.facts import (
    CallbackRaised,
    MessageSent,
    ReplyDropped,
    ReplyNotPushed,
    ReplyPushed,
    ReplyReceived,
    RequestGivenUp,
    RequestSent,
)
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.protocol.messages.message import Message, MessageExt
from rocketmq_emulator.protocol.messages.properties import (
    ARRIVE_TIME,
    CLUSTER,
    CORRELATION_ID,
    MSG_TYPE,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    TTL,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.client.client_cluster import SILENT, a_message, producing
from tests.support.client.whole_cluster import in_cluster

RELEASES = pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])


class Replier:
    """A consumer that replies to each request after ``slow_s``, ``times`` times."""

    def __init__(self, *, slow_s=0.0, times=1, body=b"answer to %b") -> None:
        self.slow_s = slow_s
        self.times = times
        self.body = body
        self.requests: list[MessageExt] = []
        self.errors: list[Exception] = []

    @asynccontextmanager
    async def running(self, cluster, topic="asks"):
        process = cluster.process("replier")
        async with process, cluster.a_producer(process, group="repliers") as producer:

            async def listen(messages):
                for message in messages:
                    if message.body == b"first":  # it made the topic
                        continue
                    self.requests.append(message)
                    await trio.sleep(self.slow_s)
                    await self.reply(producer, message)

            settings = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "listeners_inline": False}
            async with cluster.a_consumer(process, listen, {topic: "*"}, **settings):
                await trio.sleep(5)
                yield producer

    async def reply(self, producer, message) -> None:
        body = self.body % message.body if b"%b" in self.body else self.body
        for _ in range(self.times):
            try:
                await producer.reply_to(message, body)
            except Exception as error:  # noqa: BLE001  # for the test to look at
                self.errors.append(error)


def with_replier(steps, *, release="4.9.7", requester=None, **settings):
    """Run ``main(cluster, producer, replier)``; the topic ``asks`` has one queue."""

    async def main(cluster):
        replier = Replier(**settings)
        async with replier.running(cluster):
            process = cluster.process("requester")
            given = {"group": "requesters", **(requester or {})}
            async with process, cluster.a_producer(process, **given) as producer:
                await steps(cluster, producer, replier)

    in_cluster(main, release=release, asks=1)


def facts_of(cluster, *kinds):
    return [fact for fact in cluster.facts if isinstance(fact, kinds)]


# The reply comes ---------------------------------------------------------------------------


@RELEASES
def test_a_request_returns_the_reply_of_its_consumer(release) -> None:
    async def main(cluster, producer, replier):
        message = Message("asks", b"one", tags="TagA")
        reply = await producer.request(message, timeout_ms=3_000)
        assert reply.body == b"answer to one"
        assert reply.topic == "DefaultCluster_REPLY_TOPIC"
        properties = reply.properties
        assert properties[CORRELATION_ID] == message.properties[CORRELATION_ID]
        assert properties[REPLY_TO_CLIENT] == producer.instance.client_id
        assert (properties[TTL], properties[MSG_TYPE]) == ("3000", "reply")
        assert int(properties[PUSH_REPLY_TIME]) <= int(properties[ARRIVE_TIME])
        assert reply.born_host.startswith(cluster.world.network.host("replier").ip)
        await trio.sleep(0.1)  # for the answer to the push
        asked = replier.requests[-1]
        assert (asked.body, asked.tags) == (b"one", "TagA")
        (sent,) = cluster.facts_of(RequestSent)
        (received,) = cluster.facts_of(ReplyReceived)
        (pushed,) = cluster.facts_of(ReplyPushed)
        ids = {fact.correlation_id for fact in (sent, received, pushed)}
        assert ids == {message.properties[CORRELATION_ID]}
        assert sent.uniq_key == message.uniq_key
        assert pushed.client == producer.instance.client_id
        assert len(producer.instance.requests) == 0

    with_replier(main, release=release)


@RELEASES
def test_the_reply_alone_ends_a_request_with_a_callback_and_not_its_send(release) -> None:
    async def main(cluster, producer, replier):
        results = []
        requesting = producer.start_request(Message("asks", b"one"), results.append)
        with trio.move_on_after(0.5):
            await requesting.wait_reply()
        assert cluster.facts_of(RequestSent)
        assert results == []
        reply = await requesting.wait_reply()
        assert results == [reply] == [requesting.result]
        assert reply.body == b"answer to one"

    with_replier(main, release=release, slow_s=1.0)


def test_many_requests_get_each_its_own_reply() -> None:
    async def main(cluster, producer, replier):
        bodies = [b"%d" % number for number in range(50)]
        begun = [producer.start_request(Message("asks", body)) for body in bodies]
        replies = [await requesting.wait_reply() for requesting in begun]
        assert [reply.body for reply in replies] == [b"answer to %b" % body for body in bodies]

    with_replier(main)


def test_a_large_reply_is_sent_and_pushed_compressed() -> None:
    async def main(cluster, producer, replier):
        reply = await producer.request(Message("asks", b"one"))
        assert reply.body == b"x" * 100_000

    with_replier(main, body=b"x" * 100_000)


def test_a_request_is_sent_to_the_queue_that_is_given() -> None:
    async def main(cluster, producer, replier):
        queue = MessageQueue("asks", "broker-a", 0)
        reply = await producer.request(Message("asks", b"one"), queue=queue)
        assert reply.body == b"answer to one"
        assert replier.requests[-1].queue_id == 0
        with pytest.raises(MessageIllegal):
            await producer.request(Message("others", b"one"), queue=queue)

    with_replier(main)


def test_a_requester_can_answer_its_own_request() -> None:
    async def main(cluster):
        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:

            async def listen(messages):
                for message in messages:
                    if message.body != b"first":
                        await producer.reply_to(message, b"to myself")

            settings = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "listeners_inline": False}
            async with cluster.a_consumer(process, listen, {"asks": "*"}, **settings):
                await trio.sleep(5)
                reply = await producer.request(Message("asks", b"one"))
                assert reply.body == b"to myself"

    in_cluster(main, asks=1)


def test_without_a_known_route_heartbeats_are_sent_before_the_request() -> None:
    async def main(cluster, producer):
        started = len(cluster.brokers["a"].heartbeats)
        producer.start_request(a_message(), timeout_ms=50)
        await trio.sleep(0.01)
        ((sent_s, _, _),) = cluster.brokers["a"].sends
        beats = [at for at, _ in cluster.brokers["a"].heartbeats[started:]]
        assert len(beats) == 1
        assert beats[0] <= sent_s
        producer.start_request(a_message(), timeout_ms=50)
        assert len(cluster.brokers["a"].heartbeats) == started + 1

    producing(main, "a")


# No reply comes ----------------------------------------------------------------------------


def test_a_request_without_a_reply_ends_at_its_timeout_and_names_the_place_of_the_request() -> (
    None
):
    async def main(cluster, producer, replier):
        began_s = cluster.now_s()
        with pytest.raises(RequestUnanswered) as caught:
            await producer.request(Message("asks", b"one"), timeout_ms=700)
        assert cluster.now_s() - began_s == pytest.approx(0.7)
        error = caught.value
        assert error.code == ClientErrorCode.REQUEST_TIMEOUT == 10006
        assert error.maybe_stored
        assert error.queue == MessageQueue("asks", "broker-a", 0)
        (sent,) = [f for f in cluster.facts_of(MessageSent) if f.offset == error.queue_offset]
        assert "stored in queue 0 of broker-a at offset 1" in str(error)
        assert sent.topic == "asks"
        (given_up,) = cluster.facts_of(RequestGivenUp)
        assert (given_up.reason, given_up.stored, given_up.after_ms) == ("timeout", True, 700)
        # A slow replier: its reply comes later, and is dropped.
        await trio.sleep(5)
        (dropped,) = cluster.facts_of(ReplyDropped)
        assert (dropped.reason, dropped.correlation_id) == ("late", given_up.correlation_id)
        assert cluster.facts_of(ReplyPushed)
        assert replier.errors == []

    with_replier(main, slow_s=2.0)


def test_a_second_reply_is_dropped_with_its_reason() -> None:
    async def main(cluster, producer, replier):
        reply = await producer.request(Message("asks", b"one"))
        await trio.sleep(1)
        (dropped,) = cluster.facts_of(ReplyDropped)
        assert dropped.reason == "second"
        assert dropped.correlation_id == reply.properties[CORRELATION_ID]
        assert replier.errors == []

    with_replier(main, times=2)


def test_a_reply_that_nobody_requested_is_dropped() -> None:
    async def main(cluster, producer, replier):
        await producer.request(Message("asks", b"one"))
        forged = replier.requests[-1]
        forged.properties[CORRELATION_ID] = "never"
        await producer.reply_to(forged, b"unwanted")
        (dropped,) = cluster.facts_of(ReplyDropped)
        assert (dropped.reason, dropped.correlation_id) == ("unwanted", "never")

    with_replier(main)


def test_a_requester_that_has_gone_gets_no_reply_and_the_replier_an_error() -> None:
    async def main(cluster):
        replier = Replier(slow_s=2.0)
        async with replier.running(cluster):
            process = cluster.process("requester")
            async with process, cluster.a_producer(process, group="requesters") as producer:
                requesting = producer.start_request(Message("asks", b"one"))
                await trio.sleep(0.5)
            with pytest.raises(RequestUnanswered, match="closed before a reply came"):
                await requesting.wait_reply()
            await trio.sleep(5)
        (error,) = replier.errors
        assert isinstance(error, RequesterGone)
        assert (error.attempts, error.maybe_stored) == (3, True)
        assert "not found" in str(error)
        fact = cluster.facts_of(ReplyNotPushed)[0]
        assert (fact.reason, fact.stored) == ("no channel", True)

    in_cluster(main, asks=1)


def test_a_request_with_a_callback_times_out_at_the_next_sweep() -> None:
    async def main(cluster, producer):
        began_s = cluster.now_s()  # of the sweeps, three seconds before the first
        await producer.publish_queues("t")
        ended = []
        for timeout_ms in (100, 3_000, 3_001, 4_500):
            producer.start_request(
                a_message(),
                lambda result, ms=timeout_ms: ended.append((ms, cluster.now_s(), result)),
                timeout_ms=timeout_ms,
            )
        await trio.sleep(10)
        at_s = {ms: round(at - began_s, 3) for ms, at, _ in ended}
        assert at_s == {100: 3.0, 3_000: 4.0, 3_001: 4.0, 4_500: 5.0}
        assert all(isinstance(result, RequestUnanswered) for _, _, result in ended)

    producing(main, "a")


def test_a_request_whose_send_fails_ends_with_the_error_of_the_send() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].always = 1
        with pytest.raises(BrokerRefused):
            await producer.request(a_message(), timeout_ms=700)
        assert cluster.now_s() == 0.0
        results = []
        producer.start_request(a_message(), results.append)
        with pytest.raises(NoRoute):
            await producer.request(a_message(topic="unknown"))
        late = producer.start_request(a_message(topic="unknown"))
        with pytest.raises(NoRoute):
            await late.wait_reply()
        await trio.sleep(0.1)
        assert [type(result) for result in results] == [BrokerRefused]
        reasons = [fact.reason for fact in cluster.facts_of(RequestGivenUp)]
        assert reasons.count("not sent") == 3
        assert len(producer.instance.requests) == 0

    producing(main, "a")


def test_a_request_to_a_silent_broker_may_be_stored() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].always = SILENT
        with pytest.raises((RequestUnanswered, MaybeStored)) as caught:
            await producer.request(a_message(), timeout_ms=700)
        assert caught.value.maybe_stored
        assert cluster.now_s() == pytest.approx(0.7)

    producing(main, "a")


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        with trio.move_on_after(0.1):
            await producer.request(a_message())
        assert len(producer.instance.requests) == 0
        (fact,) = cluster.facts_of(RequestGivenUp)
        assert (fact.reason, fact.after_ms) == ("cancelled", 100)

    producing(main, "a")


def test_no_more_requests_wait_than_sends_may_be_in_flight() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        for _ in range(2):
            producer.start_request(a_message())
        await trio.sleep(0.1)  # the sends have ended, the requests wait
        with pytest.raises(TooManySends):
            producer.start_request(a_message())
        with pytest.raises(TooManySends):
            await producer.request(a_message())

    producing(main, "a", async_sends_max=2)


def test_a_callback_that_raises_is_noted_and_ends_nothing_else() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")

        def fail(result):
            raise RuntimeError("mine")

        requesting = producer.start_request(a_message(), fail, timeout_ms=100)
        await trio.sleep(5)
        assert isinstance(requesting.result, RequestUnanswered)
        (fact,) = cluster.facts_of(CallbackRaised)
        assert (fact.function, "mine" in fact.error) == ("callback", True)
        await producer.send(a_message())

    producing(main, "a")


# Misuse ------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [CLUSTER, REPLY_TO_CLIENT, CORRELATION_ID])
def test_a_message_that_is_no_request_cannot_be_replied_to(missing) -> None:
    async def main(cluster, producer, replier):
        await producer.request(Message("asks", b"one"))
        request = replier.requests[-1]
        del request.properties[missing]
        with pytest.raises(NotARequest, match=missing) as caught:
            await producer.reply_to(request, b"answer")
        assert caught.value.code == ClientErrorCode.CREATE_REPLY_MESSAGE == 10007

    with_replier(main)


def test_wrong_arguments_are_refused_by_the_call_and_wait_for_nothing() -> None:
    async def main(cluster, producer):
        with pytest.raises(BadArgument, match="the message is a Message"):
            await producer.request(b"text")
        with pytest.raises(BadArgument, match="timeout_ms"):
            await producer.request(a_message(), timeout_ms="1")
        with pytest.raises(BadArgument, match="callback"):
            producer.start_request(a_message(), 5)
        with pytest.raises(MessageIllegal):
            await producer.request(Message("t", b""))
        with pytest.raises(BadArgument, match="a consumed MessageExt"):
            await producer.reply_to(a_message(), b"answer")
        await producer.publish_queues("t")
        with pytest.raises(MessageIllegal):
            producer.start_request(Message("t", b""))
        assert len(producer.instance.requests) == 0

    producing(main, "a")


# The table ---------------------------------------------------------------------------------


def test_the_table_remembers_a_bounded_number_of_ended_requests() -> None:
    table = RequestFutureTable(discard_fact)
    for number in range(ENDED_MAX + 5):
        table.add(str(number), discard_fact)
        table.end(str(number), "timeout")
    assert len(table._ended) == ENDED_MAX
    assert len(table) == 0


def test_a_sweep_is_once_a_second_and_an_end_at_a_sweep_waits_for_the_next() -> None:
    table = RequestFutureTable(discard_fact)
    table.start_sweeps(10.0)
    table.start_sweeps(11.0)
    assert [table.sweep_after(due) for due in (9.0, 12.9, 13.0, 13.2, 14.0)] == [
        *(13.0, 13.0, 14.0, 14.0, 15.0)
    ]
