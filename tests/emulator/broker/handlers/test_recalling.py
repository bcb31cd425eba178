"""RECALL_MESSAGE: when it is allowed; a recalled message is never delivered.

These tests cover what depends on the configuration.  Refusals of real brokers are compared in
``tests/emulator/broker/store/test_timer_messages_recorded.py``.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import TimerMessageRecalled
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.message_ids import decode_handle
from rocketmq_emulator.protocol.messages.properties import TIMER_DELAY_MS
from rocketmq_emulator.protocol.requests.sending import (
    RecallMessageReply,
    RecallMessageRequest,
    SendMessageReply,
)
from tests.support.broker.bench import Bench, Client
from tests.support.broker.store_makers import LAST_4, LAST_5, SlowDisk

IN_TWO_SECONDS = f"{TIMER_DELAY_MS}\x012000\x02UNIQ_KEY\x01K1"
ALLOWED: dict[str, Any] = {"release": LAST_5, "recall_message": True}


def recall(client: Client, handle: str | None, topic: str = "t") -> RemotingCommand | None:
    return client.ask(catalog.RECALL_MESSAGE, RecallMessageRequest(topic, handle))


async def test_a_message_is_recalled_by_the_handle_of_its_send(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(**ALLOWED)
    bench.start(nursery)
    client = bench.client()
    client.heartbeat("consumer", topics={"t": "*"})
    handle = client.sent("t", properties=IN_TWO_SECONDS).recall_handle
    client.sent("t", b"kept", properties=IN_TWO_SECONDS.replace("K1", "K2"))
    assert handle is not None
    assert decode_handle(handle)[:2] == ("t", "broker-a")
    answer = recall(client, handle)
    assert answer is not None
    assert (answer.code, answer.decode(RecallMessageReply).msg_id) == (0, "K1")
    await trio.sleep(10)
    assert [message.body for message in client.pulled("t")] == [b"kept"]
    assert [fact.uniq_key for fact in bench.facts(TimerMessageRecalled)] == ["K1"]
    late = recall(client, handle)
    assert late is not None
    assert (late.code, late.remark) == (604, "recall failed, timestamp invalid")


@pytest.mark.parametrize(
    ("settings", "code", "remark"),
    [
        ({"recall_message": False}, 16, "recall failed, operation is forbidden"),
        ({"perm": 4, "recall_when_not_writeable": False}, 14, "broker service not available"),
        ({"timer_wheel": False}, 1, "recall failed, execute error"),
        ({"release": "5.3.1"}, 3, "not supported"),
    ],
)
async def test_a_broker_that_does_not_allow_recalls_refuses_them(
    settings: dict[str, Any], code: int, remark: str, autojump_clock: MockClock
) -> None:
    allowing = Bench(**ALLOWED)
    handle = allowing.client().sent("t", properties=IN_TWO_SECONDS).recall_handle
    bench = Bench(**{**ALLOWED, **settings})
    client = bench.client()
    client.sent("t")
    answer = recall(client, handle)
    assert answer is not None
    assert answer.code == code
    assert remark in (answer.remark or "")


@pytest.mark.parametrize("release", [LAST_4, "5.3.1"])
async def test_before_5_3_2_a_send_gives_no_handle(
    release: str, autojump_clock: MockClock
) -> None:
    assert (
        Bench(release=release).client().sent("t", properties=IN_TWO_SECONDS).recall_handle is None
    )


async def test_where_the_wheel_is_off_a_timer_message_is_refused_and_its_topic_missing(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(release=LAST_5, timer_wheel=False)
    answer = bench.client().send_message("t", properties=IN_TWO_SECONDS)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "accurate timer message is not enabled, timerWheelEnable is false"
    assert bench.broker.topics.get("rmq_sys_wheel_timer") is None


async def test_a_congested_slot_answers_a_system_error(autojump_clock: MockClock) -> None:
    bench = Bench(release=LAST_5, timer_slot_messages_max=1)
    client = bench.client()
    codes = [client.send_message("t", properties=IN_TWO_SECONDS).code for _ in range(9)]
    assert codes[:2] == [0, 0]
    assert codes[2:] == [ResponseCode.SYSTEM_ERROR] * 7


async def test_with_synchronous_flushes_sends_and_recalls_are_answered_when_they_are_safe(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk = SlowDisk()
    bench = Bench(disk, store="somewhere", flush_disk_type="SYNC_FLUSH", **ALLOWED)
    bench.start(nursery)
    client = bench.client()
    assert client.post("t", properties=IN_TWO_SECONDS) is None
    disk.finish()
    sent = client.answer_to(client.last_opaque)
    assert sent is not None
    handle = sent.decode(SendMessageReply).recall_handle
    assert recall(client, handle) is None
    disk.finish()
    answer = client.answer_to(client.last_opaque)
    assert answer is not None
    assert answer.code == 0


async def test_with_synchronous_flushes_progress_is_saved_after_what_was_delivered_is_safe(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk = SlowDisk()
    bench = Bench(disk, store="somewhere", flush_disk_type="SYNC_FLUSH", **ALLOWED)
    bench.start(nursery)
    client = bench.client()
    client.heartbeat("consumer", topics={"t": "*"})
    client.post("t", properties=IN_TWO_SECONDS)
    disk.finish()
    await trio.sleep(8)
    assert len(client.pulled("t")) == 1
    assert disk.read("timercheck") is None
    disk.finish()
    await trio.sleep(2)
    assert disk.read("timercheck") is not None


async def test_a_held_pull_wakes_when_a_timer_message_comes(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(release=LAST_5)
    bench.start(nursery)
    client = bench.client()
    client.heartbeat("consumer", topics={"t": "*"})
    client.sent("t", properties=IN_TWO_SECONDS)
    assert client.pull("t") is None
    opaque = client.last_opaque
    await trio.sleep(1.99)
    assert client.answer_to(opaque) is None
    await trio.sleep(2)
    answer = client.answer_to(opaque)
    assert answer is not None
    assert answer.code == 0
    bench.no_bugs()
