"""ADVANCE_TIME: waiting messages are delivered in order, and nothing else grows older."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketmq_emulator.broker.handlers.housekeeping import AdvanceResult, advance
from rocketmq_emulator.broker.store import store
from rocketmq_emulator.broker.store.store import EarlyDeliveries
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import DelayedDelivered, TimeAdvanced, TimerMessageDelivered
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.extensions import (
    AdvanceTime,
    AdvanceTimeReply,
    decode_extension_body,
    encode_extension_body,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.sending import ConsumerSendMsgBackRequest
from tests.support.broker.bench import Bench, Client
from tests.support.broker.slave_benches import TOPIC, a_master, a_slave, copy
from tests.support.broker.store_makers import LAST_5, NOW, Rig, a_message

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
RETRY, DLQ = "%RETRY%g", "%DLQ%g"
RETRY_DELAYS_S = (10, 30, *range(60, 660, 60), 1_200, 1_800, 3_600, 7_200)
RETRIES_WITHIN_AN_HOUR = 12


class FailingGroup:
    """A consumer of one message that sends the message back each time it comes."""

    def __init__(self, bench: Bench) -> None:
        self.client = bench.client()
        msg_id = self.client.sent("Orders", b"hello").msg_id
        self.client.heartbeat("c", topics={RETRY: "*", "Orders": "*", DLQ: "*"})
        self._position = int(msg_id[-16:], 16)
        self._seen = 0

    async def fail(self) -> int:
        """Send the message back until no retry comes; returns the number of retries so far."""
        while True:
            header = ConsumerSendMsgBackRequest(
                offset=self._position, group="g", delay_level=0, origin_topic="Orders"
            )
            assert self.client.must(catalog.CONSUMER_SEND_MSG_BACK, header).code == 0
            if not await self.comes_again():
                return self._seen

    async def comes_again(self) -> bool:
        await trio.sleep(0.2)
        again = self.client.pulled(RETRY)
        is_new = len(again) > self._seen
        if is_new:
            self._seen, self._position = len(again), again[-1].position
        return is_new


def advanced(client: Client, ms: int) -> AdvanceTimeReply:
    answer = client.must(catalog.ADVANCE_TIME, None, encode_extension_body(AdvanceTime(ms=ms)))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return decode_extension_body(answer.body, AdvanceTimeReply)


async def test_ten_hours_in_one_step_take_a_failing_message_to_the_dead_letters(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(reply_rules_allowed=True)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        await trio.sleep(2)  # the broker's first tick is a second after its start
        group = FailingGroup(bench)
        assert await group.fail() == 0
        assert advanced(group.client, 10 * HOUR_MS) == AdvanceTimeReply(
            due_count=1, waiting_count=0
        )
        assert await group.comes_again()
        assert await group.fail() == 16
        assert [dead.reconsume_times for dead in group.client.pulled(DLQ)] == [17]
        assert bench.facts(TimeAdvanced) == [TimeAdvanced(10 * HOUR_MS, 1, 1)]
        assert [0 <= fact.late_by_ms <= 100 for fact in bench.facts(DelayedDelivered)] == [
            True
        ] * 16
        assert trio.current_time() < 10, "ten hours must not pass on the clock"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("steps", [1, 6, 60])
async def test_an_hour_in_one_step_or_in_many_retries_as_often(
    steps: int, autojump_clock: MockClock
) -> None:
    bench = Bench(reply_rules_allowed=True)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        await trio.sleep(2)  # the broker's first tick is a second after its start
        group = FailingGroup(bench)
        retried = await group.fail()
        for _ in range(steps):
            advanced(group.client, HOUR_MS // steps)
            if await group.comes_again():
                retried = await group.fail()
        assert retried == RETRIES_WITHIN_AN_HOUR
        assert sum(sum(RETRY_DELAYS_S[:n]) <= 3_600 for n in range(1, 17)) == retried
        nursery.cancel_scope.cancel()


async def test_advancing_is_refused_where_reply_rules_are_and_for_a_time_that_cannot_be() -> None:
    client = Bench().client()
    refused = client.must(catalog.ADVANCE_TIME, None, b'{"ms": 1}')
    assert refused.code == ResponseCode.NO_PERMISSION
    client = Bench(reply_rules_allowed=True).client()
    for body in (b'{"ms": -1}', b'{"ms": 99999999999999}', b'{"ms": "x"}', b"{}", b"["):
        assert client.must(catalog.ADVANCE_TIME, None, body).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_advancing_delivers_nothing_at_a_slave(release: str) -> None:
    master, slave = a_master(release), a_slave(release, reply_rules_allowed=True)
    master.client().send_message(TOPIC, b"later", properties="DELAY\x015\x02")
    copy(master, slave)
    assert slave.broker.delays.waiting_count() == 1, "the delayed message is copied"
    assert advanced(slave.client(), HOUR_MS) == AdvanceTimeReply(due_count=0, waiting_count=0)
    assert slave.broker.delays.waiting_count() == 1
    assert slave.facts(TimeAdvanced) == []


# In the store ---------------------------------------------------------------------------


def a_rig(disk: MemoryDisk | None = None) -> Rig:
    return Rig(disk or MemoryDisk(), release=LAST_5)


def put(rig: Rig, body: bytes, asks: str) -> None:
    rig.puts.put(a_message(body, f"UNIQ_KEY\x01{body.decode()}\x02{asks}", queue_id=2), NOW)


MINUTES = (*range(1, 11), 20, 30, 60, 120)
LEVEL_S = {1, 5, 10, 30, *(60 * minutes for minutes in MINUTES)}
ASKS = st.one_of(
    st.integers(1, 18).map(lambda level: f"DELAY\x01{level}"),
    # Not those of a level: which of two that are due in one second is first depends on the steps.
    st.integers(1, 7_200)
    .filter(lambda s: s not in LEVEL_S)
    .map(lambda s: f"TIMER_DELAY_SEC\x01{s}"),
)


@given(st.lists(ASKS, min_size=1, max_size=20), st.integers(2, 40))
@settings(max_examples=40, deadline=None)
def test_one_step_or_many_give_the_same_messages_in_the_same_order(
    asks: list[str], steps: int
) -> None:
    bodies = []
    for parts in (1, steps):
        rig = a_rig()
        for number, ask in enumerate(asks):
            put(rig, b"%d" % number, ask)
        moved = [advance(rig.delays, rig.timers, 7_202_000 // parts, NOW) for _ in range(parts)]
        advance(rig.delays, rig.timers, 1_000, NOW)
        bodies.append(rig.bodies(2))
        assert moved[0].waiting_count == len(asks) == len(bodies[-1])
    assert bodies[0] == bodies[1]


def test_levels_and_timers_come_by_the_times_at_which_they_are_due() -> None:
    rig = a_rig()
    for body, asks in (
        (b"2h", "DELAY\x0118"),
        (b"90s", "TIMER_DELAY_SEC\x0190"),
        (b"1m", "DELAY\x015"),
        (b"3h", "TIMER_DELAY_SEC\x0110800"),
        (b"1s", "DELAY\x011"),
    ):
        put(rig, body, asks)
    assert advance(rig.delays, rig.timers, 2 * HOUR_MS, NOW) == AdvanceResult(5, 4)
    assert rig.bodies(2) == [b"1s", b"1m", b"90s", b"2h"]
    assert {message.store_ms for message in rig.messages(2)} == {NOW}, "store times are wall times"
    late = [f for f in rig.facts if isinstance(f, DelayedDelivered | TimerMessageDelivered)]
    assert [fact.late_by_ms for fact in late] == [0, 0, 0, 0]
    assert rig.timers.first_due_ms() == NOW + HOUR_MS


def test_what_is_put_aside_later_waits_its_whole_time() -> None:
    rig = a_rig()
    advance(rig.delays, rig.timers, HOUR_MS, NOW)
    put(rig, b"later", "DELAY\x015")
    put(rig, b"timed", "TIMER_DELAY_SEC\x0160")
    assert rig.delays.next_due_ms(NOW) == NOW + MINUTE_MS == rig.timers.next_due_ms()


def test_after_a_restart_what_has_come_does_not_come_again_and_what_waits_comes_in_its_time() -> (
    None
):
    rig = a_rig()
    for seconds in (60, 7_200):
        put(rig, b"%d" % seconds, f"TIMER_DELAY_SEC\x01{seconds}")
    put(rig, b"1m", "DELAY\x015")
    put(rig, b"2h", "DELAY\x0118")
    advance(rig.delays, rig.timers, HOUR_MS, NOW)
    assert sorted(rig.bodies(2)) == [b"1m", b"60"]
    rig.timers.persist(NOW, at_the_end=True)
    rig.delays.persist()
    again = rig.reopened()
    assert (again.delays.waiting_count(), again.timers.waiting_count()) == (1, 1)
    assert again.delays.next_due_ms(NOW) == NOW + 2 * HOUR_MS == again.timers.next_due_ms()


def test_a_message_beyond_the_roll_window_comes_when_its_time_has_been_advanced_to() -> None:
    rig = a_rig()
    put(rig, b"far", f"TIMER_DELAY_SEC\x01{3 * 86_400}")
    advance(rig.delays, rig.timers, 2 * DAY_MS, NOW)
    assert rig.bodies(2) == []
    advance(rig.delays, rig.timers, DAY_MS - 1_000, NOW)
    assert rig.bodies(2) == []
    advance(rig.delays, rig.timers, 1_000, NOW)
    assert rig.bodies(2) == [b"far"]


def test_a_head_start_grows_while_a_listener_has_the_message() -> None:
    starts = EarlyDeliveries()
    starts.advance(100)
    starts.give(1, 60)
    starts.advance(50)
    assert (starts.of(1), starts.of(2)) == (110, 0)


def test_head_starts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "EARLY_DELIVERIES_MAX", 2)
    starts = EarlyDeliveries()
    for position in (1, 2, 3):
        starts.give(position, 10)
    starts.give(4, 0)
    assert [starts.of(position) for position in (1, 2, 3, 4)] == [0, 10, 10, 0]
