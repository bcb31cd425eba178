"""A log damaged while no broker ran is cut at its first bad record and continued from there.

The tests damage the file, at places computed from the positions of the records.  The next
broker must start, note once where it cut the log and why, and never serve later records.
"""

from __future__ import annotations

import shutil
import struct

import pytest
import trio

from rocketmq_emulator.facts import LogRecovered, LogTailCut
from rocketmq_emulator.settings.config import BrokerConfig
from tests.durability.killed_cluster import (
    BROKER,
    SMALL,
    a_cluster,
    facts_of,
    failed_start,
    questions_to,
    store_of,
    wait_restarted,
)

MESSAGES, BAD = 12, 9
BODIES = [b"%d " % n + b"x" * 200 for n in range(MESSAGES)]
SEGMENT = struct.Struct(">I")


class Segment:
    """The last file of a log; ``places``: each start of a record, and the end of the last one."""

    def __init__(self, folder) -> None:
        self.path = max((store_of(folder) / "commitlog").iterdir())
        self.base = int(self.path.name)
        self.bytes = bytearray(self.path.read_bytes())
        self.places = [0]
        while size := SEGMENT.unpack_from(self.bytes, self.places[-1])[0]:
            self.places.append(self.places[-1] + size)

    def save(self) -> None:
        self.path.write_bytes(self.bytes)


@pytest.fixture(scope="module")
def a_store(tmp_path_factory):
    """The store of a killed broker: a topic, and a log of some messages."""
    folder = tmp_path_factory.mktemp("killed")

    async def fill() -> None:
        with a_cluster(folder) as cluster:
            async with questions_to(cluster) as ask:
                await ask.create_topic("orders", 1)
                for body in BODIES:
                    await ask.stored("orders", 0, body)
                cluster.kill(BROKER)

    trio.run(fill)
    return folder


@pytest.fixture
def folder(a_store, tmp_path):
    """A copy of the store, to be damaged."""
    shutil.copytree(a_store / "store", tmp_path / "store")
    return tmp_path


def flipped(at):
    """Inverts the byte at offset *at* of the record."""

    def damage(segment, place) -> None:
        segment.bytes[place + at] ^= 0xFF

    return damage


def truncated(at):
    def damage(segment, place) -> None:
        del segment.bytes[place + at :]

    return damage


def never_written(at):
    """Zeroes all bytes from there on; the file keeps its length."""

    def damage(segment, place) -> None:
        segment.bytes[place + at :] = bytes(len(segment.bytes) - place - at)

    return damage


def zeroed(segment, place) -> None:
    """Sets the record's size to 0, which marks the end of a log, although records follow."""
    segment.bytes[place : place + 4] = bytes(4)


DAMAGES = {
    "size of 0": zeroed,
    "size": flipped(0),
    "size by a few bytes": flipped(3),
    "magic": flipped(4),
    "crc": flipped(11),
    "queue id": flipped(12),
    "queue offset": flipped(27),
    "position": flipped(35),
    "body length": flipped(87),
    "body": flipped(90),
    "truncated in the head": truncated(40),
    "truncated in the body": truncated(100),
    "head not written": never_written(40),
    "body not written": never_written(100),
}


async def bodies_in(ask):
    return [message.body for message in await ask.messages("orders", 0)]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
async def test_a_log_is_served_up_to_its_first_bad_record_and_goes_on_there(
    folder, damage
) -> None:
    segment = Segment(folder)
    damage(segment, segment.places[BAD])
    segment.save()
    with a_cluster(folder) as cluster:
        async with questions_to(cluster) as ask:
            assert await bodies_in(ask) == BODIES[:BAD]
            assert await ask.stored("orders", 0, b"after") == BAD
            await wait_restarted(cluster)
            assert await bodies_in(ask) == [*BODIES[:BAD], b"after"]
    (cut,) = facts_of(folder, LogTailCut)
    assert cut["position"] == segment.places[BAD]
    assert cut["reason"]
    assert [fact["message_count"] for fact in facts_of(folder, LogRecovered)] == [BAD, BAD + 1]


async def test_garbage_behind_the_last_record_costs_no_message(folder) -> None:
    segment = Segment(folder)
    end = segment.places[-1]
    segment.bytes[end : end + 100] = b"\x7f" * 100
    segment.save()
    with a_cluster(folder) as cluster:
        async with questions_to(cluster) as ask:
            assert await bodies_in(ask) == BODIES
            assert await ask.stored("orders", 0, b"after") == MESSAGES
    (cut,) = facts_of(folder, LogTailCut)
    assert cut["position"] == end


@pytest.mark.parametrize("left", [0, 3, 7])
async def test_a_file_that_ends_between_two_records_is_a_shorter_log(folder, left) -> None:
    segment = Segment(folder)
    truncated(left)(segment, segment.places[BAD])
    segment.save()
    with a_cluster(folder) as cluster:
        async with questions_to(cluster) as ask:
            assert await bodies_in(ask) == BODIES[:BAD]
            assert await ask.stored("orders", 0, b"after") == BAD
            await wait_restarted(cluster)
            assert await bodies_in(ask) == [*BODIES[:BAD], b"after"]


async def test_a_file_of_no_bytes_is_a_log_without_messages(folder) -> None:
    segment = Segment(folder)
    del segment.bytes[:]
    segment.save()
    with a_cluster(folder) as cluster:
        async with questions_to(cluster) as ask:
            assert await bodies_in(ask) == []
            assert await ask.stored("orders", 0, b"after") == 0
            await wait_restarted(cluster)
            assert await bodies_in(ask) == [b"after"]


def flipped_in_the_body(second) -> None:
    second[100] ^= 0xFF


def emptied(second) -> None:
    second[:] = bytes(len(second))


@pytest.mark.parametrize("damage", [flipped_in_the_body, emptied])
async def test_damage_in_the_middle_of_several_segments_ends_the_log(tmp_path, damage) -> None:
    bodies = [b"%d " % n + bytes(60_000) for n in range(12)]
    with a_cluster(tmp_path, **SMALL) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("orders", 1)
            for body in bodies:
                await ask.stored("orders", 0, body)
            cluster.kill(BROKER)
            files = sorted((store_of(tmp_path) / "commitlog").iterdir())
            assert len(files) == 3
            second = bytearray(files[1].read_bytes())
            damage(second)
            files[1].write_bytes(second)
            await wait_restarted(cluster)
            assert await bodies_in(ask) == bodies[:4]
            assert await ask.stored("orders", 0, b"after") == 4
    (cut,) = facts_of(tmp_path, LogTailCut)
    assert cut["position"] == int(files[1].name)
    assert sorted((store_of(tmp_path) / "commitlog").iterdir()) == files[:2]


def test_a_log_with_a_missing_middle_is_refused_in_one_line(folder) -> None:
    segment = Segment(folder)
    last = int(segment.path.name) + 3 * len(segment.bytes)
    segment.path.with_name(f"{last:020d}").write_bytes(bytes(len(segment.bytes)))
    config = BrokerConfig(listen_address="127.0.0.1:0", store=str(store_of(folder)))
    code, lines = failed_start(config)
    assert code == 1
    (line,) = lines
    assert "begins at" in line
