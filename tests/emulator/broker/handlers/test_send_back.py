"""CONSUMER_SEND_MSG_BACK: the delay, the retry topic, the dead letter queue."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import MessageSentBack
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.sending import ConsumerSendMsgBackRequest
from tests.support.broker.bench import Bench, Client

RETRIES = {"%RETRY%g": "*", "Orders": "*", "%DLQ%g": "*"}


def give_back(client: Client, position: int, level: int = 0, **fields: int) -> int:
    header = ConsumerSendMsgBackRequest(
        offset=position, group="g", delay_level=level, origin_topic="Orders", **fields
    )
    return client.must(catalog.CONSUMER_SEND_MSG_BACK, header).code


def a_message(client: Client) -> tuple[int, str]:
    msg_id = client.sent("Orders", b"hello", properties="UNIQ_KEY\x01K1\x02TAGS\x01A").msg_id
    client.heartbeat("c", topics=RETRIES)
    return int(msg_id[-16:], 16), msg_id


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_invariant_36_a_message_given_back_comes_again_after_its_delay(
    release: str, autojump_clock: MockClock
) -> None:
    bench = Bench(release=release)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = bench.client()
        position, msg_id = a_message(client)
        waits = [10, 30, 60]  # levels 3, 4, 5
        for times, wait_s in enumerate(waits, 1):
            assert give_back(client, position) == 0
            await trio.sleep(wait_s - 0.5)
            assert client.pulled("%RETRY%g", times - 1) == []
            await trio.sleep(0.7)
            [again] = client.pulled("%RETRY%g", times - 1)
            properties = again.property_map()
            assert again.reconsume_times == times
            assert again.body == b"hello"
            assert properties["RETRY_TOPIC"] == "Orders"
            assert properties["ORIGIN_MESSAGE_ID"] == msg_id
            assert properties["UNIQ_KEY"] == "K1"
            position = again.position
        bench.no_bugs()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("level", [1, 4])
async def test_a_level_that_is_asked_for_is_used_as_it_is(
    level: int, autojump_clock: MockClock
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = bench.client()
        position, _ = a_message(client)
        give_back(client, position, level)
        wait_s = {1: 1, 4: 30}[level]
        await trio.sleep(wait_s - 0.1)
        assert client.pulled("%RETRY%g") == []
        await trio.sleep(0.3)
        assert len(client.pulled("%RETRY%g")) == 1
        nursery.cancel_scope.cancel()


async def test_invariant_37_a_negative_level_goes_to_the_dead_letters_at_once() -> None:
    bench = Bench()
    client = bench.client()
    position, _ = a_message(client)
    assert give_back(client, position, -1) == 0
    [dead] = client.pulled("%DLQ%g")
    assert dead.body == b"hello"
    assert [f.target_topic for f in bench.facts(MessageSentBack)] == ["%DLQ%g"]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize(("times", "dead"), [(15, []), (16, [(b"tired", 0, 1)])])
async def test_invariant_37_after_sixteen_times_it_goes_to_the_dead_letters_at_once(
    release: str, times: int, dead: list[tuple[bytes, int, int]], autojump_clock: MockClock
) -> None:
    bench = Bench(release=release)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = bench.client()
        client.sent("%RETRY%g", b"tired", reconsume_times=times, max_reconsume_times=99)
        client.heartbeat("c", topics=RETRIES)
        [tired] = client.pulled("%RETRY%g")
        assert give_back(client, tired.position, 0) == 0
        found = client.pulled("%DLQ%g") if bench.broker.topics.get("%DLQ%g") else []
        assert [(m.body, m.queue_id, len(found)) for m in found] == dead
        await trio.sleep(3 * 3_600)  # longer than all delays: after 15 retries one more comes
        later = bench.client()  # the first client was silent and expired
        later.heartbeat("c", topics=RETRIES)
        again = [m.reconsume_times for m in later.pulled("%RETRY%g", 1)]
        assert again == ([] if dead else [16])
        nursery.cancel_scope.cancel()


async def test_a_client_may_give_up_earlier_than_its_group() -> None:
    bench = Bench()
    client = bench.client()
    client.sent("%RETRY%g", b"tired", reconsume_times=2)
    client.heartbeat("c", topics=RETRIES)
    [tired] = client.pulled("%RETRY%g")
    assert give_back(client, tired.position, 0, max_reconsume_times=2) == 0
    assert len(client.pulled("%DLQ%g")) == 1


@pytest.mark.parametrize("position", [1, 10**9, -5])
async def test_a_position_where_no_message_begins_is_refused(position: int) -> None:
    bench = Bench()
    client = bench.client()
    a_message(client)
    assert give_back(client, position) == ResponseCode.SYSTEM_ERROR
    bench.no_bugs()


async def test_a_count_of_failures_that_is_full_begins_again_as_java_s_does() -> None:
    bench = Bench()
    client = bench.client()
    client.sent("Orders", reconsume_times=2**31 - 1)
    client.heartbeat("c", topics=RETRIES)
    [message] = client.pulled("Orders")
    assert give_back(client, message.position) == 0
    assert [dead.reconsume_times for dead in client.pulled("%DLQ%g")] == [-(2**31)]
    bench.no_bugs()


async def test_what_could_not_be_stored_was_not_given_back() -> None:
    bench = Bench()
    client = bench.client()
    long = "UNIQ_KEY\x01K1\x02long\x01" + "x" * 32_680
    client.sent("Orders", b"hello", properties=long)
    client.heartbeat("c", topics=RETRIES)
    [message] = client.pulled("Orders")
    assert give_back(client, message.position) == ResponseCode.SYSTEM_ERROR
    assert bench.facts(MessageSentBack) == []
    bench.no_bugs()


async def test_a_group_nobody_may_make_is_refused() -> None:
    bench = Bench(auto_create_group=False)
    client = bench.client()
    position, _ = a_message(client)
    assert give_back(client, position) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_invariants_34_and_35_a_delayed_send_appears_when_its_level_says(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = bench.client()
        client.sent("Orders", b"first")
        client.heartbeat("c", topics=RETRIES)
        await trio.sleep(3)
        reply = client.sent("Orders", b"later", queue_id=0, properties="DELAY\x011\x02A\x01b")
        assert reply.queue_id == 0
        assert client.pull("Orders", 1) is None
        held = client.last_opaque
        await trio.sleep(0.99)
        assert client.answer_to(held) is None
        await trio.sleep(0.21)
        assert client.answer_to(held) is not None, "a delivery wakes a held pull"
        [message] = client.pulled("Orders", 1)
        properties = message.property_map()
        assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("Orders", "0")
        # The text of the invariant omits DELAY; a real broker's records have it.
        assert properties["DELAY"] == "1"
        assert message.position != int(reply.msg_id[-16:], 16)
        nursery.cancel_scope.cancel()
