"""Recovery: a log is valid up to its first bad record, and continues there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rocketmq_emulator.broker.store.appender import PutRefused
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import LogRecovered, LogTailCut
from rocketmq_emulator.protocol.messages.message_ids import host_bytes
from rocketmq_emulator.protocol.messages.properties import encode_properties
from tests.support.broker.store_makers import NOW, Rig, TinyDisk, a_message
from tests.support.paths import ROOT

HOUR_MS = 3_600_000
V6 = host_bytes("[fd00::1]:4711")


def test_a_store_that_was_never_used_recovers_nothing() -> None:
    assert Rig().facts == []


def test_r59_everything_comes_back_as_it_was() -> None:
    rig = Rig(release="5.3.3")
    for n in range(40):
        rig.put(b"%d" % n * n, n % 3, NOW + n, properties="TAGS\x01A", reconsume_times=n)
    rig.put(b"six", born_host=V6)
    rig.put(b"six and six", born_host=V6, store_host=V6)
    rig.store.put(a_message(topic="%RETRY%" + "g" * 200), NOW)
    again = rig.reopened()
    (recovered,) = again.facts
    assert isinstance(recovered, LogRecovered)
    assert (recovered.message_count, recovered.min_position) == (43, 0)
    assert recovered.end_position == rig.store.log.end_position
    for queue_id in range(3):
        assert again.messages(queue_id) == rig.messages(queue_id)
        before, after = rig.store.queue("orders", queue_id), again.store.queue("orders", queue_id)
        assert before is not None
        assert after is not None
        assert (before.positions, before.codes) == (after.positions, after.codes)
    assert again.bodies(topic="%RETRY%" + "g" * 200) == [b"hello"]


# Cuts -------------------------------------------------------------------------------------

# Without NUL: a last record whose properties end with it looks as if its end was never written.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2"), min_size=1, max_size=20)
properties_blocks = st.dictionaries(texts, texts, max_size=3).map(
    lambda pairs: encode_properties(pairs, trailing=False).decode()
)
messages = st.lists(
    st.tuples(st.binary(max_size=300), st.integers(0, 2), properties_blocks),
    min_size=1,
    max_size=25,
)


@given(messages, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_a_tail_lost_at_any_byte_costs_what_it_touches_and_nothing_else(
    given_messages: list[tuple[bytes, int, str]], chance: random.Random
) -> None:
    rig = Rig()
    ends = []
    for body, queue_id, properties in given_messages:
        put = rig.put(body, queue_id, properties=properties)
        ends.append((put.position + put.size, queue_id, body))
    cut = chance.randint(0, rig.store.log.end_position)
    lose_from(rig, cut)
    again = rig.reopened()
    for queue_id in range(3):
        kept = [body for end, q, body in ends if end <= cut and q == queue_id]
        found = again.bodies(queue_id)
        # A record of which only zeros were cut is still whole.
        assert found[: len(kept)] == kept
        assert len(found) <= len(kept) + 1
        assert again.put(queue_id=queue_id).queue_offset == len(found)
    third = again.reopened()
    assert third.store.log.end_position == again.store.log.end_position
    assert not third.facts_of(LogTailCut)


def lose_from(rig: Rig, position: int) -> None:
    """Set all bytes from *position* on to zero, as if never written."""
    for segment in rig.store.log.segments:
        if segment.base + segment.size > position:
            start = max(0, position - segment.base)
            segment.view[start:] = bytes(segment.size - start)


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_flipped_byte_never_breaks_recovery_and_spares_what_is_before_it(
    data: st.DataObject,
) -> None:
    rig = Rig()
    puts = [rig.put(b"%d" % n + bytes(n * 9), properties="TAGS\x01A") for n in range(20)]
    at = data.draw(st.integers(0, rig.store.log.end_position - 1))
    mask = data.draw(st.integers(1, 255))
    # An offset of 0 is no damage: a topic that a real broker recreated starts with it.
    assume((at, mask) != (puts[1].position + 27, 1))
    rig.store.log.read(at, 1)[0] ^= mask
    again = rig.reopened()
    whole = sum(put.position + put.size <= at for put in puts)
    assert again.store.max_offset("orders", 0) >= whole
    assert again.bodies()[:whole] == rig.bodies()[:whole]
    again.put(b"after")
    assert again.reopened().bodies()[-1] == b"after"


def test_r58_a_cut_tail_is_told_with_its_reason_and_stale_bytes_never_come_back() -> None:
    rig = Rig(MemoryDisk())
    puts = [rig.put(b"x" * 100, properties="TAGS\x01A") for _ in range(5)]
    damage = puts[2].position + 90
    rig.store.log.read(damage, 1)[0] ^= 0xFF
    again = rig.reopened()
    assert again.facts_of(LogTailCut) == [
        LogTailCut(
            puts[2].position,
            "the body does not have its CRC",
            message_count=3,
            cut_bytes=puts[4].position + puts[4].size - puts[2].position,
            file="commitlog/00000000000000000000",
            file_position=puts[2].position,
        )
    ]
    again.put(b"x" * 100)
    third = again.reopened()
    assert len(third.bodies()) == 3
    assert third.put().queue_offset == 3


def test_a_cut_tail_is_counted_over_several_segments_and_damaged_lengths() -> None:
    rig = Rig(TinyDisk(4096))
    puts = [rig.put(bytes(900), properties="TAGS\x01A") for _ in range(10)]  # four in each segment
    rig.store.log.read(puts[1].position, 4)[:] = b"\x7f\xff\xff\xff"
    (cut,) = rig.reopened().facts_of(LogTailCut)
    end = puts[9].position + puts[9].size
    assert (cut.message_count, cut.cut_bytes) == (9, end - puts[1].position)


def test_records_that_a_message_carries_in_its_body_are_not_counted() -> None:
    rig = Rig(MemoryDisk())
    first = rig.put()
    carried = bytes(rig.store.log.read(first.position, first.size))
    second = rig.put(carried)
    rig.store.log.read(second.position + 90, 1)[0] ^= 0xFF
    (cut,) = rig.reopened().facts_of(LogTailCut)
    assert (cut.position, cut.message_count) == (second.position, 1)


def test_a_record_of_which_only_the_first_bytes_were_written_counts_as_one() -> None:
    rig = Rig()
    puts = [rig.put() for _ in range(3)]
    lose_from(rig, puts[2].position + 10)
    (cut,) = rig.reopened().facts_of(LogTailCut)
    assert (cut.message_count, cut.cut_bytes) == (1, 10)


def test_a_queue_offset_out_of_order_ends_the_log() -> None:
    rig = Rig()
    puts = [rig.put() for _ in range(5)]
    rig.store.log.read(puts[3].position + 27, 1)[0] = 9
    again = rig.reopened()
    (cut,) = again.facts_of(LogTailCut)
    assert (cut.position, cut.reason) == (puts[3].position, "offset 9 where 3 comes next")
    assert again.put().queue_offset == 3


def test_a_crash_between_two_segments_is_no_damage() -> None:
    rig = Rig(TinyDisk(4096))
    for _ in range(4):
        rig.put(bytes(900))
    rig.disk.open_segment(4096, 4096)  # reserved, then the process died
    again = rig.reopened()
    assert not again.facts_of(LogTailCut)
    assert len(again.bodies()) == 4
    assert again.put(bytes(900)).position == 4096


def test_a_record_whose_properties_end_in_zeros_is_whole_unless_it_is_the_last() -> None:
    rig = Rig()
    rig.put(properties="k\x01v\0\0")
    rig.put()
    assert len(rig.reopened().bodies()) == 2


def test_a_store_opens_with_other_segment_sizes_than_it_was_made_with() -> None:
    rig = Rig(TinyDisk(4096))
    for n in range(9):
        rig.put(b"%d" % n + bytes(900))
    disk = TinyDisk(16_384)
    disk._segments = rig.disk._segments
    again = Rig(disk)
    assert again.bodies() == rig.bodies()
    for n in range(9, 30):
        again.put(b"%d" % n + bytes(900))
    assert {segment.size for segment in again.store.log.segments} == {4096, 16_384}
    assert len(again.reopened().bodies()) == 30


def test_a_lost_tail_does_not_hide_what_a_successor_topic_stores_there() -> None:
    rig = Rig()
    rig.put(b"kept", queue_id=1)
    put = rig.put(b"old")
    rig.store.drop_topic("orders")
    lose_from(rig, put.position)
    again = rig.reopened()
    again.put(b"new")
    assert again.reopened().bodies() == [b"new"]


# Killed processes -------------------------------------------------------------------------

WRITER = """
import sys
from tests.support.broker.store_makers import Rig, a_message
from rocketmq_emulator.disk.files import FileDisk
rig = Rig(FileDisk(sys.argv[1]), store=sys.argv[1])
while True:
    rig.put(b"%d" % rig.store.max_offset("orders", 0))
    print(rig.store.max_offset("orders", 0), flush=True)
"""


def test_invariant_74_a_killed_broker_loses_nothing_it_has_answered(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    for _ in range(200):
        acknowledged = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged = max([acknowledged, *map(int, writer.stdout.read().split(b"\n")[:-1])])
    writer.wait()
    writer.stdout.close()
    rig = Rig(FileDisk(tmp_path), store=str(tmp_path))
    assert acknowledged <= rig.store.max_offset("orders", 0) <= acknowledged + 1
    assert rig.bodies()[:acknowledged] == [b"%d" % n for n in range(acknowledged)]


# Random operations ------------------------------------------------------------------------


class StoreLife(RuleBasedStateMachine):
    """Puts, restarts, retention and full disks in any order, compared with plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(TinyDisk(4096))
        self.put_bodies: dict[int, list[bytes]] = {0: [], 1: []}
        self.now_ms = NOW

    @rule(queue_id=st.integers(0, 1), body=st.binary(max_size=1500), later_ms=st.integers(0, 5))
    def put(self, queue_id: int, body: bytes, later_ms: int) -> None:
        self.now_ms += later_ms * HOUR_MS
        try:
            put = self.rig.put(body, queue_id, self.now_ms)
        except PutRefused:
            assert self.rig.disk.bytes_max is not None
            return
        assert put.queue_offset == len(self.put_bodies[queue_id])
        self.put_bodies[queue_id].append(body)

    @rule()
    def restart(self) -> None:
        self.rig = self.rig.reopened()

    @rule()
    def drop_expired(self) -> None:
        self.rig.store.drop_expired(self.now_ms)

    @rule(hours=st.integers(1, 100))
    def pass_time(self, hours: int) -> None:
        self.now_ms += hours * HOUR_MS

    @rule()
    def fill_the_disk(self) -> None:
        self.rig.disk.bytes_max = self.rig.disk.bytes_used + 500

    @precondition(lambda self: self.rig.disk.bytes_max is not None)
    @rule()
    def make_room(self) -> None:
        self.rig.disk.bytes_max = None

    @invariant()
    def what_is_there_is_what_was_put(self) -> None:
        for queue_id, bodies in self.put_bodies.items():
            first = self.rig.store.min_offset("orders", queue_id)
            assert self.rig.store.max_offset("orders", queue_id) == len(bodies)
            assert self.rig.bodies(queue_id) == bodies[first:]

    @invariant()
    def what_is_young_is_there(self) -> None:
        for queue_id, bodies in self.put_bodies.items():
            young_ms = self.rig.store.earliest_ms("orders", queue_id)
            assert bodies == [] or young_ms != -1 or self.now_ms > NOW + 72 * HOUR_MS


TestStoreLife = StoreLife.TestCase
TestStoreLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_a_log_in_files_is_read_again_in_order(tmp_path: Path, count: int) -> None:
    rig = Rig(FileDisk(tmp_path), store=str(tmp_path))
    for n in range(count):
        rig.put(b"%d" % n)
    rig.store.close()
    rig.disk.close()
    again = Rig(FileDisk(tmp_path), store=str(tmp_path))
    assert again.bodies() == [b"%d" % n for n in range(count)]
