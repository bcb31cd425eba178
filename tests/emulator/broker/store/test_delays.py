"""Delayed messages: never early, at most a tenth of a second late, and never lost."""

from __future__ import annotations

import errno
import random
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_emulator.broker.service import serve_broker
from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.broker.store.delays import DELIVERIES_MAX, DOCUMENT
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import DelayedDelivered, DelayedMessageDropped, Queue
from rocketmq_emulator.facts.journal import Entry, Journal
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.delay_levels import DEFAULT_DELAY_LEVELS
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from rocketmq_emulator.protocol.messages.subscription import tag_code
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.settings.config import BrokerConfig, NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import EPOCH_MS, run_virtual
from tests.support.broker.store_makers import (
    NOW,
    Rig,
    TinyDisk,
    a_message,
    refuse_for_lack_of_replicas,
)

LEVEL_1 = "DELAY\x011"
HOUR_MS = 3_600_000
A_DELAYED_SEND = SendMessageRequestV2(
    producer_group="pg",
    topic="orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
    properties=LEVEL_1,
)


def a_delayed(
    rig: Rig, level: int = 1, at_ms: int = NOW, body: bytes = b"late", **how: Any
) -> Any:
    message = a_message(body, f"TAGS\x01A\x02DELAY\x01{level}", queue_id=2, **how)
    return rig.puts.put(message, at_ms)


def run_until(rig: Rig, until_ms: int, now_ms: int = NOW) -> list[int]:
    """Deliver at each due time up to *until_ms*; returns these times."""
    looks = []
    while (due_ms := rig.delays.next_due_ms(now_ms)) is not None and due_ms <= until_ms:
        now_ms = max(now_ms, due_ms)
        rig.delays.deliver_due(now_ms)
        looks.append(now_ms)
    return looks


def test_invariant_34_a_message_of_level_1_comes_after_a_second_on_upstreams_next_tick() -> None:
    rig = Rig()
    a_delayed(rig, at_ms=NOW + 30)
    assert rig.bodies(2) == []
    assert rig.delays.next_due_ms(NOW + 30) == NOW + 1_100
    rig.delays.deliver_due(NOW + 1_029)
    assert rig.bodies(2) == []
    assert run_until(rig, NOW + 60_000, NOW + 30) == [NOW + 1_100]
    assert rig.bodies(2) == [b"late"]
    assert rig.facts_of(DelayedDelivered) == [
        DelayedDelivered(Queue("orders", "broker-a", 2), 1, 70)
    ]


def test_invariant_34_level_19_waits_as_18_does() -> None:
    rig = Rig()
    a_delayed(rig, level=19)
    assert rig.store.max_offset(SCHEDULE_TOPIC, 17) == 1
    assert rig.delays.next_due_ms(NOW) == NOW + 2 * HOUR_MS
    assert run_until(rig, NOW + 2 * HOUR_MS) == [NOW + 2 * HOUR_MS]
    (message,) = rig.messages(2)
    assert message.property_map()["DELAY"] == "18"


def test_invariant_35_a_delivered_message_knows_where_it_was_and_is_a_new_record() -> None:
    rig = Rig()
    put = a_delayed(rig, reconsume_times=3, flag=9, born_ms=NOW - 5)
    run_until(rig, NOW + 2_000)
    (message,) = rig.messages(2)
    assert message.position > put.position
    assert (message.topic, message.queue_id, message.queue_offset) == ("orders", 2, 0)
    assert (message.reconsume_times, message.flag, message.born_ms) == (3, 9, NOW - 5)
    assert message.store_ms == NOW + 1_000
    marks = message.property_map()
    assert (marks["REAL_TOPIC"], marks["REAL_QID"], marks["TAGS"]) == ("orders", "2", "A")
    queue = rig.store.queue("orders", 2)
    assert queue is not None
    assert queue.codes[0] == tag_code("A")


def test_while_it_waits_its_index_code_is_the_time_it_is_due_also_after_a_restart() -> None:
    rig = Rig()
    a_delayed(rig, level=5)
    for each in (rig, rig.reopened()):
        queue = each.store.queue(SCHEDULE_TOPIC, 4)
        assert queue is not None
        assert list(queue.codes) == [NOW + 60_000]
        assert each.delays.next_due_ms(NOW) == NOW + 60_000


@pytest.mark.parametrize("text", ["", "DELAY\x010", "DELAY\x01-1", "XDELAY\x013"])
def test_what_asks_for_no_delay_is_stored_where_it_belongs(text: str) -> None:
    rig = Rig()
    rig.puts.put(a_message(b"now", text, queue_id=2), NOW)
    assert rig.bodies(2) == [b"now"]
    assert rig.delays.next_due_ms(NOW) is None


def test_a_level_that_is_no_number_is_refused() -> None:
    rig = Rig()
    with pytest.raises(BadFields):
        rig.puts.put(a_message(b"now", "DELAY\x01soon"), NOW)
    assert rig.bodies() == []


def test_a_prepared_message_does_not_wait() -> None:
    rig = Rig()
    a_delayed(rig, sys_flag=0x4)
    assert rig.store.max_offset(SCHEDULE_TOPIC, 0) == 0


def test_what_could_not_be_delivered_is_refused_before_it_waits() -> None:
    rig = Rig()
    with pytest.raises(PutRefused) as refusal:
        rig.puts.put(a_message(b"", LEVEL_1, topic="t" * 128), NOW)
    assert refusal.value.status is PutStatus.MESSAGE_ILLEGAL


def test_levels_overtake_each_other_but_within_one_the_order_stays() -> None:
    rig = Rig()
    a_delayed(rig, level=2, body=b"slow")
    for n in range(3):
        a_delayed(rig, level=1, body=b"%d" % n, at_ms=NOW + n)
    run_until(rig, NOW + 10_000)
    assert rig.bodies(2) == [b"0", b"1", b"2", b"slow"]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 700)), min_size=1, max_size=30),
    st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_every_message_comes_once_never_early_and_within_a_tick(
    sends: list[tuple[int, int]], phase_ms: int
) -> None:
    rig = Rig(MemoryDisk())
    began_ms = NOW + phase_ms
    rig.start_delays(began_ms)
    now_ms, due_ms = began_ms, {}
    for number, (level, later_ms) in enumerate(sends):
        now_ms += later_ms
        run_until(rig, now_ms, now_ms - later_ms)
        body = b"%d" % number
        a_delayed(rig, level, now_ms, body)
        due_ms[body] = now_ms + (1_000, 5_000, 10_000, 30_000)[level - 1]
    run_until(rig, now_ms + 60_000, now_ms)
    delivered = rig.messages(2)
    assert sorted(message.body for message in delivered) == sorted(due_ms)
    for message in delivered:
        assert 0 <= message.store_ms - due_ms[message.body] < 100
        assert (message.store_ms - began_ms) % 100 == 0


def test_a_clock_that_went_back_delivers_at_once_rather_than_never() -> None:
    rig = Rig()
    a_delayed(rig, at_ms=NOW + HOUR_MS)
    assert rig.delays.next_due_ms(NOW) == NOW + 1_000
    rig.delays.deliver_due(NOW + 1_000)
    assert rig.bodies(2) == [b"late"]


def test_a_restart_goes_on_where_progress_was_saved_and_repeats_what_came_after() -> None:
    rig = Rig()
    for n in range(3):
        a_delayed(rig, body=b"%d" % n, at_ms=NOW + n * 1_000)
    rig.delays.deliver_due(NOW + 1_000)
    rig.delays.persist()
    rig.delays.deliver_due(NOW + 2_000)
    assert rig.bodies(2) == [b"0", b"1"]
    again = rig.reopened()
    run_until(again, NOW + 5_000, NOW + 2_000)
    assert again.bodies(2) == [b"0", b"1", b"1", b"2"]


def test_saved_progress_beyond_a_lost_tail_is_not_believed() -> None:
    rig = Rig()
    rig.disk.replace(DOCUMENT, b'{"offsetTable":{1:50}}')
    again = rig.reopened()
    a_delayed(again)
    run_until(again, NOW + 2_000)
    assert again.bodies(2) == [b"late"]


def test_a_full_disk_makes_a_delivery_late_but_not_lost() -> None:
    disk = TinyDisk(4096, bytes_max=4096)
    rig = Rig(disk)
    for n in range(2):
        a_delayed(rig, body=bytes([n]) * 1_500)
    assert run_until(rig, NOW + 1_500) == [NOW + tick for tick in range(1_000, 1_600, 100)]
    assert rig.bodies(2) == []
    disk.bytes_max = None
    assert run_until(rig, NOW + 60_000, NOW + 1_500) == [NOW + 1_600]
    assert [body[0] for body in rig.bodies(2)] == [0, 1]


def test_a_delivery_waits_for_files_that_can_be_opened() -> None:
    class WithoutFiles(TinyDisk):
        is_out_of_files = False

        def open_segment(self, base, size):
            if self.is_out_of_files:
                raise OSError(errno.EMFILE, "Too many open files", "00000000000000004096")
            return super().open_segment(base, size)

    disk = WithoutFiles()
    rig = Rig(disk)
    for n in range(2):
        a_delayed(rig, body=bytes([n]) * 1_500)
    disk.is_out_of_files = True
    run_until(rig, NOW + 1_500)
    assert rig.bodies(2) == []
    disk.is_out_of_files = False
    assert run_until(rig, NOW + 60_000, NOW + 1_500) == [NOW + 1_600]
    assert [body[0] for body in rig.bodies(2)] == [0, 1]
    assert rig.facts_of(DelayedMessageDropped) == []


def test_too_few_replicas_in_sync_refuse_no_delivery() -> None:
    """The producer need not wait for it: ScheduleMessageService.messageTimeUp sets WAIT=false."""
    rig = Rig()
    a_delayed(rig)
    rig.store.check_replicas = refuse_for_lack_of_replicas
    with pytest.raises(PutRefused):
        a_delayed(rig)
    run_until(rig, NOW + 60_000)
    assert rig.bodies(2) == [b"late"]


def test_a_delivery_that_is_refused_for_good_is_dropped_with_a_fact_and_others_go_on() -> None:
    rig = Rig(MemoryDisk())
    a_delayed(rig, body=b"too long since a restart", at_ms=NOW)
    a_delayed(rig, body=b"short", at_ms=NOW + 1)
    strict = Rig(rig.disk, message_bytes_max=10)
    run_until(strict, NOW + 5_000)
    assert strict.bodies(2) == [b"short"]
    [dropped] = strict.facts_of(DelayedMessageDropped)
    assert isinstance(dropped, DelayedMessageDropped)
    assert dropped.queue == Queue("orders", "broker-a", 2)
    assert dropped.delay_level == 1
    assert "a body of 24 bytes" in dropped.reason


def test_no_look_delivers_without_end() -> None:
    rig = Rig(MemoryDisk())
    for _ in range(DELIVERIES_MAX + 5):
        a_delayed(rig)
    assert rig.delays.deliver_due(NOW + 1_000) == DELIVERIES_MAX
    assert rig.delays.next_due_ms(NOW + 1_000) == NOW + 1_000
    assert rig.delays.deliver_due(NOW + 1_000) == 5


def test_a_round_that_stalls_in_the_middle_says_of_each_message_how_late_it_really_came() -> None:
    rig = Rig()
    for _ in range(4):
        a_delayed(rig)
    began_ms = NOW + 1_650
    times_ms = iter([began_ms, began_ms, began_ms + 800, began_ms + 801])
    rig.delays.wall_ms = lambda: next(times_ms)
    assert rig.delays.deliver_due(began_ms) == 4
    assert [fact.late_by_ms for fact in rig.facts_of(DelayedDelivered)] == [650, 650, 1_450, 1_451]
    stored_ms = [message.store_ms - NOW for message in rig.messages(2)]
    assert stored_ms == [1_650, 1_650, 2_450, 2_451]


def test_a_broker_that_runs_takes_the_time_of_each_delivery_from_its_clock() -> None:
    stall_ms = 800
    late_ms: list[int] = []

    async def main(world) -> None:
        clock = WallClock(EPOCH_MS, 0.0)

        def stall(entry: Entry) -> None:
            if isinstance(entry.fact, DelayedDelivered):
                late_ms.append(entry.fact.late_by_ms)
                clock.skew_ms += stall_ms

        host = world.network.host("broker")
        config = BrokerConfig(listen_address=f"{host.ip}:10911")
        shell = {"network": host, "disk": MemoryDisk(), "clock": clock, "rng": random.Random(7)}
        journal = Journal("broker-a", clock, listeners=[stall])
        stop = trio.Event()
        serve = partial(serve_broker, config, journal=journal, stop=stop, **shell)
        address = await world.nursery.start(serve)
        client = RemotingClient(
            world.network.host("client"),
            world.nursery,
            clock=clock,
            config=NetConfig(),
            release=R_4_9_7,
            note=lambda _fact: None,
            handlers={},
        )
        for _ in range(3):
            send, header = catalog.SEND_MESSAGE_V2, A_DELAYED_SEND
            await client.invoke(address, send, header, b"x", timeout_ms=3_000)
        await trio.sleep(5)
        stop.set()

    run_virtual(main, seed=1, latency=Latency(us_min=0, us_max=0))
    assert [late - late_ms[0] for late in late_ms] == [0, stall_ms, 2 * stall_ms]


def test_a_clock_that_goes_back_in_a_round_makes_no_message_early() -> None:
    rig = Rig()
    a_delayed(rig)
    rig.delays.wall_ms = lambda: NOW + 400
    rig.delays.deliver_due(NOW + 1_100)
    assert [fact.late_by_ms for fact in rig.facts_of(DelayedDelivered)] == [0]


def test_what_belongs_to_the_half_topic_is_not_delivered() -> None:
    rig = Rig()
    rig.puts.put(a_message(b"half", LEVEL_1, topic=TRANS_HALF_TOPIC), NOW)
    assert rig.delays.deliver_due(NOW + 1_000) == 1
    assert rig.store.max_offset(TRANS_HALF_TOPIC, 0) == 0
    assert rig.delays.next_due_ms(NOW + 1_000) is None


def test_levels_are_the_brokers_own() -> None:
    rig = Rig(delay_levels="2s 3s")
    a_delayed(rig, level=9)
    assert rig.delays.next_due_ms(NOW) == NOW + 3_000
    assert Rig().config.delay_levels == DEFAULT_DELAY_LEVELS
    with pytest.raises(ValueError, match="delay_levels"):
        Rig(delay_levels="2s soon")
