"""Half messages, their ops and the passes over them: a store that is given the time.

Invariants 40, 41 and 43 of the server are tested with whole requests in
``handlers/test_transactions.py``.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rocketmq_emulator.broker.store import transactions
from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.broker.store.transaction_checks import PASS_MS_MAX
from rocketmq_emulator.facts import (
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    Queue,
    TransactionChecked,
    TransactionGivenUp,
)
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.messages.records import decode_records
from tests.support.broker.store_makers import (
    LAST_4,
    LAST_5,
    NOW,
    a_message,
    refuse_for_lack_of_replicas,
)
from tests.support.broker.transaction_rigs import (
    BOTH,
    HOUR,
    INTERVAL,
    MINUTE,
    TransactionRig,
)

BEFORE_BATCHES, BEFORE_30_S = "5.0.0", "5.1.0"


# Half messages --------------------------------------------------------------------------


def test_a_half_message_is_put_aside_with_its_queue_and_without_its_type() -> None:
    rig = TransactionRig(release=LAST_5)
    half = rig.half("K1")
    assert (half.topic, half.queue_id, half.sys_flag) == (TRANS_HALF_TOPIC, 0, 0)
    found = half.property_map()
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("orders", "3")
    assert found["__transactionId__"] == "K1"
    queue = Queue("orders", "broker-a", 3)
    assert rig.facts_of(HalfMessageStored) == [HalfMessageStored(queue, 0, 0, "pg", "K1", -1)]
    assert rig.messages(3) == []


def test_a_half_message_with_a_delay_waits_for_the_delay_and_is_dropped_then() -> None:
    rig = TransactionRig(release=LAST_4)
    text = properties_text({"TRAN_MSG": "true", "DELAY": "1"}, trailing=True)
    rig.puts.put(a_message(properties=text, is_half=True), NOW)
    assert rig.facts_of(HalfMessageStored) == []
    (waiting,) = rig.messages(topic=SCHEDULE_TOPIC)
    assert waiting.property_map()["REAL_TOPIC"] == TRANS_HALF_TOPIC
    rig.delays.deliver_due(NOW + MINUTE)
    assert rig.messages(topic=TRANS_HALF_TOPIC) == []


@BOTH
def test_too_few_replicas_in_sync_stop_neither_ops_nor_checks(release: str) -> None:
    """A broker stores these itself, with WAIT=false: TransactionalMessageBridge."""
    rig = TransactionRig(release=release, transaction_checks_max=1)
    ended = rig.half("K1")
    rig.half("K2")
    rig.store.check_replicas = refuse_for_lack_of_replicas
    with pytest.raises(PutRefused):
        rig.half("K3")
    rig.transactions.ended(ended, NOW)
    rig.run(NOW + 10 * MINUTE)
    assert [key for key, _ in rig.asked] == ["K2"]
    assert b"".join(rig.ops()).startswith(b"0")
    (given_up,) = rig.facts_of(TransactionGivenUp)
    assert given_up.uniq_key == "K2"
    assert len(rig.messages(topic=TRANS_CHECK_MAX_TIME_TOPIC)) == 1


# Ops ------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [LAST_4, BEFORE_BATCHES])
def test_before_5_1_0_each_op_is_a_record_at_once(release: str) -> None:
    rig = TransactionRig(release=release)
    for n in range(2):
        rig.transactions.ended(rig.half(f"K{n}"), NOW)
    assert rig.ops() == [b"0", b"1"]
    (op, _) = rig.messages(topic=TRANS_OP_HALF_TOPIC)
    assert op.property_map() == {"WAIT": "true", "TAGS": "d"}


def test_since_5_1_0_ops_are_collected_and_written_in_one_record() -> None:
    rig = TransactionRig(release=BEFORE_30_S)
    for n in range(2):
        rig.transactions.ended(rig.half(f"K{n}"), NOW + 100)
    rig.run(NOW + 5_999)  # at 3,000 no interval has passed since the first op
    assert rig.ops() == []
    rig.run(NOW + 6_000)
    assert rig.ops() == [b"0,1,"]
    rig.transactions.ended(rig.half("K2"), NOW + 7_000)
    rig.run(NOW + 9_000)
    assert rig.ops() == [b"0,1,", b"2,"]


def test_since_5_1_0_a_check_asks_again_for_an_outcome_that_is_only_collected() -> None:
    """As at upstream: a check reads ops that are written."""
    for op_interval_ms, keys in ((3_000, ["K"]), (100, [])):
        rig = TransactionRig(
            release=LAST_5,
            transaction_check_interval_ms=7_000,
            transaction_op_interval_ms=op_interval_ms,
        )
        half = rig.half("K")
        rig.run(NOW + 6_500)
        rig.transactions.ended(half, NOW + 6_500)
        rig.run(NOW + 12_000)
        assert [key for key, _ in rig.asked] == keys


def test_ops_that_fill_a_record_are_written_before_their_time() -> None:
    rig = TransactionRig(release=LAST_5, transaction_op_bytes_max=8)
    for n in range(5):
        rig.transactions.ended(rig.half(f"K{n}"), NOW)
    assert rig.ops() == [b"0,1,2,3,"]
    rig.run(NOW + 3_000)
    assert rig.ops() == [b"0,1,2,3,", b"4,"]


def test_after_a_change_of_the_size_several_records_are_written_at_once() -> None:
    rig = TransactionRig(release=LAST_5)
    for n in range(5):
        rig.transactions.ended(rig.half(f"K{n}"), NOW)
    smaller = msgspec.structs.replace(rig.config, transaction_op_bytes_max=4)
    rig.transactions.config = smaller
    rig.run(NOW + 3_000)
    assert rig.ops() == [b"0,1,", b"2,3,"], "less than a whole record waits"
    rig.run(NOW + 6_000)
    assert rig.ops()[2:] == [b"4,"]


def test_a_message_that_is_no_half_message_leaves_no_op() -> None:
    rig = TransactionRig(release=LAST_4)
    put = rig.put()
    stored = rig.store.message_at(put.position)
    assert stored is not None
    rig.transactions.ended(stored, NOW)
    assert rig.ops() == []


# Passes ---------------------------------------------------------------------------------


def test_passes_come_every_60_s_up_to_5_1_0_and_every_30_s_since_5_1_1() -> None:
    for release, first_ms in ((LAST_4, 60_000), (BEFORE_30_S, 60_000), ("5.1.1", 30_000)):
        rig = TransactionRig(release=release)
        rig.half()
        assert rig.transactions.next_due_ms() == NOW + first_ms, release
    rig = TransactionRig(release=LAST_4, transaction_check_interval_ms=7_000)
    rig.half()
    assert rig.transactions.next_due_ms() == NOW + 7_000


@BOTH
def test_no_pass_is_planned_while_there_is_nothing_to_read(release: str) -> None:
    rig = TransactionRig(release=release)
    assert rig.transactions.next_due_ms() is None
    rig.transactions.ended(rig.half(at_ms=NOW + 10 * HOUR + 5), NOW + 10 * HOUR + 6)
    rig.run(NOW + 11 * HOUR)
    assert rig.transactions.next_due_ms() is None
    assert rig.asked == []
    assert rig.progress() == (1, 1)


@BOTH
def test_after_an_idle_time_a_pass_comes_at_one_of_upstreams_times(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.half(at_ms=NOW + HOUR + 5)
    assert rig.transactions.next_due_ms() == NOW + HOUR + INTERVAL[release]


@BOTH
def test_a_check_stores_a_copy_with_a_count_and_moves_on(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.half("K1")
    rig.run(NOW + 2 * INTERVAL[release])
    copies = rig.messages(topic=TRANS_HALF_TOPIC)
    counts = [copy.property_map().get("TRANSACTION_CHECK_TIMES") for copy in copies]
    assert counts == [None, "1", "2"]
    assert rig.asked == [("K1", 1), ("K1", 2)]
    assert rig.progress() == (2, None)
    assert TRANS_HALF_TOPIC in rig.made


@BOTH
def test_a_copy_has_no_flag_and_its_check_shows_that_of_the_half_message(release: str) -> None:
    rig = TransactionRig(release=release)
    shown: list[bytes] = []
    rig.transactions.ask = lambda _group, _header, body: shown.append(body) or "producer"
    text = properties_text({"TRAN_MSG": "true", "PGROUP": "pg"}, trailing=True)
    rig.puts.put(a_message(properties=text, is_half=True, born_ms=NOW, flag=9), NOW)
    rig.run(NOW + INTERVAL[release])
    assert [copy.flag for copy in rig.messages(topic=TRANS_HALF_TOPIC)] == [9, 0]
    assert [message.flag for message in decode_records(b"".join(shown))] == [9]


def test_the_progress_of_ops_stops_at_the_first_one_whose_half_message_is_still_to_come() -> None:
    rig = TransactionRig(release=LAST_4)
    first, _young = rig.half("FIRST"), rig.half("YOUNG", at_ms=NOW + 59_000)
    last = rig.half("LAST", at_ms=NOW + 59_000)
    for half in (last, first):
        rig.transactions.ended(half, NOW + 59_000)
    rig.run(NOW + MINUTE)
    assert rig.progress() == (1, None), "the op of LAST is before that of FIRST"
    rig.run(NOW + 2 * MINUTE)
    assert rig.asked == [("YOUNG", 3)]
    assert rig.progress() == (3, 2)


@BOTH
def test_an_op_that_comes_after_its_half_message_was_checked_is_passed_over(release: str) -> None:
    rig = TransactionRig(release=release)
    half = rig.half("K")
    rig.run(NOW + INTERVAL[release])
    rig.transactions.ended(half, NOW + INTERVAL[release])
    rig.run(NOW + 2 * INTERVAL[release] + 1_000)
    assert rig.asked == [("K", 1), ("K", 2)]
    assert rig.progress() == (2, 1)


@BOTH
def test_a_half_message_with_an_op_is_not_checked_and_a_younger_one_is(release: str) -> None:
    rig = TransactionRig(release=release)
    ended = [rig.half(f"E{n}") for n in range(40)]
    rig.half("OPEN")
    for half in ended:
        rig.transactions.ended(half, NOW)
    rig.run(NOW + INTERVAL[release] + 2_000)
    assert rig.asked == [("OPEN", 41)]
    assert rig.progress()[0] == 41


def test_since_5_1_0_a_pass_waits_a_second_when_it_has_read_all_ops() -> None:
    for release, wait_ms in ((BEFORE_BATCHES, 0), (LAST_5, 1_000)):
        rig = TransactionRig(release=release, transaction_check_interval_ms=10_000)
        rig.transactions.ended(rig.half("ENDED"), NOW)
        rig.half("OPEN")
        rig.run(NOW + 10_000 + wait_ms - 1)
        assert rig.asked == []
        rig.run(NOW + 10_000 + wait_ms)
        assert rig.asked == [("OPEN", 2)]


@BOTH
def test_a_half_message_of_the_future_is_checked_at_once(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.puts.put(a_message(is_half=True, born_ms=NOW + HOUR), NOW)
    rig.run(NOW + INTERVAL[release])
    assert len(rig.facts_of(TransactionChecked)) == 1


@BOTH
def test_an_immunity_of_its_own_delays_the_check_but_each_pass_counts(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.half("K1", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    passes = 100_000 // INTERVAL[release]
    rig.run(NOW + passes * INTERVAL[release])
    assert rig.asked == []
    copies = rig.messages(topic=TRANS_HALF_TOPIC)
    assert len(copies) == passes + 1
    newest = copies[-1].property_map()
    assert newest["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert newest["TRANSACTION_CHECK_TIMES"] == str(passes)
    facts = rig.facts_of(ImmuneHalfStoredAgain)
    first_ms = 100_000 - INTERVAL[release]
    assert facts[0] == ImmuneHalfStoredAgain(facts[0].queue, 0, 1, 1, first_ms, "pg", "K1")
    assert [fact.check_times for fact in facts] == list(range(1, passes + 1))
    assert rig.facts_of(HalfMessageStored)[-1].own_immunity_ms == 100_000
    rig.run(NOW + (passes + 1) * INTERVAL[release])
    assert rig.asked == [("K1", passes + 1)]


@BOTH
def test_an_op_for_the_first_record_does_not_end_an_immune_copy(release: str) -> None:
    rig = TransactionRig(release=release)
    half = rig.half("K1", CHECK_IMMUNITY_TIME_IN_SECONDS="70")
    rig.run(NOW + INTERVAL[release])
    rig.transactions.ended(half, NOW + INTERVAL[release])
    rig.run(NOW + 2 * MINUTE)
    assert [key for key, _ in rig.asked][:1] == ["K1"]


@BOTH
def test_an_immunity_that_is_no_number_is_the_usual_one(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.half("K1", CHECK_IMMUNITY_TIME_IN_SECONDS="soon")
    rig.run(NOW + INTERVAL[release])
    assert rig.asked == [("K1", 1)]


@BOTH
def test_a_half_message_older_than_the_log_keeps_any_is_given_up(release: str) -> None:
    rig = TransactionRig(release=release, retained_hours_max=1)
    rig.puts.put(a_message(is_half=True, born_ms=NOW - HOUR), NOW)
    rig.run(NOW + INTERVAL[release])
    (fact,) = rig.facts_of(TransactionGivenUp)
    assert isinstance(fact, TransactionGivenUp)
    assert (fact.reason, fact.check_times) == ("it is older than 1 hours", 0)
    (kept,) = rig.messages(topic=TRANS_CHECK_MAX_TIME_TOPIC)
    assert kept.property_map()["TRANSACTION_CHECK_TIMES"] == "1"
    assert TRANS_CHECK_MAX_TIME_TOPIC in rig.made


@BOTH
def test_an_op_for_a_half_message_that_was_given_up_is_passed_over_by_the_next_pass(
    release: str,
) -> None:
    rig = TransactionRig(release=release, retained_hours_max=1)
    half = rig.half("K", at_ms=NOW - HOUR)
    rig.run(NOW + INTERVAL[release])
    assert rig.transactions.next_due_ms() is None, "nothing is left to read"
    rig.transactions.ended(half, NOW + INTERVAL[release] + 1)
    rig.run(NOW + 3 * INTERVAL[release])
    assert rig.progress() == (1, 1)


@BOTH
def test_a_count_of_checks_that_is_no_number_begins_again(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.half("K1", TRANSACTION_CHECK_TIMES="many")
    rig.run(NOW + INTERVAL[release])
    assert rig.asked == [("K1", 1)]
    copy = rig.messages(topic=TRANS_HALF_TOPIC)[1]
    assert copy.property_map()["TRANSACTION_CHECK_TIMES"] == "0"


def test_a_long_pass_pauses_for_other_tasks() -> None:
    rig = TransactionRig(release=LAST_4)
    for n in range(1_500):
        rig.half(f"K{n}")
    rig.transactions.run_due(NOW + MINUTE)
    assert len(rig.asked) == 1_000
    assert rig.transactions.next_due_ms() == NOW + MINUTE
    rig.run(NOW + MINUTE)
    assert len(rig.asked) == 1_500


def test_a_disk_that_refuses_is_tried_for_a_minute_and_nothing_is_lost() -> None:
    rig = TransactionRig(release=LAST_4)
    rig.half("K1")
    rig.store.put, store_put = _refusing, rig.store.put  # type: ignore[method-assign]
    rig.run(NOW + MINUTE + PASS_MS_MAX + 1_000)
    assert rig.progress() == (None, None)
    next_pass_ms = NOW + MINUTE + PASS_MS_MAX + 1_000 + MINUTE
    assert rig.transactions.next_due_ms() == next_pass_ms
    rig.store.put = store_put  # type: ignore[method-assign]
    rig.run(next_pass_ms)
    assert rig.asked == [("K1", 1)]


def _refusing(*_: Any) -> Any:
    raise PutRefused(PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")


# Advancing time -------------------------------------------------------------------------


@BOTH
def test_advancing_by_many_intervals_makes_one_check(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.half("K1")
    rig.transactions.advance(10 * INTERVAL[release], NOW + 1)
    assert rig.asked == [("K1", 1)]
    rig.transactions.advance(INTERVAL[release], NOW + 2)
    assert rig.asked == [("K1", 1), ("K1", 2)]
    assert rig.transactions.next_due_ms() == NOW + 2 + INTERVAL[release]


def test_advancing_writes_the_collected_ops_first() -> None:
    rig = TransactionRig(release=LAST_5)
    rig.transactions.ended(rig.half("K1"), NOW)
    rig.transactions.advance(MINUTE, NOW + 1)
    assert rig.asked == []
    assert rig.ops() == [b"0,"]


def test_advancing_makes_a_bounded_number_of_half_messages_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "MOVED_MAX", 3)
    rig = TransactionRig(release=LAST_4)
    for n in range(5):
        rig.half(f"K{n}")
    for _ in range(2):
        rig.transactions.advance(MINUTE, NOW)
        assert len(rig.transactions._moved_ms) == 3
    assert [key for key, _ in rig.asked] == ["K0", "K1", "K2"], "the others are still young"
    rig.run(NOW + MINUTE)
    assert {key for key, _ in rig.asked} == {f"K{n}" for n in range(5)}
    for copy in rig.messages(topic=TRANS_HALF_TOPIC):
        rig.transactions.ended(copy, NOW + MINUTE)
    rig.run(NOW + 2 * MINUTE)
    assert rig.transactions._moved_ms == {}


@BOTH
@pytest.mark.parametrize("jump_ms", [-60_000, 3_600_000])
def test_a_clock_that_is_set_changes_no_interval_between_passes(release, jump_ms) -> None:
    rig, ahead_ms = TransactionRig(release=release), 0
    rig.transactions.follow_clock(lambda: ahead_ms)
    rig.half()
    ahead_ms = jump_ms
    rig.half("K2", NOW + 10_000 + jump_ms)
    due_ms = NOW + INTERVAL[release] + jump_ms
    assert rig.transactions.next_due_ms() == due_ms
    rig.transactions.run_due(due_ms)
    assert rig.transactions.next_due_ms() == due_ms + INTERVAL[release]
