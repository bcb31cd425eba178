"""When a SYNC_MASTER answers puts, and with which code: reference, R11 to R13."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.requests.sending import SendMessageReply
from tests.emulator.broker.handlers.test_replies import answer_pushes, replied
from tests.support.broker.bench import Bench, Client
from tests.support.broker.slave_benches import TOPIC, SlaveStream
from tests.support.broker.store_makers import LAST_4, LAST_5, SlowDisk
from tests.support.broker.transacting import MARKS, end_of

SUCCESS, FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT = 0, 10, 11, 12
PAIR = {LAST_4: {}, LAST_5: {"in_sync_replicas": 2}}  # settings with which a slave must have a put
FLUSHED = {"flush_disk_type": "SYNC_FLUSH", "store": "a folder"}
BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])


def a_sync_master(release: str, **settings: Any) -> Bench:
    return Bench(release=release, broker_role="SYNC_MASTER", **settings)


def is_stored(bench: Bench, count: int = 1) -> bool:
    return bench.broker.store.max_offset(TOPIC, 0) == count


def answer_of(client: Client) -> RemotingCommand | None:
    return client.answer_to(client.last_opaque)


def code_of(client: Client) -> int | None:
    """The code of the last answer; None while it is held."""
    answer = answer_of(client)
    return None if answer is None else answer.code


@pytest.mark.parametrize(
    ("release", "settings", "code"),
    [
        (LAST_4, {}, SLAVE_NOT_AVAILABLE),
        ("4.9.8", {}, SLAVE_NOT_AVAILABLE),
        ("5.0.0", {}, SUCCESS),
        (LAST_5, {}, SUCCESS),
    ],
)
async def test_r11_r13_without_a_slave_a_put_is_stored_and_answered_at_once(
    release: str, settings: dict[str, Any], code: int
) -> None:
    bench = a_sync_master(release, **settings)
    client = bench.client()
    answer = client.send_message(TOPIC)
    assert answer.code == code
    assert answer.decode(SendMessageReply).queue_offset == 0, "the header is as of a success"
    assert is_stored(bench)
    assert client.send_message(TOPIC, properties="WAIT\x01false").code == SUCCESS


@pytest.mark.parametrize(
    ("release", "connected"), [(LAST_4, True), (LAST_5, False), (LAST_5, True)]
)
async def test_r11_r13_a_put_that_no_slave_acknowledges_is_answered_12_after_3_s(
    release: str, connected: bool, autojump_clock: MockClock
) -> None:
    bench = a_sync_master(release, **PAIR[release])
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        if connected:
            SlaveStream(bench).report(0)
        client = bench.client()
        assert client.post(TOPIC) is None
        assert is_stored(bench)
        await trio.sleep(2.99)
        assert code_of(client) is None
        await trio.sleep(0.02)
        answer = answer_of(client)
        assert answer is not None
        assert answer.code == FLUSH_SLAVE_TIMEOUT
        assert answer.decode(SendMessageReply).queue_offset == 0
        nursery.cancel_scope.cancel()
    bench.no_bugs()


@BOTH
async def test_r11_a_put_without_wait_is_answered_at_once(release: str) -> None:
    bench = a_sync_master(release, **PAIR[release])
    SlaveStream(bench).report(0)
    client = bench.client()
    assert client.send_message(TOPIC, properties="WAIT\x01false").code == SUCCESS
    assert client.post(TOPIC, properties="WAIT\x01true") is None


@BOTH
async def test_a_put_is_sent_to_slaves_at_once_and_answered_when_they_report_its_end(
    release: str,
) -> None:
    bench = a_sync_master(release, **PAIR[release])
    slave = SlaveStream(bench)
    slave.report(0)
    client = bench.client()
    assert client.post(TOPIC, b"copied now") is None
    end = bench.broker.store.log.end_position
    assert any(b"copied now" in data for data in slave.sent)
    slave.report(end - 1)
    assert code_of(client) is None
    slave.report(end)
    assert code_of(client) == SUCCESS
    bench.no_bugs()


async def test_r12_in_4_a_slave_that_is_too_far_behind_is_none() -> None:
    bench = a_sync_master(LAST_4, ha_behind_bytes_max=500)
    slave = SlaveStream(bench)
    slave.report(0)
    client = bench.client()
    assert client.send_message(TOPIC, b"x" * 500).code == SLAVE_NOT_AVAILABLE
    assert is_stored(bench)
    slave.report()
    assert client.post(TOPIC) is None


async def test_in_4_any_slave_is_enough_and_a_longer_log_of_one_acknowledges_all() -> None:
    bench = a_sync_master(LAST_4)
    first, silent = SlaveStream(bench), SlaveStream(bench, "127.0.0.1:4712")
    first.report(0)
    silent.report(0)
    client = bench.client()
    assert client.post(TOPIC) is None
    first.report()
    assert code_of(client) == SUCCESS
    SlaveStream(bench, "127.0.0.1:4713").report(2**40)
    first.close()
    assert client.send_message(TOPIC).code == SUCCESS, "as upstream: push2SlaveMaxOffset stays"


async def test_in_5_as_many_open_connections_are_needed_as_the_setting_says() -> None:
    bench = a_sync_master(LAST_5, in_sync_replicas=3)
    first, second = SlaveStream(bench), SlaveStream(bench, "127.0.0.1:4712")
    for slave in (first, second):
        slave.report(0)
    client = bench.client()
    assert client.post(TOPIC) is None
    first.report()
    assert code_of(client) is None
    second.report()
    assert code_of(client) == SUCCESS
    second.close()
    assert client.post(TOPIC) is None
    first.report()
    assert code_of(client) is None


async def test_the_number_of_replicas_may_change_while_it_runs() -> None:
    bench = a_sync_master(LAST_5)
    client = bench.client()
    assert client.send_message(TOPIC).code == SUCCESS
    assert client.must(catalog.UPDATE_BROKER_CONFIG, None, b"inSyncReplicas=2").code == 0
    assert client.post(TOPIC) is None


@BOTH
async def test_an_async_master_never_waits(release: str) -> None:
    bench = Bench(release=release, **PAIR[release])
    SlaveStream(bench).report(0)
    assert bench.client().send_message(TOPIC).code == SUCCESS


# Both limits ----------------------------------------------------------------------------


@pytest.mark.parametrize("connected", [True, False])
async def test_the_status_of_replicas_overrides_that_of_the_flush(
    connected: bool, autojump_clock: MockClock
) -> None:
    bench = a_sync_master(LAST_4, disk=SlowDisk(), **FLUSHED)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        if connected:
            SlaveStream(bench).report(0)
        client = bench.client()
        assert client.post(TOPIC) is None
        await trio.sleep(4.9)
        assert code_of(client) is None, "the disk has 5 s"
        await trio.sleep(0.2)
        assert code_of(client) == (FLUSH_SLAVE_TIMEOUT if connected else SLAVE_NOT_AVAILABLE)
        nursery.cancel_scope.cancel()


@BOTH
async def test_a_put_that_slaves_have_but_no_disk_is_answered_10(
    release: str, autojump_clock: MockClock
) -> None:
    settings = {**PAIR[release], **FLUSHED}
    bench = a_sync_master(release, disk=SlowDisk(), **settings)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        slave = SlaveStream(bench)
        slave.report(0)
        client = bench.client()
        assert client.post(TOPIC) is None
        slave.report()
        await trio.sleep(5.1)
        assert code_of(client) == FLUSH_DISK_TIMEOUT
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("flush_s", [1, 5])
async def test_each_limit_counts_from_the_put_whichever_ends_first(
    flush_s: int, autojump_clock: MockClock
) -> None:
    bench = a_sync_master(LAST_4, disk=SlowDisk(), sync_flush_ms_max=flush_s * 1_000, **FLUSHED)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        slave = SlaveStream(bench)
        slave.report(0)
        client = bench.client()
        assert client.post(TOPIC) is None
        await trio.sleep(2.9)  # before the 3 s of slaves end
        slave.report()
        await trio.sleep(2.2)
        assert code_of(client) == FLUSH_DISK_TIMEOUT
        nursery.cancel_scope.cancel()


async def test_a_slave_that_is_too_late_is_so_even_while_the_disk_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    bench = a_sync_master(LAST_4, disk=SlowDisk(), **FLUSHED)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        slave = SlaveStream(bench)
        slave.report(0)
        client = bench.client()
        assert client.post(TOPIC) is None
        await trio.sleep(3.5)
        slave.report()  # the disk still has 1.5 s
        await trio.sleep(1.6)
        assert code_of(client) == FLUSH_SLAVE_TIMEOUT
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("code", "release", "settings", "connected"),
    [
        (FLUSH_DISK_TIMEOUT, LAST_4, {"broker_role": "ASYNC_MASTER", **FLUSHED}, False),
        (FLUSH_DISK_TIMEOUT, LAST_5, {"broker_role": "ASYNC_MASTER", **FLUSHED}, False),
        (SLAVE_NOT_AVAILABLE, LAST_4, {"broker_role": "SYNC_MASTER"}, False),
        (FLUSH_SLAVE_TIMEOUT, LAST_4, {"broker_role": "SYNC_MASTER"}, True),
        (FLUSH_SLAVE_TIMEOUT, LAST_5, {"broker_role": "SYNC_MASTER", **PAIR[LAST_5]}, True),
    ],
)
async def test_invariant_30_codes_10_11_and_12_name_a_message_that_is_consumed_later(
    code: int,
    release: str,
    settings: dict[str, Any],
    connected: bool,
    autojump_clock: MockClock,
) -> None:
    bench = Bench(release=release, disk=SlowDisk() if "store" in settings else None, **settings)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        if connected:
            SlaveStream(bench).report(0)
        client = bench.client()
        client.heartbeat("member", topics={TOPIC: "*"})
        client.post(TOPIC, b"consumed later")
        await trio.sleep(6)
        answer = answer_of(client)
        assert answer is not None
        assert answer.code == code
        reply = answer.decode(SendMessageReply)
        (message,) = client.pulled(TOPIC)
        assert (message.body, message.queue_offset) == (b"consumed later", reply.queue_offset)
        assert int(reply.msg_id[16:], 16) == message.position
        nursery.cancel_scope.cancel()
    bench.no_bugs()


# Other puts -----------------------------------------------------------------------------


@BOTH
async def test_a_batch_waits_for_its_last_message(release: str) -> None:
    bench = a_sync_master(release, **PAIR[release])
    slave = SlaveStream(bench)
    slave.report(0)
    client = bench.client()
    body = encode_batch([BatchMessage(b"one"), BatchMessage(b"two")])
    assert client.post(TOPIC, body, batch=True) is None
    slave.report(bench.broker.store.log.end_position - 1)
    assert code_of(client) is None
    slave.report()
    answer = answer_of(client)
    assert answer is not None
    assert (answer.code, answer.decode(SendMessageReply).msg_id.count(",")) == (SUCCESS, 1)
    assert is_stored(bench, 2)


@BOTH
async def test_a_batch_that_no_slave_has_is_stored(
    release: str, autojump_clock: MockClock
) -> None:
    bench = a_sync_master(release, **PAIR[release])
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        SlaveStream(bench).report(0)
        client = bench.client()
        body = encode_batch([BatchMessage(b"one"), BatchMessage(b"two")])
        assert client.post(TOPIC, body, batch=True) is None
        await trio.sleep(3.01)
        assert code_of(client) == FLUSH_SLAVE_TIMEOUT
        assert is_stored(bench, 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("acknowledged", [True, False])
@BOTH
async def test_a_commit_waits_for_slaves_and_is_a_success_without_them(
    release: str, acknowledged: bool, autojump_clock: MockClock
) -> None:
    bench = a_sync_master(release, **PAIR[release])
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client, slave = bench.client(), SlaveStream(bench)
        slave.report(0)
        assert client.post(TOPIC, properties=properties_text(MARKS, trailing=True)) is None
        slave.report()
        half = answer_of(client)
        assert half is not None
        assert client.ask(catalog.END_TRANSACTION, end_of(half.decode(SendMessageReply))) is None
        assert is_stored(bench)
        if acknowledged:
            slave.report()
        else:
            await trio.sleep(2.99)
            assert code_of(client) is None
            await trio.sleep(0.02)
        assert code_of(client) == SUCCESS
        nursery.cancel_scope.cancel()
    bench.no_bugs()


@BOTH
async def test_a_reply_message_is_pushed_at_once_and_answered_when_slaves_have_it(
    release: str,
) -> None:
    bench = a_sync_master(release, **PAIR[release])
    slave = SlaveStream(bench)
    slave.report(0)
    asker, replier = bench.client(), bench.client()
    asker.heartbeat("asker", producer="askers")
    assert replied(replier) is None
    assert len(answer_pushes(asker)) == 1
    assert code_of(replier) is None
    slave.report()
    assert code_of(replier) == SUCCESS


ACTING = {"slave_acting_master": True, "in_sync_replicas": 2}
NOT_ENOUGH = (1, "in-sync replicas not enough")


async def test_r14_a_put_that_needs_more_replicas_than_are_in_sync_is_refused() -> None:
    bench = a_sync_master(LAST_5, **ACTING)
    client = bench.client()
    answer = client.send_message(TOPIC)
    assert (answer.code, answer.remark) == NOT_ENOUGH
    batch = client.send_message(TOPIC, encode_batch([BatchMessage(b"x")]), batch=True)
    assert (batch.code, batch.remark) == NOT_ENOUGH
    assert is_stored(bench, 0)
    no_wait = client.send_message(TOPIC, properties="WAIT\x01false")
    assert no_wait.code == SUCCESS


async def test_r14_with_auto_in_sync_replicas_the_master_alone_is_enough() -> None:
    bench = a_sync_master(LAST_5, **ACTING, auto_in_sync_replicas=True)
    assert bench.client().send_message(TOPIC).code == SUCCESS
    least = {"in_sync_replicas": 3, "min_in_sync_replicas": 2, "auto_in_sync_replicas": True}
    needy = a_sync_master(LAST_5, slave_acting_master=True, **least)
    answer = needy.client().send_message(TOPIC)
    assert (answer.code, answer.remark) == NOT_ENOUGH


async def test_r14_a_connection_counts_only_as_often_as_replicas_are_registered() -> None:
    bench = a_sync_master(LAST_5, **ACTING, total_replicas=2)
    SlaveStream(bench).report(0)
    assert bench.client().post(TOPIC) is None  # held until the slave has it
    bench.broker.members.polled({0: "127.0.0.1:10911"})
    answer = bench.client().send_message(TOPIC)
    assert (answer.code, answer.remark) == NOT_ENOUGH
