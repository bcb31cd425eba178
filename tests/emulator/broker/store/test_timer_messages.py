"""Timer messages: never early, at most a slot late, never lost; not after a recall."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
from rocketmq_emulator.broker.store.timer_messages import DELIVERIES_MAX
from rocketmq_emulator.broker.store.timer_wheel import DOCUMENT, decode_checkpoint
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import (
    Queue,
    TimerMessageDelivered,
    TimerMessageDropped,
    TimerMessagePutAside,
    TimerMessageRecalled,
    TimerMessageRolled,
)
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_emulator.protocol.messages.properties import decode_properties
from tests.support.broker.store_makers import (
    LAST_5,
    NOW,
    Rig,
    TinyDisk,
    a_message,
    refuse_for_lack_of_replicas,
)

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
DAYS_3_S = 259_200


def a_rig(disk: Any = None, **config: Any) -> Rig:
    return Rig(disk, release=LAST_5, **config)


def a_timed(
    rig: Rig, asks: str, body: bytes = b"later", at_ms: int = NOW, key: str = "K", **how: Any
) -> Any:
    message = a_message(body, f"UNIQ_KEY\x01{key}\x02{asks}", queue_id=2, **how)
    return rig.puts.put(message, at_ms)


def at(deliver_ms: int) -> str:
    return f"TIMER_DELIVER_MS\x01{deliver_ms}"


def a_recall(rig: Rig, deliver_ms: int, key: str, at_ms: int = NOW, topic: str = "orders") -> Any:
    asks = f"{at(deliver_ms)}\x02TIMER_DEL_UNIQKEY\x01{topic}+{key}"
    return a_timed(rig, asks, b"0", at_ms, key)


def run_until(rig: Rig, until_ms: int, now_ms: int = NOW) -> list[int]:
    """Run the timers at each due time up to *until_ms*; returns these times."""
    looks = []
    while (due_ms := rig.timers.next_due_ms()) is not None and due_ms <= until_ms:
        now_ms = max(now_ms, due_ms)
        rig.timers.run_due(now_ms)
        looks.append(now_ms)
    return looks


def delivered_at(rig: Rig) -> dict[bytes, int]:
    return {message.body: message.store_ms for message in rig.messages(2)}


@pytest.mark.parametrize(
    ("asked_ms", "seen_ms"),
    [(1, 1_000), (999, 1_000), (1_000, 1_000), (1_001, 2_000), (4_500, 5_000)],
)
def test_invariant_44_a_message_comes_when_the_second_of_its_time_is_over(
    asked_ms: int, seen_ms: int
) -> None:
    rig = a_rig()
    a_timed(rig, at(NOW + asked_ms))
    rig.timers.deliver_due(NOW + seen_ms - 1)
    assert rig.bodies(2) == []
    run_until(rig, NOW + 60_000)
    assert delivered_at(rig) == {b"later": NOW + seen_ms}


@given(st.lists(st.tuples(st.integers(1, 9_000), st.integers(0, 900)), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_invariant_44_every_message_comes_once_never_early_and_within_two_seconds(
    sends: list[tuple[int, int]],
) -> None:
    rig = a_rig(MemoryDisk())
    now_ms, due_ms = NOW, {}
    for number, (delay_ms, later_ms) in enumerate(sends):
        run_until(rig, now_ms + later_ms, now_ms)
        now_ms += later_ms
        body = b"%d" % number
        a_timed(rig, f"TIMER_DELAY_MS\x01{delay_ms}", body, now_ms)
        due_ms[body] = now_ms + delay_ms
    run_until(rig, now_ms + 20_000, now_ms)
    assert len(rig.bodies(2)) == len(sends)
    assert all(0 <= at_ms - due_ms[body] < 2_000 for body, at_ms in delivered_at(rig).items())


@pytest.mark.parametrize(("precision_ms", "seen_ms"), [(100, 1_300), (200, 1_400), (500, 1_500)])
def test_a_finer_wheel_is_nearer_to_the_time(precision_ms: int, seen_ms: int) -> None:
    rig = a_rig(timer_precision_ms=precision_ms)
    a_timed(rig, at(NOW + 1_234))
    run_until(rig, NOW + 60_000)
    assert delivered_at(rig) == {b"later": NOW + seen_ms}


def test_while_it_waits_it_lies_in_the_timer_topic_with_its_slot_and_its_queue() -> None:
    rig = a_rig()
    put = a_timed(rig, "TIMER_DELAY_SEC\x013\x02A\x01b", at_ms=NOW + 400)
    (waiting,) = rig.messages(0, TIMER_TOPIC)
    assert waiting.property_map() == {
        "UNIQ_KEY": "K",
        "A": "b",
        "TIMER_DELAY_SEC": "3",
        "TIMER_OUT_MS": str(NOW + 3_000),
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
    }
    assert decode_properties(put.timer_text) == waiting.property_map()
    queue = Queue("orders", "broker-a", 2)
    assert rig.facts_of(TimerMessagePutAside) == [TimerMessagePutAside(queue, 0, NOW + 3_000, "K")]


def test_a_delivered_message_is_a_new_record_that_knows_when_it_waited() -> None:
    rig = a_rig()
    put = a_timed(rig, at(NOW + 1_500), reconsume_times=3, flag=9, born_ms=NOW - 5)
    run_until(rig, NOW + 5_000)
    (message,) = rig.messages(2)
    assert message.position > put.position
    assert (message.topic, message.queue_id, message.queue_offset) == ("orders", 2, 0)
    assert (message.reconsume_times, message.flag, message.born_ms) == (3, 9, NOW - 5)
    marks = message.property_map()
    assert marks["TIMER_ENQUEUE_MS"] == str(NOW)
    assert marks["TIMER_DEQUEUE_MS"] == str(NOW + 2_000) == str(message.store_ms)
    assert (marks["REAL_TOPIC"], marks["REAL_QID"]) == ("orders", "2")
    delivered = TimerMessageDelivered(Queue("orders", "broker-a", 2), 0, 0, "K")
    assert rig.facts_of(TimerMessageDelivered) == [delivered]


@pytest.mark.parametrize(
    ("asks", "out_ms"),
    [
        ("TIMER_DELIVER_MS\x015\x02TIMER_DELAY_MS\x019000\x02TIMER_DELAY_SEC\x013", 2_000),
        ("TIMER_DELIVER_MS\x015\x02TIMER_DELAY_MS\x019000", 8_000),
        ("TIMER_DELAY_SEC\x01+3", 2_000),
    ],
)
def test_seconds_count_before_milliseconds_before_a_time(asks: str, out_ms: int) -> None:
    rig = a_rig()
    a_timed(rig, asks)
    (waiting,) = rig.messages(0, TIMER_TOPIC)
    assert waiting.property_map()["TIMER_OUT_MS"] == str(NOW + out_ms)


@pytest.mark.parametrize(
    "asks",
    [
        at(NOW),
        at(NOW - 1),
        "TIMER_DELAY_SEC\x010",
        "TIMER_DELAY_MS\x01-5",
        "TIMER_DELAY_SEC\x019223372036854775807",
        f"TIMER_OUT_MS\x01{NOW}\x02TIMER_DELAY_SEC\x013",
    ],
)
def test_what_is_due_or_has_waited_is_stored_where_it_belongs(asks: str) -> None:
    rig = a_rig()
    a_timed(rig, asks)
    assert rig.bodies(2) == [b"later"]
    assert rig.timers.next_due_ms() is None


@pytest.mark.parametrize(
    "asks",
    [
        "TIMER_DELAY_SEC\x01soon",
        "TIMER_DELAY_SEC\x01 3",
        "TIMER_DELAY_MS\x01" + "9" * 19,
        f"TIMER_DELAY_SEC\x01{DAYS_3_S + 1}",
        f"{at(NOW)}\x02TIMER_DEL_UNIQKEY\x01orders+K",
    ],
)
def test_no_number_more_than_three_days_and_deleting_in_the_past_are_refused(asks: str) -> None:
    rig = a_rig()
    with pytest.raises(PutRefused, match="bigger than the max delay 259200000ms") as refusal:
        a_timed(rig, asks)
    assert refusal.value.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert rig.store.log.end_position == 0


def test_a_level_wins_and_takes_the_times_away() -> None:
    rig = a_rig()
    a_timed(rig, f"DELAY\x011\x02TIMER_DELAY_SEC\x019\x02TIMER_DELAY_MS\x019\x02{at(9)}")
    (waiting,) = rig.messages(0, SCHEDULE_TOPIC)
    assert waiting.property_map().keys() == {"UNIQ_KEY", "DELAY", "REAL_TOPIC", "REAL_QID"}
    with pytest.raises(BadFields):
        a_timed(rig, "DELAY\x01soon\x02TIMER_DELAY_SEC\x019")


def test_a_prepared_message_does_not_wait() -> None:
    rig = a_rig()
    a_timed(rig, "TIMER_DELAY_SEC\x019", sys_flag=0x4)
    assert rig.store.max_offset(TIMER_TOPIC, 0) == 0


def test_what_could_not_be_delivered_is_refused_before_it_waits() -> None:
    rig = a_rig()
    with pytest.raises(PutRefused) as refusal:
        a_timed(rig, "TIMER_DELAY_SEC\x019", topic="t" * 128)
    assert refusal.value.status is PutStatus.MESSAGE_ILLEGAL


def test_a_full_slot_refuses_some_and_one_twice_as_full_refuses_all() -> None:
    rig = a_rig(timer_slot_messages_max=4)
    for _ in range(5):
        a_timed(rig, at(NOW + 5_500))
    for _ in range(95):
        with suppress(PutRefused):
            a_timed(rig, at(NOW + 5_500))
    assert rig.timers.waiting_count() == 8
    with pytest.raises(PutRefused, match="max num limit is 8 or") as refusal:
        a_timed(rig, at(NOW + 5_500))
    assert refusal.value.status is PutStatus.WHEEL_TIMER_FLOW_CONTROL
    a_timed(rig, at(NOW + 7_500))
    assert rig.timers.waiting_count() == 9


# Recalls ------------------------------------------------------------------------------


def test_a_recalled_message_is_never_delivered_and_its_neighbours_are() -> None:
    rig = a_rig()
    for key in ("A", "B", "C"):
        a_timed(rig, at(NOW + 2_500), key.encode(), key=key)
    a_recall(rig, NOW + 2_001, "B")
    run_until(rig, NOW + 9_000)
    assert rig.bodies(2) == [b"A", b"C"]
    queue = Queue("orders", "broker-a", 2)
    assert rig.facts_of(TimerMessageRecalled) == [TimerMessageRecalled(queue, 1, "B")]


def test_a_recall_names_the_topic_and_the_slot_too() -> None:
    rig = a_rig()
    a_timed(rig, at(NOW + 2_500), key="A")
    a_recall(rig, NOW + 2_001, "A", topic="others")
    a_recall(rig, NOW + 3_001, "A")
    run_until(rig, NOW + 9_000)
    assert rig.bodies(2) == [b"later"]


def test_before_5_3_2_the_key_alone_names_the_deleted_one() -> None:
    rig = Rig(release="5.1.4")
    a_timed(rig, at(NOW + 2_500), key="A")
    a_timed(rig, f"{at(NOW + 2_500)}\x02TIMER_DEL_UNIQKEY\x01A", key="X")
    run_until(rig, NOW + 9_000)
    assert rig.bodies(2) == []


# Beyond the roll window ---------------------------------------------------------------


def test_a_time_beyond_the_roll_window_is_stored_anew_on_the_way() -> None:
    rig = a_rig()
    put = a_timed(rig, at(NOW + 60 * HOUR_MS))
    run_until(rig, NOW + 60 * HOUR_MS)
    first, second = rig.messages(0, TIMER_TOPIC)
    assert (first.position, second.store_ms) == (put.position, NOW + DAY_MS + 1_000)
    assert second.property_map()["TIMER_ROLL_TIMES"] == "1"
    assert delivered_at(rig) == {b"later": NOW + 60 * HOUR_MS}
    rolled = TimerMessageRolled(Queue("orders", "broker-a", 2), 0, 1, "K")
    assert rig.facts_of(TimerMessageRolled) == [rolled]
    assert len(rig.facts_of(TimerMessagePutAside)) == 1


def test_a_far_message_is_recalled_before_and_after_it_rolled() -> None:
    rig = a_rig()
    for key in ("A", "B"):
        a_timed(rig, at(NOW + 60 * HOUR_MS), key.encode(), key=key)
    out_ms = NOW + 60 * HOUR_MS - 1_000
    a_recall(rig, out_ms + 1, "A")
    run_until(rig, NOW + 50 * HOUR_MS)
    a_recall(rig, out_ms + 1, "B", NOW + 50 * HOUR_MS)
    run_until(rig, NOW + 70 * HOUR_MS, NOW + 50 * HOUR_MS)
    assert rig.bodies(2) == []
    assert len(rig.facts_of(TimerMessageRecalled)) == 2


def test_a_round_of_timers_that_stalls_says_of_each_how_late_it_really_came() -> None:
    rig = a_rig()
    for key in "ABC":
        a_timed(rig, at(NOW + 1_000), key=key)
    began_ms = NOW + 1_615
    times_ms = iter([began_ms, began_ms + 800, began_ms + 860])
    rig.timers.wall_ms = lambda: next(times_ms)
    assert rig.timers.deliver_due(began_ms) == 3
    assert [fact.late_by_ms for fact in rig.facts_of(TimerMessageDelivered)] == [615, 1_415, 1_475]
    stored_ms = [message.store_ms - NOW for message in rig.messages(2)]
    assert stored_ms == [1_615, 2_415, 2_475]


# Restarts -----------------------------------------------------------------------------


def test_an_orderly_restart_repeats_nothing_and_loses_nothing_even_within_a_slot() -> None:
    rig = a_rig(MemoryDisk())
    for number in range(DELIVERIES_MAX + 5):
        a_timed(rig, at(NOW + 1_500), b"%d" % number, key=str(number))
    a_recall(rig, NOW + 1_001, str(DELIVERIES_MAX + 2))
    a_timed(rig, at(NOW + 5_500), b"last")
    assert rig.timers.deliver_due(NOW + 2_000) == DELIVERIES_MAX
    rig.timers.persist(NOW + 2_000, at_the_end=True)
    again = rig.reopened()
    run_until(again, NOW + 9_000, NOW + 2_000)
    bodies = [b"%d" % n for n in range(DELIVERIES_MAX + 5) if n != DELIVERIES_MAX + 2]
    assert again.bodies(2) == [*bodies, b"last"]
    assert again.facts_of(TimerMessagePutAside) == []


def test_a_kill_repeats_at_most_what_came_after_the_last_checkpoint() -> None:
    rig = a_rig()
    for number in range(1, 5):
        a_timed(rig, at(NOW + number * 1_000), b"%d" % number, key=str(number))
    run_until(rig, NOW + 3_000)  # the last checkpoint is a second old
    again = rig.reopened()
    run_until(again, NOW + 9_000, NOW + 3_000)
    assert again.bodies(2) == [b"1", b"2", b"3", b"3", b"4"]
    assert decode_checkpoint(again.disk.read(DOCUMENT)).read_ms == NOW + 4_000


def test_what_fell_due_while_the_broker_was_down_comes_at_once() -> None:
    rig = a_rig()
    a_timed(rig, at(NOW + 1_500), b"1")
    a_timed(rig, at(NOW + 60 * HOUR_MS), b"2")
    again = rig.reopened()
    run_until(again, NOW + 61 * HOUR_MS, NOW + 61 * HOUR_MS)
    assert delivered_at(again) == {b"1": NOW + 61 * HOUR_MS, b"2": NOW + 61 * HOUR_MS}


def test_another_precision_or_roll_window_after_a_restart_loses_nothing() -> None:
    rig = a_rig(timer_precision_ms=100)
    for number, later_ms in enumerate((500, 900, 40 * HOUR_MS)):
        a_timed(rig, at(NOW + later_ms + 50), b"%d" % number, key=str(number))
    run_until(rig, NOW + 600)
    rig.timers.persist(NOW + 600, at_the_end=True)
    again = Rig(rig.disk, release=LAST_5, timer_roll_window_slots=10_000)
    run_until(again, NOW + 50 * HOUR_MS, NOW + 600)
    assert again.bodies(2) == [b"0", b"1", b"2"]


def test_a_clock_that_goes_back_loses_nothing_in_a_restart() -> None:
    rig = a_rig()
    a_timed(rig, at(NOW + 1_500), b"1", key="1")
    run_until(rig, NOW + 9_000)
    a_timed(rig, at(NOW - HOUR_MS + 1_500), b"2", NOW - HOUR_MS, key="2")
    again = rig.reopened()
    run_until(again, NOW + 9_000, NOW - HOUR_MS)
    assert again.bodies(2) == [b"1", b"2"]


def test_saved_progress_beyond_a_lost_tail_is_not_believed() -> None:
    rig = a_rig()
    saved = decode_checkpoint(None)._replace(queue_offset=50, read_ms=NOW + HOUR_MS)
    rig.disk.replace(DOCUMENT, saved.encode())
    again = rig.reopened()
    a_timed(again, at(NOW + 1_500))
    run_until(again, NOW + 9_000)
    assert again.bodies(2) == [b"later"]
    assert decode_checkpoint(b"").read_ms == 0


def test_a_checkpoint_of_upstream_s_is_understood_without_what_we_add() -> None:
    whole = decode_checkpoint(None)._replace(read_ms=NOW, queue_offset=7, counter=3)
    upstream = whole.encode()[:56]
    found = decode_checkpoint(upstream)
    assert (found.read_ms, found.queue_offset) == (NOW, 7)
    assert len(whole.encode()) == 4096


# Failures -----------------------------------------------------------------------------


def test_a_full_disk_makes_a_delivery_late_and_after_three_tries_drops_it() -> None:
    disk = TinyDisk(4096, bytes_max=4096)
    rig = a_rig(disk)
    for n in range(2):
        a_timed(rig, at(NOW + 1_000), bytes([n]) * 1_500, key=str(n))
    looks = run_until(rig, NOW + 2_000)
    assert looks[:3] == [NOW + 1_000, NOW + 1_500, NOW + 2_000]
    [dropped] = rig.facts_of(TimerMessageDropped)
    assert isinstance(dropped, TimerMessageDropped)
    assert dropped.uniq_key == "0"
    disk.bytes_max = None
    run_until(rig, NOW + 9_000, NOW + 2_000)
    assert [body[0] for body in rig.bodies(2)] == [1]


@pytest.mark.parametrize("how", [{"timer_retry_until_success": True}, {"release": "5.1.4"}])
def test_a_broker_that_retries_until_it_succeeds_drops_nothing(how: dict[str, Any]) -> None:
    disk = TinyDisk(4096, bytes_max=4096)
    rig = Rig(disk, **{"release": LAST_5, **how})
    a_timed(rig, at(NOW + 1_000), bytes(3_000))
    run_until(rig, NOW + 60_000)
    disk.bytes_max = None
    run_until(rig, NOW + 90_000, NOW + 60_000)
    assert rig.bodies(2) == [bytes(3_000)]


def test_too_few_replicas_in_sync_refuse_neither_a_roll_nor_a_delivery() -> None:
    """TimerMessageStore.convertMessage sets WAIT=false for both."""
    rig = a_rig()
    a_timed(rig, at(NOW + 60 * HOUR_MS))
    rig.store.check_replicas = refuse_for_lack_of_replicas
    with pytest.raises(PutRefused):
        a_timed(rig, at(NOW + 5_000))
    run_until(rig, NOW + 60 * HOUR_MS)
    assert len(rig.facts_of(TimerMessageRolled)) == 1
    assert delivered_at(rig) == {b"later": NOW + 60 * HOUR_MS}


def test_what_the_log_no_longer_has_is_dropped_with_a_fact() -> None:
    rig = a_rig(retained_bytes_max=0)
    a_timed(rig, at(NOW + 500_000), bytes(3_000))
    for _ in range(4):
        rig.put(bytes(3_000))
    rig.store.drop_expired(NOW + 80 * HOUR_MS)
    run_until(rig, NOW + 80 * HOUR_MS)
    [dropped] = rig.facts_of(TimerMessageDropped)
    assert isinstance(dropped, TimerMessageDropped)
    assert dropped.reason == "its record is gone"


def test_what_a_client_writes_into_the_timer_topic_itself_harms_nobody() -> None:
    rig = a_rig()
    odd = ("", "TIMER_OUT_MS\x01x", f"TIMER_OUT_MS\x01{NOW}", f"{at(NOW + 5_000)}")
    for text in odd:
        rig.puts.put(a_message(b"odd", text, topic=TIMER_TOPIC), NOW)
    a_timed(rig, at(NOW + 1_500))
    run_until(rig, NOW + 9_000)
    assert rig.bodies(2) == [b"later"]
    assert len(rig.facts_of(TimerMessageDropped)) == 1


def test_no_look_delivers_without_end() -> None:
    rig = a_rig(MemoryDisk())
    for number in range(DELIVERIES_MAX + 5):
        a_timed(rig, at(NOW + 1_500), key=str(number))
    assert rig.timers.deliver_due(NOW + 2_000) == DELIVERIES_MAX
    assert rig.timers.next_due_ms() == NOW + 2_000
    assert rig.timers.deliver_due(NOW + 2_000) == 5


def test_an_idle_wheel_plans_nothing() -> None:
    rig = a_rig()
    assert rig.timers.next_due_ms() is None
    a_timed(rig, at(NOW + HOUR_MS))
    assert rig.timers.next_due_ms() == NOW + HOUR_MS
    assert run_until(rig, NOW + 2 * HOUR_MS) == [NOW + HOUR_MS, NOW + HOUR_MS + 1_000]


def test_the_members_of_a_batch_wait_together() -> None:
    rig = a_rig()
    whole = rig.puts.shared(a_message(b"", "TIMER_DELAY_SEC\x013", queue_id=2), NOW)
    members: list[MessageToStore] = []
    for n in range(3):
        member = a_message(b"%d" % n, f"UNIQ_KEY\x01{n}\x02{whole.properties}", topic=whole.topic)
        members.append(member)
    rig.puts.put_all(members, NOW)
    run_until(rig, NOW + 9_000)
    assert rig.bodies(2) == [b"0", b"1", b"2"]
