"""The figures of a broker change as if upstream's timers sampled them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketmq_emulator.broker.handlers.runtime_info import byte_count
from rocketmq_emulator.broker.tables.figures import DAY_MS, BrokerFigures, GetEvent, PutEvent
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.stats import BrokerStatsData
from tests.support.broker.bench import EPOCH_MS, Bench, Client
from tests.support.broker.store_makers import LAST_4, LAST_5

NOW = EPOCH_MS // DAY_MS * DAY_MS  # the beginning of a day


def figures_of(client: Client) -> dict[str, str]:
    return decode_body(client.must(catalog.GET_BROKER_RUNTIME_INFO).body, KVTable).table


async def test_totals_count_what_is_stored_and_given_out() -> None:
    bench = Bench(release=LAST_5)
    client = bench.client()
    assert figures_of(client)["msgPutTotalTodayNow"] == "0"
    sizes = [client.bench.broker.store.log.end_position for _ in map(client.sent, "ttt")]
    assert len(client.pulled("t", sys_flag=4, subscription="*")) == 3
    found = figures_of(client)
    assert (found["msgPutTotalTodayNow"], found["msgGetTotalTodayNow"]) == ("3", "3")
    assert (found["putMessageTimesTotal"], found["putMessageSizeTotal"]) == ("3", str(sizes[-1]))
    assert found["commitLogMaxOffset"] == str(sizes[-1])
    assert float(found["putMessageAverageSize"]) == sizes[-1] / 3


@pytest.mark.parametrize(("release", "total"), [(LAST_4, "3"), (LAST_5, "1")])
async def test_since_5_1_the_topics_of_the_system_have_no_part_in_the_totals(
    release: str, total: str
) -> None:
    client = Bench(release=release).client()
    for topic in ("t", "broker-a", "broker-a"):
        client.sent(topic)
    assert len(client.pulled("broker-a", sys_flag=4, subscription="*")) == 2
    found = figures_of(client)
    assert found["msgPutTotalTodayNow"] == total
    assert found["msgGetTotalTodayNow"] == ("2" if release == LAST_4 else "0")
    assert found["putMessageTimesTotal"] == "3"


async def test_timer_messages_are_counted_as_they_come_wait_and_go(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bench = Bench(release=LAST_5)
    bench.start(nursery)
    client = bench.client()
    for _ in range(20):
        client.sent("t", properties="TIMER_DELAY_SEC\x0130")
    await trio.sleep(5)
    found = figures_of(client)
    assert (found["timerCongestNum"], found["timerOffsetBehind"]) == ("20", "0")
    await trio.sleep(6)
    assert figures_of(client)["timerEnqueueTps"] == "0.0"  # the first sample includes them
    for _ in range(10):
        client.sent("t", properties="TIMER_DELAY_SEC\x0130")
    await trio.sleep(2)
    assert figures_of(client)["timerEnqueueTps"] == "1.0"
    await trio.sleep(20)
    found = figures_of(client)
    assert (found["timerCongestNum"], found["timerDequeueTps"]) == ("10", "2.0")
    assert (found["timerEnqueueTps"], found["timerReadBehind"]) == ("0.0", "0")


async def test_what_is_due_and_was_not_delivered_is_behind(autojump_clock: MockClock) -> None:
    bench = Bench(release=LAST_5)  # no task delivers
    client = bench.client()
    client.sent("t", properties="TIMER_DELAY_SEC\x0110")
    timers = bench.broker.timers
    assert timers is not None
    assert timers.late_ms(bench.now_ms() + 9_000) == 0
    await trio.sleep(15)
    assert figures_of(client)["timerReadBehind"] == "5"


async def test_a_broker_without_a_wheel_has_no_timer_messages() -> None:
    found = figures_of(Bench(release=LAST_5, timer_wheel=False).client())
    assert (found["timerCongestNum"], found["timerDequeueTps"]) == ("0", "0.0")


async def test_events_are_counted_up_before_there_are_many(monkeypatch: Any) -> None:
    monkeypatch.setattr("rocketmq_emulator.broker.store.store.EVENTS_MAX", 3)
    bench = Bench()
    client = bench.client()
    for sent in range(1, 5):
        client.sent("t")
        assert len(bench.broker.store.figures.events) == sent % 3
    assert bench.broker.store.figures.puts.messages == 3


async def test_a_send_that_is_refused_by_the_store_counts_as_failed() -> None:
    client = Bench().client()
    client.send_message("t", b"x" * (4 * 1024 * 1024 + 1))
    assert figures_of(client)["putMessageFailedTimes"] == "1"


async def test_rates_are_of_the_last_10_60_and_600_seconds(autojump_clock: MockClock) -> None:
    bench = Bench(release=LAST_4)
    client = bench.client()
    assert figures_of(client)["putTps"] == "  "
    for _ in range(20):
        client.sent("t")
    await trio.sleep(11)
    assert figures_of(client)["putTps"] == "0.0  "  # the first sample includes them
    for _ in range(30):
        client.sent("t")
    await trio.sleep(1)
    assert figures_of(client)["putTps"] == "3.0  "
    await trio.sleep(49)
    assert figures_of(client)["putTps"] == "0.0 0.5 "
    await trio.sleep(600)
    assert figures_of(client)["putTps"] == "0.0 0.0 0.0"
    assert figures_of(client)["getTransferedTps"] == "0.0 0.0 0.0"


@pytest.mark.parametrize(
    ("name", "key", "total"),
    [("TOPIC_PUT_NUMS", "t", 4), ("TOPIC_PUT_SIZE", "t", 400), ("BROKER_PUT_NUMS", "c", 4)],
)
def test_an_item_sums_a_minute_an_hour_and_a_day(name: str, key: str, total: int) -> None:
    figures = BrokerFigures(NOW, "c")

    def sums(at_ms: int) -> tuple[int, int, int]:
        found = figures.item(name, key, NOW + at_ms)
        assert found is not None
        items = (found.stats_minute, found.stats_hour, found.stats_day)
        return tuple(item.sum for item in items if item is not None)  # type: ignore[return-value]

    figures.put("t", 4, 400, NOW + 5_000)
    assert sums(9_999) == (0, 0, 0)
    assert sums(10_000) == (total, 0, 0)
    assert sums(59_999) == (total, 0, 0)
    assert sums(70_000) == (0, 0, 0)
    assert sums(600_000) == (0, total, 0)
    assert sums(3_600_000) == (0, total, total)
    assert sums(DAY_MS + 3_600_000) == (0, 0, 0)


def test_what_was_never_counted_is_no_item() -> None:
    figures = BrokerFigures(NOW, "c")
    figures.put("t", 1, 100, NOW)
    figures.got("t", "g", 1, 100, NOW)
    figures.returned("t", "g", NOW)
    items = (("TOPIC_PUT_NUMS", "t"), ("GROUP_GET_NUMS", "t@g"), ("SNDBCK_PUT_NUMS", "t@g"))
    assert all(isinstance(figures.item(*item, NOW), BrokerStatsData) for item in items)
    figures.forget_topic("t")
    assert [figures.item(*item, NOW) for item in items] == [None] * 3


def test_this_morning_s_totals_are_kept_for_two_days() -> None:
    figures = BrokerFigures(NOW, "c")
    figures.put("t", 2, 200, NOW)
    figures.put("t", 3, 300, NOW + DAY_MS)
    assert figures.mornings == ((2, 0), (0, 0))
    figures.got("t", "g", 4, 400, NOW + 2 * DAY_MS)
    assert figures.mornings == ((5, 0), (2, 0))
    figures.pass_midnight(NOW + 5 * DAY_MS)
    assert figures.mornings == ((5, 4), (5, 4))


async def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    figures = BrokerFigures(NOW, "c")
    figures.put("t", 1, 100, NOW + 60_000)
    figures.put("t", 1, 100, NOW + 1_000)
    assert figures.puts.messages == 2
    found = figures.item("TOPIC_PUT_NUMS", "t", NOW + 70_000)
    assert found is not None
    assert found.stats_minute is not None
    assert found.stats_minute.sum == 2


EVENTS = st.builds(
    lambda topic, pulled, messages, at_ms: (
        GetEvent(topic, "g", messages, 100 * messages, at_ms)
        if pulled
        else PutEvent(topic, messages, 100 * messages, at_ms)
    ),
    st.sampled_from(["t", "u", "uncounted"]),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([NOW, NOW + 1, NOW + 9_999, NOW + 10_001, NOW + DAY_MS - 1, NOW + DAY_MS]),
)


@given(st.lists(EVENTS, max_size=30))
def test_events_come_to_the_same_together_and_one_by_one(
    events: list[PutEvent | GetEvent],
) -> None:
    together, singly = (BrokerFigures(NOW, "c", frozenset({"uncounted"})) for _ in range(2))
    together.events = list(events)
    together.count_up()
    for event in events:
        singly.events = [event]
        singly.count_up()
    assert seen(together) == seen(singly)


def seen(figures: BrokerFigures) -> tuple[object, ...]:
    later_ms = NOW + 2 * DAY_MS
    keys = [("BROKER_PUT_NUMS", "c"), ("BROKER_GET_NUMS", "c")]
    for topic in ("t", "u", "uncounted"):
        keys += [("TOPIC_PUT_NUMS", topic), ("TOPIC_PUT_SIZE", topic)]
        keys += [("GROUP_GET_NUMS", f"{topic}@g")]
    items = [figures.item(*key, at_ms) for key in keys for at_ms in (NOW + 20_000, later_ms)]
    sums = [(each.calls, each.messages, each.size) for each in (figures.puts, figures.gets)]
    return figures.put_total, figures.got_total, figures.mornings, sums, items


async def test_a_store_in_files_shows_the_space_of_its_file_system(tmp_path: Any) -> None:
    bench = Bench(FileDisk(tmp_path), store=str(tmp_path))
    found = figures_of(bench.client())
    assert 0 < float(found["commitLogDiskRatio"]) <= 1
    assert found["commitLogDirCapacity"].startswith("Total : ")
    assert f"commitLogDiskRatio_{tmp_path}/commitlog" in found
    bench.broker.close(bench.now_ms())


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")],
)
def test_bytes_are_counted_for_people(count: int, text: str) -> None:
    assert byte_count(count) == text
