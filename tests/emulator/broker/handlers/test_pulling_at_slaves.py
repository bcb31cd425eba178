"""Pulls at a slave: which are served, where it sends clients, and what wakes held pulls."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.flags import COMMIT_OFFSET
from rocketmq_emulator.protocol.messages.names import OFFSET_MOVED_EVENT
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply, PullMessageRequest
from tests.support.broker.bench import Bench, Client
from tests.support.broker.slave_benches import TOPIC, a_master, a_slave, copy
from tests.support.broker.store_makers import LAST_4, LAST_5

BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"


def a_reader(slave: Bench, **group: int) -> Client:
    if group:
        config = SubscriptionGroupConfig(group_name="g", **group)  # type: ignore[arg-type]
        slave.broker.groups.update(config, slave.now_ms())
    client = slave.client()
    client.heartbeat("c", topics={TOPIC: "*", OFFSET_MOVED_EVENT: "*"})
    return client


def pulled(client: Client, offset: int, **fields: Any) -> tuple[int, int, int]:
    """The code, the suggested broker and the next offset of a pull that is not held."""
    answer = client.pull(TOPIC, offset, flags=0, **fields)
    assert answer is not None
    header = answer.decode(PullMessageReply)
    return answer.code, header.suggest_which_broker_id, header.next_begin_offset


@pytest.mark.parametrize(
    ("release", "slave_read", "served"),
    [
        (LAST_4, False, True),
        (LAST_4, True, True),
        ("4.9.8", False, True),
        ("5.0.0", False, False),
        (LAST_5, False, False),
        (LAST_5, True, True),
    ],
)
async def test_r23_a_slave_of_5_rejects_pulls_unless_it_may_be_read(
    release: str, slave_read: bool, served: bool
) -> None:
    slave = a_slave(release, slave_read=slave_read)
    copy(a_master(release, b"first"), slave)
    answer = a_reader(slave).pull(TOPIC, 0)
    assert answer is not None
    if served:
        assert (answer.code, b"first" in answer.body) == (0, True)
    else:
        assert (answer.code, answer.remark, answer.body) == (2, REJECTED, b"")


async def test_r23_lite_pulls_are_rejected_too_and_the_setting_may_change_while_it_runs() -> None:
    slave = a_slave(LAST_5)
    copy(a_master(LAST_5, b"first"), slave)
    client = a_reader(slave)
    header = PullMessageRequest("g", TOPIC, 0, 0, 32, 0, 0, 0, sub_version=0)
    for setting, code in (("false", 2), ("true", 0), ("false", 2)):
        body = f"slaveReadEnable={setting}".encode()
        assert client.must(catalog.UPDATE_BROKER_CONFIG, None, body).code == 0
        answer = client.must(catalog.LITE_PULL_MESSAGE, header)
        assert (answer.code, answer.remark == REJECTED) == (code, code == 2)


@pytest.mark.parametrize(
    ("settings", "group", "suggested"),
    [
        ({"slave_read": True}, {}, 0),
        ({"slave_read": True}, {"broker_id": 3}, 3),
        ({"slave_read": True, "behind_bytes_max": 0}, {}, 1),
        (
            {"slave_read": True, "behind_bytes_max": 0},
            {"which_broker_when_consume_slowly": 2},
            2,
        ),
    ],
)
@BOTH
async def test_a_slave_suggests_a_broker_by_how_far_the_answer_is_behind(
    release: str, settings: dict[str, Any], group: dict[str, int], suggested: int
) -> None:
    slave = a_slave(release, **settings)
    copy(a_master(release, b"first", b"second"), slave)
    client = a_reader(slave, **group)
    assert pulled(client, 0, max_msg_nums=1) == (0, suggested, 1)


async def test_a_slave_of_4_that_may_not_be_read_suggests_its_master() -> None:
    slave = a_slave(LAST_4, behind_bytes_max=0)
    copy(a_master(LAST_4, b"first", b"second"), slave)
    client = a_reader(slave, broker_id=3)
    assert pulled(client, 0, max_msg_nums=1) == (0, 0, 1)


@pytest.mark.parametrize("offset", [7, 2**40])
@pytest.mark.parametrize("queue_id", [0, 1])  # 1 never had a message
@BOTH
async def test_r24_a_slave_does_not_correct_offsets_beyond_its_end(
    release: str, offset: int, queue_id: int
) -> None:
    slave = a_slave(release, slave_read=True)
    copy(a_master(release, b"first"), slave)
    client = a_reader(slave)
    assert pulled(client, offset, queue_id=queue_id) == (20, 0, offset)
    assert pulled(client, 1) == (19, 0, 1), "its end is a place to wait at"
    assert slave.broker.store.max_offset(OFFSET_MOVED_EVENT, 0) == 0
    slave.no_bugs()


@BOTH
async def test_r24_a_slave_does_not_correct_offsets_before_its_beginning(release: str) -> None:
    files = {"message_bytes_max": 60_000, "segment_bytes": 200_000}
    slave = a_slave(release, slave_read=True, **files)
    master = a_master(release, *[b"x" * 50_000] * 8, **files)
    log, copied = master.broker.store.log, slave.broker.store.copied
    begin = log.segments[-1].base
    assert copied is not None
    copied.append(begin, bytes(log.read(begin, log.end_position - begin)))
    assert slave.broker.store.min_offset(TOPIC, 0) > 2
    assert pulled(a_reader(slave), 2) == (20, 0, 2)


@BOTH
async def test_r24_it_names_the_groups_broker_even_if_it_may_not_be_read(release: str) -> None:
    slave = a_slave(release, slave_read=release == LAST_5)
    assert pulled(a_reader(slave, broker_id=3), 7) == (20, 3, 7)


@BOTH
async def test_with_offset_check_in_slave_it_corrects_as_a_master_does(release: str) -> None:
    slave = a_slave(release, slave_read=True, offset_check_in_slave=True)
    copy(a_master(release, b"first"), slave)
    assert pulled(a_reader(slave), 7) == (21, 0, 1)
    assert slave.broker.store.max_offset(OFFSET_MOVED_EVENT, 0) == 0, "it stores nothing"
    slave.no_bugs()


@pytest.mark.parametrize(
    ("release", "stored"), [(LAST_4, None), ("4.9.8", None), ("5.0.0", 1), (LAST_5, 1)]
)
async def test_r25_only_a_slave_of_5_stores_the_offset_that_a_pull_commits(
    release: str, stored: int | None
) -> None:
    slave = a_slave(release, slave_read=True)
    copy(a_master(release, b"first"), slave)
    answer = a_reader(slave).pull(TOPIC, 0, flags=COMMIT_OFFSET, commit_offset=1)
    assert answer is not None
    assert answer.code == 0
    assert slave.broker.offsets.query("g", TOPIC, 0) == stored


@pytest.mark.parametrize(
    ("release", "at_once"), [(LAST_4, False), ("4.9.8", False), ("5.0.0", True), (LAST_5, True)]
)
async def test_r29_an_arrival_wakes_a_held_pull_at_once_only_at_a_slave_of_5(
    release: str, at_once: bool, autojump_clock: MockClock
) -> None:
    slave, master = a_slave(release, slave_read=True), a_master(release)
    async with trio.open_nursery() as nursery:
        slave.start(nursery)
        client = a_reader(slave)
        await trio.sleep(1)
        assert client.pull(TOPIC, 0) is None
        held = client.last_opaque
        master.client().sent(TOPIC, b"news")
        copy(master, slave)
        assert (client.answer_to(held) is not None) == at_once
        await trio.sleep(4.01)  # the next sweep
        answer = client.answer_to(held)
        assert answer is not None
        assert (answer.code, b"news" in answer.body) == (0, True)
        nursery.cancel_scope.cancel()
    slave.no_bugs()


@pytest.mark.parametrize("queue_id", [0, 2])
async def test_r40_the_return_of_the_master_ends_every_held_pull(queue_id: int) -> None:
    slave = a_slave(LAST_5, slave_read=True)
    client = a_reader(slave)
    assert client.pull(TOPIC, 0, queue_id=queue_id) is None
    slave.broker.answer_held_pulls()
    answer = client.answer_to(client.last_opaque)
    assert answer is not None
    assert answer.code == 19
    slave.no_bugs()
