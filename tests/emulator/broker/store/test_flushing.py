"""When the log is flushed: at once, or when enough was written or enough time has passed."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.broker.store.flushing import PAGE_BYTES, Flushing
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import Fact, FlushFailed, LogFlushed
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.broker.store_makers import SlowDisk

BEGAN = 1_700_000_000_250
ERROR = OSError(5, "Input/output error")


class Rig:
    def __init__(self, disk: Any = None, **settings: Any) -> None:
        self.disk = SlowDisk() if disk is None else disk
        self.facts: list[Fact] = []
        self.heard: list[tuple[str, int]] = []
        self.plans = 0
        self.flushing = Flushing(
            self.disk,
            BrokerConfig(store="somewhere", **settings),
            note=self.facts.append,
            wants=lambda _kind: True,
            began_ms=BEGAN,
        )
        self.flushing.on_flushed = lambda position: self.heard.append(("flushed", position))
        self.flushing.on_failed = lambda position: self.heard.append(("failed", position))
        self.flushing.on_planned = self._planned

    def _planned(self) -> None:
        self.plans += 1

    def due_ms(self, after_ms: int = 0) -> int | None:
        """The next flush, in milliseconds after the start."""
        due_ms = self.flushing.next_due_ms(BEGAN + after_ms)
        return None if due_ms is None else due_ms - BEGAN


def a_sync_rig() -> Rig:
    return Rig(flush_disk_type="SYNC_FLUSH")


def test_a_synchronous_put_is_flushed_at_once_and_one_flush_answers_all_who_asked() -> None:
    rig = a_sync_rig()
    rig.flushing.wrote(100)
    rig.flushing.wrote(350, 2)
    assert [upto for upto, _ in rig.disk.asked] == [100, 350]
    assert rig.heard == []
    rig.disk.finish()
    assert rig.heard == [("flushed", 350)]
    assert rig.facts == [LogFlushed(350, 350, message_count=3)]
    assert rig.flushing.flushed_to == 350


def test_what_was_written_during_a_flush_is_part_of_the_next() -> None:
    rig = a_sync_rig()
    rig.flushing.wrote(100)
    first, rig.disk.asked = rig.disk.asked, []
    rig.flushing.wrote(200)
    first[0][1](100)
    rig.disk.finish()
    assert rig.heard == [("flushed", 100), ("flushed", 200)]
    assert rig.facts == [LogFlushed(100, 100, 1), LogFlushed(200, 100, 1)]


def test_a_flush_that_fails_is_told_to_those_who_asked_and_noted_once() -> None:
    rig = a_sync_rig()
    for end in (100, 200):
        rig.flushing.wrote(end)
        rig.disk.finish(ERROR)
    assert rig.heard == [("failed", 100), ("failed", 200)]
    assert rig.facts == [FlushFailed(0, str(ERROR))]
    rig.flushing.wrote(300)
    rig.disk.finish()
    assert rig.heard[2:] == [("flushed", 300)]
    assert rig.facts[1:] == [LogFlushed(300, 300, 3)]


def test_after_a_failure_it_is_tried_again_without_another_put() -> None:
    rig = a_sync_rig()
    rig.flushing.wrote(100)
    assert rig.due_ms() is None
    rig.disk.finish(ERROR)
    assert rig.plans == 1
    assert rig.due_ms(600) == 1_000
    rig.flushing.flush_due()
    assert rig.due_ms(1_000) is None
    rig.disk.finish()
    assert rig.heard == [("failed", 100), ("flushed", 100)]
    assert rig.due_ms(1_000) is None


def test_little_is_flushed_every_ten_seconds() -> None:
    rig = Rig()
    assert rig.due_ms() is None
    rig.flushing.wrote(100)
    rig.flushing.wrote(200)
    assert rig.plans == 1
    assert rig.disk.asked == []
    assert rig.due_ms(7_100) == 10_000
    assert rig.due_ms(10_000) == 20_000
    rig.flushing.flush_due()
    rig.disk.finish()
    assert rig.facts == [LogFlushed(200, 200, 2)]
    assert rig.due_ms(10_000) is None


def test_four_pages_are_flushed_at_the_next_half_second() -> None:
    rig = Rig()
    rig.flushing.wrote(4 * PAGE_BYTES - 1)
    assert rig.due_ms(1_100) == 10_000
    rig.flushing.wrote(4 * PAGE_BYTES)
    assert rig.plans == 2
    assert rig.due_ms(1_100) == 1_500
    rig.flushing.wrote(5 * PAGE_BYTES)
    assert rig.plans == 2


def test_pages_are_counted_from_the_one_that_was_flushed_last() -> None:
    rig = Rig()
    rig.flushing.wrote(4 * PAGE_BYTES + 1)
    rig.flushing.flush_due()
    rig.disk.finish()
    rig.flushing.wrote(8 * PAGE_BYTES - 1)
    assert rig.due_ms() == 10_000
    rig.flushing.wrote(8 * PAGE_BYTES)
    assert rig.due_ms() == 500


def test_what_was_written_during_a_planned_flush_is_planned_when_that_ends() -> None:
    rig = Rig()
    rig.flushing.wrote(100)
    rig.flushing.flush_due()
    rig.flushing.wrote(9 * PAGE_BYTES)
    assert rig.due_ms() is None
    rig.disk.finish()
    assert rig.due_ms() == 500
    assert rig.plans >= 2


def test_an_asynchronous_flush_that_fails_is_tried_again_at_the_next_interval() -> None:
    rig = Rig()
    rig.flushing.wrote(100)
    rig.flushing.flush_due()
    rig.disk.finish(ERROR)
    assert rig.facts == [FlushFailed(0, str(ERROR))]
    assert rig.due_ms(20) == 500
    rig.flushing.flush_due()
    rig.disk.finish()
    assert rig.facts[1:] == [LogFlushed(100, 100, 1)]


def test_memory_is_never_flushed() -> None:
    rig = Rig(MemoryDisk())
    rig.flushing.recovered(0, 500)
    rig.flushing.wrote(100 * PAGE_BYTES)
    rig.flushing.finish()
    assert rig.plans == 0
    assert rig.heard == []


def test_what_was_found_on_the_disk_is_flushed_at_once_because_its_writer_may_have_died() -> None:
    rig = Rig()
    rig.flushing.recovered(1_000, 5_000)
    rig.disk.finish()
    assert rig.facts == [LogFlushed(5_000, 4_000, 0)]
    Rig().flushing.recovered(0, 0)


def test_the_last_flush_is_for_nobody() -> None:
    rig = Rig()
    rig.flushing.wrote(100)
    rig.flushing.finish()
    assert [upto for upto, _ in rig.disk.asked] == [100]
    rig.disk.finish()
    assert rig.heard == []
