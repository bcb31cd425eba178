"""A store that leads or follows in turn: what consumers may read, and logs that are cut."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.store.appender import PutRefused
from rocketmq_emulator.broker.store.store import HAS_NO_ROLE
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import LogCopied, LogFlushed, MessageStored
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from tests.support.broker.store_makers import NOW, Rig, SlowDisk, TinyDisk, a_message


def of_log(rig: Rig) -> bytes:
    """All bytes of the log, which is one file."""
    return bytes(rig.store.log.read_to_segment_end(rig.store.log.min_position))


# Roles --------------------------------------------------------------------------------


def test_a_store_without_a_role_takes_no_puts_until_it_leads() -> None:
    rig = Rig()
    rig.store.follow(HAS_NO_ROLE)
    with pytest.raises(PutRefused, match="no role yet"):
        rig.put()
    rig.store.lead()
    assert rig.put().queue_offset == 0
    assert rig.bodies() == [b"hello"]


def test_a_master_that_becomes_a_slave_copies_from_the_end_of_its_log() -> None:
    other, rig = Rig(), Rig()
    for body in (b"1", b"2"):
        other.put(body)
        rig.put(body)
    end = rig.store.log.end_position
    other.put(b"3")
    rig.store.follow()
    copied = rig.store.copy()
    copied.append(end, of_log(other)[end:])
    assert rig.bodies() == [b"1", b"2", b"3"]
    with pytest.raises(PutRefused, match="is a slave"):
        rig.put()


def test_a_slave_that_becomes_a_master_goes_on_with_the_next_queue_offset() -> None:
    other, rig = Rig(), Rig()
    for body in (b"1", b"2"):
        other.put(body)
    rig.store.follow()
    rig.store.copy().append(0, of_log(other))
    rig.store.lead()
    assert rig.put(b"3").queue_offset == 2
    assert rig.bodies() == [b"1", b"2", b"3"]
    rig.store.follow()
    other.put(b"3")
    other.put(b"4")
    end = rig.store.log.end_position
    rig.rung.clear()
    rig.store.copy().append(end, of_log(other)[end:])
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]
    assert len(rig.rung) == 1
    assert rig.facts_of(LogCopied)[-1] == LogCopied(rig.store.log.end_position, 98, 1)


# What is confirmed --------------------------------------------------------------------


def test_a_message_is_stored_at_once_and_read_when_it_is_confirmed() -> None:
    rig = Rig()
    rig.store.lead()
    rig.store.confirm(0)
    first, second = rig.put(b"1"), rig.put(b"2")
    assert (first.queue_offset, second.queue_offset) == (0, 1)
    assert len(rig.facts_of(MessageStored)) == 2
    assert rig.bodies() == []
    assert rig.store.max_offset("orders", 0) == 0
    assert rig.rung == []
    rig.store.confirm(second.position + second.size - 1)
    assert rig.bodies() == [b"1"]
    rig.store.confirm(second.position + second.size)
    assert rig.bodies() == [b"1", b"2"]
    assert rig.rung == [(("orders", 0), (1, 0)), (("orders", 0), (2, 0))]
    assert rig.put(b"3").queue_offset == 2


def test_batches_wait_for_their_confirmation_too() -> None:
    rig = Rig()
    rig.store.lead()
    rig.store.confirm(0)
    rig.put(b"0")
    puts = rig.store.put_all([a_message(b"1"), a_message(b"2")], NOW)
    assert [put.queue_offset for put in puts] == [1, 2]
    assert rig.rung == rig.bodies() == []
    rig.store.confirm(rig.store.log.end_position)
    assert rig.bodies() == [b"0", b"1", b"2"]


def test_without_a_limit_all_messages_are_readable_and_all_that_follow() -> None:
    rig = Rig()
    rig.store.lead()
    rig.store.confirm(0)
    rig.put(b"1")
    rig.store.confirm(None)
    rig.put(b"2")
    assert rig.bodies() == [b"1", b"2"]


def test_a_limit_hides_no_message_that_was_readable() -> None:
    rig = Rig()
    rig.store.lead()
    rig.put(b"1")
    rig.put(b"2")
    rig.rung.clear()
    rig.store.confirm(0)
    rig.put(b"3")
    assert rig.bodies() == [b"1", b"2"]
    rig.store.confirm(rig.store.log.end_position)
    assert rig.bodies() == [b"1", b"2", b"3"]
    assert rig.rung == [(("orders", 0), (3, 0))]


def test_confirming_goes_on_over_the_ends_of_files() -> None:
    rig = Rig(TinyDisk(1024))
    rig.store.lead()
    rig.store.confirm(0)
    for number in range(30):
        rig.put(b"%d" % number)
    assert len(rig.store.log.segments) > 2
    rig.store.confirm(rig.store.log.end_position)
    assert rig.bodies() == [b"%d" % number for number in range(30)]


def test_a_slave_reads_what_is_confirmed_and_no_more() -> None:
    other, rig = Rig(), Rig()
    ends = [put.position + put.size for put in (other.put(b"1"), other.put(b"2"))]
    rig.store.follow()
    rig.store.confirm(0)
    rig.store.copy().append(0, of_log(other))
    assert rig.bodies() == []
    rig.store.confirm(ends[0])
    assert rig.bodies() == [b"1"]
    rig.store.confirm(None)
    assert rig.bodies() == [b"1", b"2"]


def test_a_new_master_counts_messages_that_are_not_confirmed_yet() -> None:
    other, rig = Rig(), Rig()
    end = other.put(b"1").size
    other.put(b"2")
    other.put(b"of another queue", queue_id=3)
    rig.store.follow()
    rig.store.confirm(end)
    rig.store.copy().append(0, of_log(other))
    rig.store.lead()
    assert rig.put(b"3").queue_offset == 2
    assert rig.put(b"4", queue_id=3).queue_offset == 1
    rig.store.confirm(None)
    assert rig.bodies() == [b"1", b"2", b"3"]
    assert rig.bodies(3) == [b"of another queue", b"4"]


def test_a_delayed_message_is_planned_when_it_is_confirmed() -> None:
    rig = Rig()
    planned: list[str] = []
    rig.store.on_confirmed = planned.append
    rig.store.lead()
    rig.store.confirm(0)
    rig.store.put(a_message(topic=SCHEDULE_TOPIC, queue_id=2, properties="DELAY\x013\x02"), NOW)
    assert planned == []
    rig.store.confirm(rig.store.log.end_position)
    assert planned == [SCHEDULE_TOPIC]


def test_a_dropped_file_is_skipped_although_it_was_not_confirmed() -> None:
    rig = Rig(TinyDisk(1024))
    dropped: list[int] = []
    rig.store.on_dropped = dropped.append
    rig.store.lead()
    rig.store.confirm(0)
    for number in range(30):
        rig.put(b"%d" % number)
    rig.store.drop_expired(NOW + 100 * 24 * 3_600_000)
    assert dropped == [rig.store.log.min_position]
    rig.store.confirm(rig.store.log.end_position)
    assert rig.bodies()[-1] == b"29"


# Cut logs -----------------------------------------------------------------------------


def filled(disk: Any = None, count: int = 30) -> tuple[Rig, list[int]]:
    """A slave with messages in two queues, and where each message begins."""
    rig = Rig(disk or TinyDisk(1024))
    puts = [rig.put(b"%d" % number, queue_id=number % 2) for number in range(count)]
    rig.store.follow()
    return rig, [put.position for put in puts]


def test_a_log_is_cut_with_its_queues() -> None:
    rig, positions = filled()
    assert rig.store.truncate(positions[11]) == 19
    assert rig.store.log.end_position == positions[11]
    assert rig.bodies(0) == [b"0", b"2", b"4", b"6", b"8", b"10"]
    assert rig.store.max_offset("orders", 1) == 5
    assert rig.reopened().bodies(1) == rig.bodies(1)


def test_a_cut_log_is_continued_by_other_bytes_or_by_puts() -> None:
    rig, positions = filled()
    rig.store.truncate(positions[11])
    rig.store.lead()
    put = rig.put(b"new", queue_id=1)
    assert (put.position, put.queue_offset) == (positions[11], 5)
    assert rig.bodies(1) == [b"1", b"3", b"5", b"7", b"9", b"new"]


def test_a_log_that_is_cut_at_its_start_or_before_is_empty() -> None:
    rig, positions = filled()
    assert rig.store.truncate(0) == 30
    assert rig.store.log.end_position == 0
    assert rig.bodies() == []
    rig, positions = filled()
    rig.store.drop_expired(NOW + 100 * 24 * 3_600_000)
    rig.store.truncate(positions[1])
    assert rig.store.log.end_position == 0
    assert not rig.store.log.segments
    other = Rig()
    put = other.put(b"far away")
    rig.store.copy().append(512, of_log(other)[: put.size])
    assert rig.store.log.end_position == 512 + put.size


def test_what_was_written_where_a_log_was_cut_must_be_flushed_again() -> None:
    disk = SlowDisk()
    rig = Rig(disk, flush_disk_type="ASYNC_FLUSH")
    positions = [rig.put(b"%d" % number).position for number in range(10)]
    flushing = rig.store.flushing
    flushing.flush_due()
    disk.finish()
    assert flushing.flushed_to == rig.store.log.end_position
    rig.store.follow()
    rig.store.truncate(positions[4])
    assert flushing.flushed_to == positions[4]
    rig.store.lead()
    rig.put(b"new")
    assert flushing.unflushed_bytes == rig.store.log.end_position - positions[4]
    flushing.flush_due()
    disk.finish()
    assert flushing.flushed_to == rig.store.log.end_position
    assert rig.facts_of(LogFlushed)


def test_a_flush_that_was_asked_for_before_a_cut_says_nothing_of_later_bytes() -> None:
    disk = SlowDisk()
    rig = Rig(disk, flush_disk_type="ASYNC_FLUSH")
    positions = [rig.put(b"%d" % number).position for number in range(10)]
    rig.store.flushing.flush_due()
    rig.store.follow()
    rig.store.truncate(positions[4])
    disk.finish()
    assert rig.store.flushing.flushed_to <= positions[4]


def test_the_end_of_the_last_whole_message_is_found_in_a_log_that_ends_with_half_of_one() -> None:
    other, rig = Rig(MemoryDisk()), Rig(MemoryDisk())
    other.put(b"1")
    second = other.put(b"2")
    data = of_log(other)
    rig.store.follow()
    copied = rig.store.copy()
    copied.append(0, data[: second.position + 50])
    assert copied.parsable_to() == second.position
    assert copied.is_record_at(0)
    assert not copied.is_record_at(7)
    assert not copied.is_record_at(second.position)
    copied.append(second.position + 50, data[second.position + 50 :])
    assert copied.parsable_to() == len(data)
    assert copied.is_record_at(second.position)


def test_a_place_to_cut_at_must_begin_a_message_whose_body_is_whole() -> None:
    other, rig = Rig(MemoryDisk()), Rig(MemoryDisk())
    other.put(b"first")
    rig.store.follow()
    rig.store.copy().append(0, of_log(other).replace(b"first", b"fiRst"))
    assert not rig.store.copy().is_record_at(0), "upstream's isOffsetAligned checks the body"
