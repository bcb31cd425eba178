"""Requests of brokers and operators to a running consumer, over its own connection."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rocketmq_emulator.protocol.bodies.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.requests.groups import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
)
from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest
from rocketmq_emulator.settings.releases import R_4_9_7
from tests.support.client.pulled_broker import a_queue, in_group


async def invoke_client(broker, code, request, body=b""):
    """Invoke the only client; return its reply."""
    replies = []
    answered = trio.Event()

    def on_done(reply) -> None:
        replies.append(reply)
        answered.set()

    (connection,) = broker.server.connections.values()
    connection.invoke(code, request, body, trio.current_time() + 10, on_done)
    await answered.wait()
    return replies[0]


def invoked(code, request, *, body=None, listener=lambda messages: None, group="cg", **settings):
    """Consume three messages, then invoke the consumer; return its client id and the reply."""

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(3)
        record = broker.queues["T", 0][1] if body is None else body
        process = cluster.process()
        async with process, cluster.a_consumer(process, listener, **settings) as consumer:
            await trio.sleep(1)
            reply = await invoke_client(broker, code, request, record)
            return consumer.instance.client_id, reply

    return in_group(main)


def test_consumer_status_has_the_offsets_of_the_topic() -> None:
    _, reply = invoked(
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        GetConsumerStatusRequest(topic="T", group="cg"),
    )
    table = decode_body(reply.body, GetConsumerStatusBody).message_queue_table
    assert table == {a_queue(): 3}


def running_info(**settings):
    _, reply = invoked(
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        GetConsumerRunningInfoRequest(consumer_group="cg", client_id="any"),
        **settings,
    )
    return decode_body(reply.body, ConsumerRunningInfo)


def test_running_info_has_the_subscriptions_and_the_process_queues() -> None:
    info = running_info()
    held = info.mq_table[a_queue()]
    assert (held.commit_offset, held.cached_msg_count, held.droped) == (3, 0, False)
    assert held.locked  # as in a Java client since 4.9.5, which locks it needlessly
    assert {subscription.topic for subscription in info.subscription_set} == {"T", "%RETRY%cg"}


def test_running_info_has_the_settings_by_the_names_of_a_java_client() -> None:
    shown = running_info(reconsume_times_max=7, topic_messages_max=100).properties
    assert shown["PROP_NAMESERVER_ADDR"].endswith(":9876;")
    assert shown["PROP_CONSUMEORDERLY"] == "false"
    assert shown["PROP_CLIENT_VERSION"] == "V4_9_7"
    assert shown["consumerGroup"] == "cg"
    assert shown["messageModel"] == "CLUSTERING"
    assert (shown["maxReconsumeTimes"], shown["consumeTimeout"]) == ("7", "15")
    assert (shown["pullThresholdForTopic"], shown["pullThresholdSizeForTopic"]) == ("100", "-1")
    assert (shown["unitMode"], shown["consumeTimestamp"][:2]) == ("false", "20")
    assert "pollNameServerInterval" not in shown


def test_since_5_1_running_info_has_the_settings_of_every_client_too() -> None:
    shown = running_info(release="5.3.3").properties
    assert shown["pollNameServerInterval"] == "30000"
    assert shown["pullBatchSizeInBytes"] == "262144"
    assert "pollNameServerInterval" not in running_info(release="5.0.0").properties


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, "CR_SUCCESS"),
        (ConsumeResult.RECONSUME_LATER, "CR_LATER"),
        (ValueError("no"), "CR_THROW_EXCEPTION"),
    ],
)
@pytest.mark.parametrize("orderly", [False, True])
def test_consume_directly_answers_with_the_listeners_outcome(answer, result, orderly) -> None:
    calls = []

    async def listen(messages):
        calls.append(messages[0].queue_offset)
        if len(calls) <= 3:
            return None
        await trio.sleep(2)
        if isinstance(answer, Exception):
            raise answer
        return answer

    _, reply = invoked(
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        ConsumeMessageDirectlyRequest(consumer_group="cg", broker_name="broker-a"),
        listener=listen,
        orderly=orderly,
    )
    answer_body = decode_body(reply.body, ConsumeMessageDirectlyResult)
    assert (answer_body.consume_result, answer_body.order, answer_body.spent_time_mills) == (
        result,
        orderly,
        2_000,
    )
    assert calls == [0, 1, 2, 1]


def test_a_body_that_is_no_message_is_refused() -> None:
    _, reply = invoked(
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        ConsumeMessageDirectlyRequest(consumer_group="cg"),
        body=b"nonsense",
    )
    assert (reply.code, reply.remark) == (1, "the body is no message")


def test_a_request_for_an_unknown_group_is_refused() -> None:
    _, reply = invoked(
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        GetConsumerRunningInfoRequest(consumer_group="another", client_id="any"),
    )
    assert reply.code == 1
    assert "another" in reply.remark


def test_a_reset_sets_offsets_after_a_pause_of_ten_seconds() -> None:
    consumed = []

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(5)

        def listen(messages) -> None:
            consumed.extend((round(cluster.now_s(), 3), m.queue_offset) for m in messages)

        process = cluster.process()
        async with process, cluster.a_consumer(process, listen):
            await trio.sleep(2)
            (connection,) = broker.server.connections.values()
            body = encode_body(ResetOffsetBody(offset_table={a_queue(): 3}), R_4_9_7)
            request = ResetOffsetRequest(topic="T", group="cg", timestamp=0)
            connection.send_oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, request, body)
            await trio.sleep(20)
        return broker

    broker = in_group(main)
    assert consumed == [*((0.0, n) for n in range(5)), (12.0, 3), (12.0, 4)]
    assert broker.offsets["T", 0] == 5
