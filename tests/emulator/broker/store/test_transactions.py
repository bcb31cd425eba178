"""Half messages, their ops and the passes over them: a store that is given the time.

Invariants 40, 41 and 43 of the server are tested with whole requests in
``handlers/test_transactions.py``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketmq_emulator.broker.store import transactions
from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.broker.store.put_chain import PutChain, prepare_half, set_delay_level
from rocketmq_emulator.broker.store.transaction_checks import GROUP, PASS_MS_MAX
from rocketmq_emulator.broker.store.transactions import TransactionalMessageService
from rocketmq_emulator.broker.tables.offsets import ConsumerOffsets
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import Disk
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
from rocketmq_emulator.protocol.messages.records import StoredMessage
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW, Rig, SlowDisk, a_message

BEFORE_BATCHES, BEFORE_30_S = "5.0.0", "5.1.0"
MINUTE, HOUR = 60_000, 3_600_000
INTERVAL = {LAST_4: 60_000, LAST_5: 30_000}
BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])


class TransactionRig(Rig):
    """A store with transactions; ``asked`` has the key and the offset of each check."""

    def __init__(self, disk: Disk | None = None, began_ms: int = NOW, **config: Any) -> None:
        self.asked: list[tuple[str, int]] = []
        self.made: list[str] = []
        self._began_ms = began_ms
        self._settings = config
        super().__init__(disk or MemoryDisk(), **config)

    def start_delays(self, began_ms: int) -> None:
        super().start_delays(began_ms)
        self.offsets = ConsumerOffsets(self.disk, self.config)
        self.transactions = TransactionalMessageService(
            self.store, self.offsets, self.config, note=self.facts.append, began_ms=self._began_ms
        )
        self.transactions.ask = self._ask
        self.transactions.make_topic = lambda topic, _now_ms: self.made.append(topic)
        half = prepare_half(has_transaction_id=True)
        aside = set_delay_level(self.store.levels, self.store.check)
        self.puts = PutChain(self.store, (half, aside))
        self.puts.on_half = self.transactions.half_stored

    def _ask(self, _group: str, header: Any, _body: bytes) -> str:
        self.asked.append((header.msg_id or "", header.tran_state_table_offset))
        return "producer"

    def half(self, key: str = "K", at_ms: int = NOW, **properties: str) -> StoredMessage:
        """Store a half message; returns its record."""
        marks = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": key, **properties}
        text = properties_text(marks, trailing=True)
        message = a_message(properties=text, is_half=True, born_ms=at_ms, queue_id=3)
        put = self.puts.put(message, at_ms)
        found = self.store.message_at(put.position)
        assert found is not None
        return found

    def run(self, until_ms: int) -> None:
        """Run what is due by *until_ms*, each at its time."""
        calls = 0
        while (due_ms := self.transactions.next_due_ms()) is not None and due_ms <= until_ms:
            self.transactions.run_due(due_ms)
            calls += 1
            assert calls < 1_000, "it is called again and again"

    def ops(self) -> list[bytes]:
        return [message.body for message in self.messages(topic=TRANS_OP_HALF_TOPIC)]

    def progress(self) -> tuple[int | None, int | None]:
        """The offsets that passes have committed: of half messages, and of ops."""
        query = self.offsets.query
        return query(GROUP, TRANS_HALF_TOPIC, 0), query(GROUP, TRANS_OP_HALF_TOPIC, 0)

    def after_crash(self, began_ms: int) -> TransactionRig:
        """A new store on the same disk: what was in memory only is lost."""
        return TransactionRig(self.disk, began_ms, **self._settings)


# Half messages --------------------------------------------------------------------------


def test_a_half_message_is_put_aside_with_its_queue_and_without_its_type() -> None:
    rig = TransactionRig(release=LAST_5)
    half = rig.half("K1")
    assert (half.topic, half.queue_id, half.sys_flag) == (TRANS_HALF_TOPIC, 0, 0)
    found = half.property_map()
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("orders", "3")
    assert found["__transactionId__"] == "K1"
    queue = Queue("orders", "broker-a", 3)
    assert rig.facts_of(HalfMessageStored) == [HalfMessageStored(queue, 0, 0, "pg", "K1")]
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
    assert fact.reason == "it is older than 1 hours"
    assert len(rig.messages(topic=TRANS_CHECK_MAX_TIME_TOPIC)) == 1
    assert TRANS_CHECK_MAX_TIME_TOPIC in rig.made


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


# After a crash --------------------------------------------------------------------------


@BOTH
def test_after_a_crash_open_half_messages_are_checked_and_ended_ones_are_not(
    release: str,
) -> None:
    rig = TransactionRig(release=release)
    rig.half("OPEN")
    rig.transactions.ended(rig.half("ENDED"), NOW)
    rig.run(NOW + 6_000)  # the op is written
    again = rig.after_crash(NOW + HOUR)
    again.run(NOW + 2 * HOUR - 1)
    assert {key for key, _ in again.asked} == {"OPEN"}
    assert again.asked[0] == ("OPEN", 2)


@BOTH
def test_after_a_kill_the_files_have_every_half_message_and_every_written_op(
    release: str, tmp_path: Path
) -> None:
    rig = TransactionRig(FileDisk(tmp_path / "killed"), release=release)
    halves = [rig.half(f"K{n}") for n in range(6)]
    for half in halves[:3]:
        rig.transactions.ended(half, NOW)
    rig.run(NOW + INTERVAL[release])  # checks the others, and saves no offset
    shutil.copytree(tmp_path / "killed", tmp_path / "copy", ignore=lambda *_: {"lock"})
    again = TransactionRig(FileDisk(tmp_path / "copy"), NOW + HOUR, release=release)
    again.run(NOW + HOUR + INTERVAL[release] + 1_000)
    assert {key for key, _ in again.asked} == {"K3", "K4", "K5"}


def test_an_op_that_was_only_collected_is_lost_by_a_crash_as_upstream_loses_it() -> None:
    rig = TransactionRig(release=LAST_5)
    rig.transactions.ended(rig.half("ENDED"), NOW)
    again = rig.after_crash(NOW + 1_000)
    again.run(NOW + MINUTE)
    assert again.asked == [("ENDED", 1)]


def test_a_stop_writes_the_collected_ops_if_they_are_due() -> None:
    for stop_ms, ops in ((NOW + 2_999, []), (NOW + 3_000, [b"0,"])):
        rig = TransactionRig(release=LAST_5)
        rig.transactions.ended(rig.half("ENDED"), NOW)
        rig.transactions.close(stop_ms)
        assert rig.ops() == ops


@BOTH
def test_saved_progress_beyond_the_end_of_the_log_is_set_back(release: str) -> None:
    rig = TransactionRig(release=release)
    rig.half("K0")
    rig.offsets.commit(GROUP, TRANS_HALF_TOPIC, 0, 900, NOW)
    rig.offsets.commit(GROUP, TRANS_OP_HALF_TOPIC, 0, 900, NOW)
    rig.offsets.persist(NOW)
    again = rig.after_crash(NOW)
    again.run(NOW + MINUTE)
    assert again.progress()[0] == 1
    again.half("K1", at_ms=NOW + MINUTE)
    again.run(NOW + 10 * MINUTE)
    assert again.asked[0] == ("K1", 2)


# After a loss of power --------------------------------------------------------------------


class PowerRig(TransactionRig):
    """Transactions on a disk that flushes when ``disk.finish`` is called."""

    disk: SlowDisk

    def __init__(self, disk: SlowDisk | None = None, began_ms: int = NOW, **config: Any) -> None:
        config = {"flush_disk_type": "SYNC_FLUSH", "store": "s", **config}
        super().__init__(disk or SlowDisk(), began_ms, **config)

    def flush(self) -> None:
        """Flush the whole log."""
        if not self.disk.asked:
            self.store.flushing.flush_due()
        self.disk.finish()

    def after_loss(self, began_ms: int) -> PowerRig:
        """Save the offsets, lose the power, and start again."""
        self.offsets.persist(began_ms)
        self.disk.lose_power()
        return PowerRig(self.disk, began_ms, **self._settings)


@BOTH
@pytest.mark.parametrize("kind", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_what_was_flushed_of_a_transaction_survives_a_loss_of_power(
    release: str, kind: str
) -> None:
    rig = PowerRig(release=release, flush_disk_type=kind)
    halves = [rig.half(f"K{n}") for n in range(3)]
    rig.flush()
    rig.transactions.ended(halves[0], NOW)
    rig.run(NOW + 6_000)  # the op is written
    rig.flush()
    rig.half("NOT FLUSHED", at_ms=NOW + 6_000)
    again = rig.after_loss(NOW + HOUR)
    again.run(NOW + HOUR + INTERVAL[release] + 1_000)
    assert [key for key, _ in again.asked] == ["K1", "K2"]


@BOTH
def test_a_half_message_whose_op_was_not_flushed_is_asked_about_again(release: str) -> None:
    rig = PowerRig(release=release)
    half = rig.half("K")
    rig.flush()
    rig.transactions.ended(half, NOW)
    rig.run(NOW + 6_000)
    assert rig.ops()
    again = rig.after_loss(NOW + HOUR)
    assert again.ops() == []
    again.run(NOW + HOUR + INTERVAL[release])
    assert again.asked == [("K", 1)]


@BOTH
def test_with_synchronous_flushes_progress_is_not_saved_before_the_copies_are_flushed(
    release: str,
) -> None:
    rig = PowerRig(release=release)
    rig.half("K")
    rig.flush()
    rig.run(NOW + INTERVAL[release])
    assert rig.asked == [("K", 1)]
    assert rig.progress()[0] is None
    again = rig.after_loss(NOW + HOUR)
    again.run(NOW + HOUR + INTERVAL[release])
    assert again.asked == [("K", 1)], "its copy was lost, and it was not"
    again.flush()
    again.run(NOW + HOUR + INTERVAL[release] + 1_000)
    assert again.progress()[0] == 1
    assert again.asked == [("K", 1)]


@BOTH
def test_with_synchronous_flushes_each_advance_of_time_makes_a_check(release: str) -> None:
    rig = PowerRig(release=release)
    rig.half("K")
    for count in (1, 2):
        rig.flush()
        rig.transactions.advance(INTERVAL[release], NOW)
        assert [offset for _, offset in rig.asked] == list(range(1, count + 1))


@BOTH
def test_with_asynchronous_flushes_a_check_moves_a_half_message_to_a_copy_that_may_be_lost(
    release: str,
) -> None:
    """As at upstream, which saves its progress without regard to the log."""
    rig = PowerRig(release=release, flush_disk_type="ASYNC_FLUSH")
    rig.half("K")
    rig.flush()
    rig.run(NOW + INTERVAL[release])
    again = rig.after_loss(NOW + HOUR)
    again.run(NOW + 2 * HOUR)
    assert again.asked == []


@BOTH
def test_half_messages_at_the_offsets_of_lost_ones_are_asked_about(release: str) -> None:
    rig = PowerRig(release=release, flush_disk_type="ASYNC_FLUSH")
    for n in range(3):
        rig.transactions.ended(rig.half(f"LOST{n}"), NOW)
    rig.run(NOW + 2 * INTERVAL[release])
    assert rig.progress() == (3, 3 if release == LAST_4 else 1)
    again = rig.after_loss(NOW + HOUR)
    assert again.progress() == (0, 0)
    for n in range(5):
        again.half(f"NEW{n}", at_ms=NOW + HOUR)
    again.run(NOW + HOUR + INTERVAL[release])
    assert [key for key, _ in again.asked] == [f"NEW{n}" for n in range(5)]
