"""SYNC_FLUSH: a send is answered when its message is flushed, or the flush fails."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import FlushFailed, LogFlushed
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.requests.offsets import UpdateConsumerOffsetRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageReply
from tests.support.broker.bench import Bench, Client
from tests.support.broker.store_makers import SlowDisk

ERROR = OSError(5, "Input/output error")


class Rig:
    """A broker and a client; a flush ends when a test calls ``disk.finish``."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("flush_disk_type", "SYNC_FLUSH")
        self.disk = SlowDisk()
        self.bench = Bench(self.disk, store="somewhere", **settings)
        self.client = self.bench.client()
        self.client.heartbeat("consumer", topics={"t": "*"})

    def send(self, properties: str = "", client: Client | None = None, **fields: object) -> int:
        """Send a message; returns its opaque, because the answer may come later."""
        client = client or self.client
        client.post("t", properties=properties, **fields)
        return client.last_opaque

    def code(self, opaque: int) -> int | None:
        answer = self.client.answer_to(opaque)
        return None if answer is None else answer.code


@pytest.fixture
async def rig(nursery: trio.Nursery) -> Rig:
    found = Rig()
    found.bench.start(nursery)
    return found


async def test_a_send_is_answered_when_it_is_flushed_with_all_who_waited(rig: Rig) -> None:
    sent = [rig.send() for _ in range(3)]
    assert [rig.code(opaque) for opaque in sent] == [None] * 3
    rig.disk.finish()
    assert [rig.code(opaque) for opaque in sent] == [0, 0, 0]
    assert [fact.message_count for fact in rig.bench.facts(LogFlushed)] == [3]
    answer = rig.client.answer_to(sent[2])
    assert answer is not None
    assert answer.decode(SendMessageReply).queue_offset == 2


async def test_the_replies_of_one_flush_leave_in_one_write(rig: Rig) -> None:
    for _ in range(10):
        rig.send()
    before = rig.client.writes
    rig.disk.finish()
    assert rig.client.writes == before + 1


async def test_who_does_not_want_to_wait_does_not_but_is_flushed_all_the_same(rig: Rig) -> None:
    assert rig.code(rig.send("WAIT\x01false")) == 0
    assert rig.code(rig.send("WAIT\x01nonsense")) == 0
    assert rig.code(rig.send("WAIT\x01TRUE")) is None
    assert len(rig.disk.asked) == 3


async def test_a_flush_that_takes_too_long_is_code_10_with_the_place_of_the_message(
    rig: Rig,
) -> None:
    opaque = rig.send()
    await trio.sleep(4.9)
    assert rig.code(opaque) is None
    await trio.sleep(0.2)
    answer = rig.client.answer_to(opaque)
    assert answer is not None
    assert (answer.code, answer.remark) == (ResponseCode.FLUSH_DISK_TIMEOUT, None)
    reply = answer.decode(SendMessageReply)
    assert (reply.queue_offset, len(reply.msg_id)) == (0, 32)
    heard = len(rig.client.heard)
    rig.disk.finish()
    assert len(rig.client.heard) == heard
    assert len(rig.client.pulled("t")) == 1


async def test_a_flush_that_fails_is_code_10_at_once_and_the_next_may_succeed(rig: Rig) -> None:
    first = rig.send()
    rig.disk.finish(ERROR)
    assert rig.code(first) == ResponseCode.FLUSH_DISK_TIMEOUT
    second = rig.send()
    rig.disk.finish(ERROR)
    assert rig.code(second) == ResponseCode.FLUSH_DISK_TIMEOUT
    assert len(rig.bench.facts(FlushFailed)) == 1
    third = rig.send()
    rig.disk.finish()
    assert rig.code(third) == 0


async def test_after_a_failure_the_broker_flushes_again_by_itself(rig: Rig) -> None:
    rig.send()
    rig.disk.finish(ERROR)
    assert rig.disk.asked == []
    await trio.sleep(0.6)
    assert len(rig.disk.asked) == 1


async def test_a_consumer_need_not_wait_for_the_flush(rig: Rig) -> None:
    rig.send()
    assert len(rig.client.pulled("t")) == 1


async def test_a_batch_waits_for_its_last_message(rig: Rig) -> None:
    body = encode_batch([BatchMessage(body=body) for body in (b"one", b"two")])
    rig.client.post("t", body, batch=True)
    opaque = rig.client.last_opaque
    assert rig.code(opaque) is None
    rig.disk.finish()
    assert rig.code(opaque) == 0
    assert [fact.message_count for fact in rig.bench.facts(LogFlushed)] == [2]


async def test_a_delayed_message_waits_for_its_flush_and_its_delivery_for_nobody(
    rig: Rig,
) -> None:
    opaque = rig.send("DELAY\x011")
    assert rig.code(opaque) is None
    rig.disk.finish()
    assert rig.code(opaque) == 0
    await trio.sleep(1.5)
    assert len(rig.client.pulled("t")) == 1
    assert len(rig.disk.asked) == 1


async def test_an_asynchronous_broker_answers_at_once_and_flushes_when_it_is_time(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    rig = Rig(flush_disk_type="ASYNC_FLUSH")
    rig.bench.start(nursery)
    assert rig.code(rig.send()) == 0
    await trio.sleep(9)
    assert rig.disk.asked == []
    await trio.sleep(1.5)
    assert len(rig.disk.asked) == 1
    rig.disk.finish()
    await trio.sleep(20)
    assert rig.disk.asked == []
    for _ in range(5):
        rig.client.send_message("t", b"x" * 4096)
    await trio.sleep(0.6)
    assert len(rig.disk.asked) == 1


async def test_what_was_not_flushed_is_flushed_when_the_broker_stops(rig: Rig) -> None:
    rig.send("WAIT\x01false")
    rig.disk.finish()
    rig.send("WAIT\x01false")
    rig.disk.asked.clear()
    rig.bench.broker.close(rig.bench.now_ms())
    assert len(rig.disk.asked) == 1


async def test_a_turn_that_stores_many_messages_asks_for_one_flush(rig: Rig) -> None:
    with rig.bench.server.batch():
        sent = [rig.send() for _ in range(5)]
        assert rig.disk.asked == []
    assert len(rig.disk.asked) == 1
    rig.disk.finish()
    assert [rig.code(opaque) for opaque in sent] == [0] * 5


@pytest.mark.parametrize(
    ("settings", "flushed"),
    [
        ({"flush_disk_type": "ASYNC_FLUSH", "durable_offsets": True}, set()),
        ({}, {"topics.json", "subscriptionGroup.json"}),
        (
            {"durable_offsets": True},
            {"topics.json", "subscriptionGroup.json", "consumerOffset.json"},
        ),
    ],
)
async def test_a_topic_whose_messages_survive_survives_with_them(
    settings: dict[str, object], flushed: set[str], autojump_clock: MockClock
) -> None:
    rig = Rig(**settings)
    rig.send()
    rig.client.ask(
        catalog.UPDATE_CONSUMER_OFFSET,
        UpdateConsumerOffsetRequest(consumer_group="g", topic="t", queue_id=0, commit_offset=1),
    )
    assert rig.disk.flushed_documents == flushed
