"""The rates of pulls and consumption that a consumer reports, sampled as by a Java client."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.client.consumer.group.member import ConsumerStats
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.running import ConsumerRunningInfo, ConsumeStatus
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.requests.groups import GetConsumerRunningInfoRequest
from tests.emulator.client.consumer.group.test_broker_requests import invoke_client
from tests.support.client.pulled_broker import in_group

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SEEN_S = 30  # sampling of a topic begins in the ten seconds of its first pull


def test_rates_are_of_the_samples_of_the_last_minute() -> None:
    figures = ConsumerStats(began_ms=0)
    figures.pulled("T", 30, took_ms=5, now_ms=1_000)
    figures.pulled("T", 10, took_ms=15, now_ms=2_000)
    assert figures.status("T", 9_999) == ConsumeStatus()  # nothing is sampled yet
    found = figures.status("T", 10_000)
    assert (found.pull_tps, found.pull_rt) == (4.0, 10.0)
    assert figures.status("T", MINUTE_MS).pull_tps == pytest.approx(40 / 60)
    assert figures.status("T", MINUTE_MS + 10_000).pull_tps == 0


def test_consumed_and_failed_messages_are_counted_apart() -> None:
    figures = ConsumerStats(began_ms=0)
    figures.consumed("T", 1, 40, 5_000, ok=8, failed=2)
    figures.consumed("T", 1, 20, 5_000, ok=0, failed=1)
    found = figures.status("T", 10_000)
    assert (found.consume_ok_tps, found.consume_failed_tps, found.consume_rt) == (0.8, 0.3, 30.0)
    assert found.consume_failed_msgs == 0  # they are sampled every ten minutes
    assert figures.status("T", HOUR_MS).consume_failed_msgs == 3


def test_where_a_minute_has_no_calls_their_time_is_that_of_the_hour() -> None:
    figures = ConsumerStats(began_ms=0)
    figures.consumed("T", 1, 40, 5_000, ok=1, failed=0)
    found = figures.status("T", HOUR_MS)
    assert (found.consume_rt, found.consume_ok_tps) == (40.0, 0.0)


def test_topics_are_counted_each_for_itself() -> None:
    figures = ConsumerStats(began_ms=0)
    figures.pulled("T", 10, took_ms=0, now_ms=0)
    assert figures.status("U", 10_000) == ConsumeStatus()


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    figures = ConsumerStats(began_ms=0)
    figures.pulled("T", 10, took_ms=0, now_ms=15_000)
    figures.pulled("T", 10, took_ms=0, now_ms=5_000)
    assert figures.status("T", 20_000).pull_tps == 2.0


def reported(listen, count, **settings):
    """The status of the topic after a minute in whose middle *count* messages were stored."""

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        process = cluster.process()
        async with process, cluster.a_consumer(process, listen, **settings):
            await trio.sleep(31)
            broker.store(count)
            await trio.sleep(31)
            request = GetConsumerRunningInfoRequest(consumer_group="cg", client_id="any")
            code = RequestCode.GET_CONSUMER_RUNNING_INFO
            reply = await invoke_client(broker, code, request)
            return decode_body(reply.body, ConsumerRunningInfo).status_table

    return in_group(main)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_member_reports_what_it_pulled_and_consumed_of_each_topic(orderly) -> None:
    async def listen(_messages):
        await trio.sleep(0.020)

    table = reported(listen, 12, orderly=orderly)
    assert table.keys() == {"T", "%RETRY%cg"}
    found = table["T"]
    assert found.consume_ok_tps == pytest.approx(12 / SEEN_S)
    assert found.pull_tps == pytest.approx(12 / SEEN_S)
    assert found.consume_rt == pytest.approx(20)
    assert (found.consume_failed_tps, table["%RETRY%cg"]) == (0, ConsumeStatus())


@pytest.mark.parametrize("orderly", [False, True])
def test_what_a_member_could_not_consume_is_reported_as_failed(orderly) -> None:
    answers = [ConsumeResult.RECONSUME_LATER] * 3

    def listen(_messages):
        return answers.pop() if answers else ConsumeResult.SUCCESS

    found = reported(listen, 6, orderly=orderly)["T"]
    assert found.consume_failed_tps == pytest.approx(3 / SEEN_S)
    assert found.consume_ok_tps == pytest.approx((6 if orderly else 3) / SEEN_S)
