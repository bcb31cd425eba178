"""Transactions after a crash, a kill and a loss of power: a store that is given the time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketmq_emulator.broker.store.transaction_checks import GROUP
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.protocol.messages.names import (
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from tests.support.broker.store_makers import LAST_4, LAST_5, NOW
from tests.support.broker.transaction_rigs import (
    BOTH,
    HOUR,
    INTERVAL,
    MINUTE,
    PowerRig,
    TransactionRig,
)


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
    rig.offsets.persist()
    again = rig.after_crash(NOW)
    again.run(NOW + MINUTE)
    assert again.progress()[0] == 1
    again.half("K1", at_ms=NOW + MINUTE)
    again.run(NOW + 10 * MINUTE)
    assert again.asked[0] == ("K1", 2)


# After a loss of power --------------------------------------------------------------------


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
