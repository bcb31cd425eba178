"""Special services: delayed and timer messages and checks, started and stopped in a broker."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.service import ScheduledTasks
from rocketmq_emulator.broker.store.delays import DOCUMENT
from rocketmq_emulator.facts import (
    DelayedDelivered,
    TimerMessageDelivered,
    TransactionChecked,
)
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.offsets import DelayOffsetSerializeWrapper
from tests.support.broker.bench import EPOCH_MS, Bench
from tests.support.broker.slave_benches import TOPIC, a_master, a_slave, copy
from tests.support.broker.store_makers import LAST_5

LEVEL_1, LEVEL_2 = "DELAY\x011", "DELAY\x012"  # 1 s, 5 s
HALF = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K"
HALF_FLAG = 4
WATCHED = (DelayedDelivered, TimerMessageDelivered, TransactionChecked)


def started(bench: Bench, nursery: trio.Nursery) -> ScheduledTasks:
    nursery.start_soon(bench.server.timers.run)
    tasks = ScheduledTasks(bench.broker, bench.server, bench.clock)
    tasks.start(nursery)
    return tasks


def timed(deliver_s: int) -> str:
    return f"UNIQ_KEY\x01T{deliver_s}\x02TIMER_DELIVER_MS\x01{EPOCH_MS + deliver_s * 1_000}"


def post_one_of_each(bench: Bench) -> None:
    producer = bench.client()
    producer.sent(TOPIC, b"delayed", properties=LEVEL_2)
    producer.sent(TOPIC, b"timed", properties=timed(10))
    producer.sent(TOPIC, b"half", properties=HALF, sys_flag=HALF_FLAG)


def works(bench: Bench) -> list[type]:
    return [kind for kind in WATCHED if bench.facts(kind)]


def progress_on_disk(bench: Bench) -> dict[int, int]:
    text = bench.disk.read(DOCUMENT)
    assert text is not None
    return dict(decode_unlimited_body(text, DelayOffsetSerializeWrapper).offset_table)


async def test_a_master_runs_them_until_they_are_stopped_and_again_once_started(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    master = a_master(LAST_5)
    tasks = started(master, nursery)
    post_one_of_each(master)
    tasks.change_special_services(False)
    await trio.sleep(100)
    assert works(master) == []
    tasks.change_special_services(True)
    await trio.sleep(61)
    assert works(master) == list(WATCHED)
    assert [len(master.facts(kind)) for kind in WATCHED[:2]] == [1, 1]


async def test_starting_or_stopping_twice_changes_nothing(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    master = a_master(LAST_5)
    tasks = started(master, nursery)
    master.client().sent(TOPIC, b"half", properties=HALF, sys_flag=HALF_FLAG)
    await trio.sleep(20)
    tasks.change_special_services(True)  # would check from 50 s on if it began again
    await trio.sleep(11)
    assert len(master.facts(TransactionChecked)) == 1
    tasks.change_special_services(False)
    tasks.change_special_services(False)
    assert not master.broker.has_special_services


async def test_delayed_messages_come_from_a_second_after_the_start_on_as_the_saved_progress_says(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    master, slave = a_master(LAST_5), a_slave(LAST_5)
    for body in (b"1", b"2"):
        master.client().sent(TOPIC, body, properties=LEVEL_1)
    copy(master, slave)
    tasks = started(slave, nursery)
    slave.broker.store.refuses_because = ""
    await trio.sleep(30)
    assert slave.facts(DelayedDelivered) == []
    slave.disk.replace(DOCUMENT, b'{"offsetTable":{1:1}}')
    began_ms = slave.now_ms()
    tasks.change_special_services(True)
    await trio.sleep(1.05)
    (delivered,) = slave.facts(DelayedDelivered)
    assert delivered.late_by_ms == 1_000 + began_ms - (EPOCH_MS + 1_000)
    tasks.change_special_services(False)
    assert progress_on_disk(slave) == {1: 2}


async def test_a_slave_delivers_the_timers_that_its_master_has_not_delivered(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    master, slave = a_master(LAST_5), a_slave(LAST_5)
    master_tasks = started(master, nursery)
    tasks = started(slave, nursery)
    producer = master.client()
    for deliver_s in (5, 20, 21):
        producer.sent(TOPIC, b"%d" % deliver_s, properties=timed(deliver_s))
    await trio.sleep(10)
    copy(master, slave)
    assert master.broker.timers is not None
    assert slave.broker.timers is not None
    checkpoint = master.broker.timers.checkpoint(master.now_ms())
    producer.sent(TOPIC, b"12", properties=timed(12))
    copy(master, slave)
    at_13_ms = EPOCH_MS + 13_000  # the master dies when it has delivered all but what it stores
    slave.broker.timers.copy_checkpoint(checkpoint._replace(read_ms=at_13_ms))
    master_tasks.change_special_services(False)
    await trio.sleep(5)
    slave.broker.store.refuses_because = ""
    tasks.change_special_services(True)
    await trio.sleep(30)
    delivered = [fact.uniq_key for fact in slave.facts(TimerMessageDelivered)]
    assert delivered == ["T12", "T20", "T21"]


async def test_a_slave_drops_the_timers_that_its_master_has_delivered_meanwhile(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    master, slave = a_master(LAST_5), a_slave(LAST_5)
    started(master, nursery)
    producer = master.client()
    for deliver_s in (5, 20):
        producer.sent(TOPIC, b"%d" % deliver_s, properties=timed(deliver_s))
    copy(master, slave)
    timers = slave.broker.timers
    assert master.broker.timers is not None
    assert timers is not None
    timers.copy_checkpoint(master.broker.timers.checkpoint(master.now_ms()))
    assert timers.waiting_count() == 2
    await trio.sleep(10)
    timers.copy_checkpoint(master.broker.timers.checkpoint(master.now_ms()))
    assert timers.waiting_count() == 1
    assert timers.checkpoint(slave.now_ms()) == timers.checkpoint(slave.now_ms() + 60_000)


@pytest.mark.parametrize("kind", WATCHED)
async def test_what_is_copied_while_they_run_is_done_as_well(
    autojump_clock: MockClock, nursery: trio.Nursery, kind: Any
) -> None:
    master, slave = a_master(LAST_5), a_slave(LAST_5)
    tasks = started(slave, nursery)
    slave.broker.store.refuses_because = ""
    tasks.change_special_services(True)
    await trio.sleep(1)
    post_one_of_each(master)
    copy(master, slave)
    await trio.sleep(61)
    assert len(slave.facts(kind)) >= 1


async def test_a_broker_follows_its_masters_timers_until_a_controller_elects_it(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(release=LAST_5, enable_controller_mode=True, controllers=("10.0.9.1:9878",))
    timers = bench.broker.timers
    assert timers is not None
    bench.broker.members.is_isolated = True  # RoleChanges.set_fenced: it has no role yet
    tasks = started(bench, nursery)
    assert not timers.is_dequeuing, "else it never asks for the progress of its master's timers"
    tasks.change_special_services(True)
    assert timers.is_dequeuing
    tasks.change_special_services(False)
    assert not timers.is_dequeuing
