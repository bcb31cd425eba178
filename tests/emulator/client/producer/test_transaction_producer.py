"""The public class: its settings, its listener's kinds, its block."""

from __future__ import annotations

import pytest

from rocketmq_emulator.client.instance.plain_functions import InlineWithDuration
from rocketmq_emulator.client.producer.transaction_producer import TransactionProducer
from rocketmq_emulator.client.producer.transactions import LocalTransactionState
from rocketmq_emulator.errors.call_errors import (
    BadArgument,
    ClientMisuse,
    GroupTaken,
    NotRunning,
)
from tests.support.client.client_cluster import a_message, in_world

COMMIT = LocalTransactionState.COMMIT_MESSAGE


class PlainListener:
    def execute_local_transaction(self, message, argument):
        return COMMIT

    def check_local_transaction(self, message):
        return COMMIT


def with_listener(steps, listener=None, **settings):
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        plain = cluster.process()
        plain.plain_functions = InlineWithDuration()
        async with plain as process:
            given = {"group": "pg", "namesrv": cluster.namesrv.address, **settings}
            await steps(
                cluster,
                TransactionProducer(listener or PlainListener(), process=process, **given),
            )

    in_world(main)


def test_a_plain_listener_of_the_virtual_world_takes_its_declared_time() -> None:
    async def main(cluster, producer):
        async with producer:
            result = await producer.send_in_transaction(a_message())
            assert result.local_transaction_state is COMMIT
            assert cluster.now_s() == pytest.approx(0.25)

    with_listener(main, listener_ms=250)


def test_a_plain_listener_needs_a_duration_in_the_virtual_world() -> None:
    async def main(cluster, producer):
        with pytest.raises(ClientMisuse, match="listener_ms"):
            await producer.__aenter__()
        assert not cluster.brokers["a"].heartbeats

    with_listener(main)


def test_a_plain_listener_can_run_on_the_event_loop() -> None:
    async def main(cluster, producer):
        async with producer:
            await producer.send_in_transaction(a_message())
            assert cluster.now_s() == 0

    with_listener(main, listeners_inline=True)


def test_it_sends_in_every_form_of_a_producer() -> None:
    async def main(cluster, producer):
        async with producer:
            await producer.send(a_message())
            await producer.start_send(a_message()).wait_sent()
            await producer.send_batch([a_message(), a_message()])
        assert not cluster.brokers["a"].ends

    with_listener(main, listeners_inline=True)


def test_it_is_used_inside_its_block_only() -> None:
    async def main(cluster, producer):
        for _ in range(2):
            with pytest.raises(NotRunning):
                await producer.send_in_transaction(a_message())
            async with producer:
                await producer.send_in_transaction(a_message())

    with_listener(main, listeners_inline=True)


def test_a_group_that_is_taken_is_refused_and_leaves_no_worker() -> None:
    async def main(cluster, producer):
        same = {"instance_name": "one", "listeners_inline": True, "group": "pg"}
        settings = {"namesrv": cluster.namesrv.address, "process": producer._process, **same}
        async with TransactionProducer(PlainListener(), **settings) as first:
            with pytest.raises(GroupTaken):
                async with TransactionProducer(PlainListener(), **settings):
                    pass
            await first.send_in_transaction(a_message())

    with_listener(main)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"check_requests_max": 0}, "check_requests_max is at least 1"),
        ({"check_threads_max": 1_001}, "check_threads_max"),
        ({"checkRequestHoldMax": 5}, "check_requests_max"),
        ({"group": ""}, "group"),
    ],
)
def test_a_wrong_setting_is_refused_where_it_is_made(settings, words) -> None:
    with pytest.raises(ClientMisuse) as caught:
        TransactionProducer(PlainListener(), **{"group": "pg", **settings})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda producer: producer.send_in_transaction("x"), "the message is a Message"),
        (
            lambda producer: producer.send_in_transaction(a_message(), timeout_ms="3"),
            "timeout_ms is an int or None",
        ),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(call, words) -> None:
    async def main(cluster, producer):
        async with producer:
            with pytest.raises(BadArgument, match=words):
                await call(producer)
        assert not cluster.brokers["a"].sends

    with_listener(main, listeners_inline=True)
