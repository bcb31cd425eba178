"""A damaged store: each kind of damage is a warning that names the file and what is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.state.consistency import find_inconsistencies
from rocketmq_emulator.clocks.clock import StoppedClock
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import Disk, StoreDamaged
from rocketmq_emulator.facts import (
    DocumentDamaged,
    Fact,
    LogTailCut,
    MessagesWithoutTopic,
    OddFileFound,
    OffsetsBeyondLog,
)
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.broker.store_makers import LAST_5, NOW, Rig, TinyDisk, a_message

GARBAGE = b"{ no table"
NO_WRITE_IS_TORN_SO = range(4)


class Life:
    """One broker on *disk*, and the facts of its start."""

    def __init__(self, disk: Disk) -> None:
        self.facts: list[Fact] = []
        journal = Journal("broker-a", StoppedClock(NOW))
        journal.listen(lambda entry: self.facts.append(entry.fact))
        self.broker = Broker(BrokerConfig(release=LAST_5), disk=disk, journal=journal, now_ms=NOW)
        self.facts += find_inconsistencies(self.broker)

    def warnings(self) -> list[Fact]:
        return [fact for fact in self.facts if fact.severity == "warning"]

    def store(self, count: int, topic: str = "orders") -> None:
        if topic not in self.broker.topics.topic_config_table:
            self.broker.update_topic(
                TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1), NOW
            )
        for n in range(count):
            self.broker.store.put(a_message(b"%d" % n, topic=topic), NOW)

    def commit(self, offset: int, group: str = "billing") -> None:
        self.broker.offsets.commit(group, "orders", 0, offset, NOW)


@pytest.fixture
def disk() -> MemoryDisk:
    """The disk of a closed broker with eight messages, of which its group consumed five."""
    disk = MemoryDisk()
    life = Life(disk)
    life.store(8)
    life.commit(5)
    life.broker.close(NOW)
    return disk


def test_a_store_that_is_whole_is_no_warning(disk: MemoryDisk) -> None:
    assert Life(disk).warnings() == []


@pytest.mark.parametrize(
    ("damage", "count"),
    [
        (lambda log: log.__setitem__(slice(4, 11), b"\1\2\3\4\5\6\7"), 8),
        (lambda log: log.__setitem__(slice(0, 4), bytes(4)), 8),  # size 0: also the end of a log
        (lambda log: log.__setitem__(slice(0, 40), bytes(40)), 7),
    ],
)
def test_damage_in_the_first_record_names_file_place_and_messages_behind_it(
    disk: MemoryDisk, damage: Callable[[memoryview], None], count: int
) -> None:
    damage(disk.open_segment(0, 0).view)
    life = Life(disk)
    cut, beyond = life.warnings()
    assert isinstance(cut, LogTailCut)
    assert (cut.file_position, cut.message_count) == (0, count)
    said = cut.sentence()
    assert said.startswith("commitlog/00000000000000000000 is damaged at byte 0 (")
    assert f"at least {count} messages" in said
    assert "put that back" in said
    assert isinstance(beyond, OffsetsBeyondLog)
    assert life.broker.store.max_offset("orders", 0) == 0


def test_a_record_that_a_dying_process_was_writing_is_no_damage() -> None:
    rig = Rig()
    rig.put(b"kept")
    last = rig.put(b"never acknowledged")
    rig.store.log.read(last.position, 4)[:] = bytes(4)  # the size is written last
    again = rig.reopened()
    assert not again.facts_of(LogTailCut)
    assert again.bodies() == [b"kept"]


@pytest.mark.parametrize(
    "name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"]
)
@pytest.mark.parametrize("text", [GARBAGE, b""])
def test_a_table_that_cannot_be_read_says_what_is_used_instead(
    disk: MemoryDisk, name: str, text: bytes
) -> None:
    before = disk.read(name)
    disk.replace(name, text)
    disk.replace(f"{name}.bak", before or b"{}")
    (damaged,) = Life(disk).warnings()
    assert isinstance(damaged, DocumentDamaged)
    assert (damaged.file, damaged.used_file) == (f"config/{name}", f"config/{name}.bak")
    assert f"config/{name}.bak is used, without the last changes" in damaged.sentence()
    disk.replace(name, text)
    disk.replace(f"{name}.bak", GARBAGE)
    worse = Life(disk).warnings()[0]
    assert isinstance(worse, DocumentDamaged)
    assert worse.used_file == ""
    assert "its content is lost" in worse.sentence()


def test_a_change_that_cannot_be_read_is_damage_unless_it_is_the_last() -> None:
    disk = MemoryDisk()
    life = Life(disk)
    for n in range(400):
        life.store(0, topic=f"topic-{n}")
    lines = (disk.read("topics.json.changes") or b"").splitlines(keepends=True)
    assert len(lines) > 2
    disk.replace("topics.json.changes", b"".join([*lines[:-1], lines[-1][:9]]))
    assert Life(disk).warnings() == []
    disk.replace("topics.json.changes", b"".join([lines[0], GARBAGE + b"\n", *lines[2:]]))
    (damaged,) = Life(disk).warnings()
    assert isinstance(damaged, DocumentDamaged)
    assert damaged.file == "config/topics.json.changes"
    assert damaged.reason.startswith("line 2 of ")


def test_messages_of_a_topic_that_is_missing_are_counted(disk: MemoryDisk) -> None:
    for name in ("topics.json", "topics.json.bak"):
        disk._documents.pop(name, None)
    (without,) = Life(disk).warnings()
    assert without == MessagesWithoutTopic(("orders",), 8)
    assert "create these topics again" in without.sentence()


def test_groups_that_have_consumed_beyond_the_log_are_named(disk: MemoryDisk) -> None:
    disk.remove_segment(0)
    (beyond,) = Life(disk).warnings()
    assert beyond == OffsetsBeyondLog(("billing",), 5)
    assert "5 messages beyond the end of the log (billing)" in beyond.sentence()


def test_a_checkpoint_of_timer_messages_that_cannot_be_read_is_named(disk: MemoryDisk) -> None:
    disk.replace("timercheck", b"abc")
    (damaged,) = Life(disk).warnings()
    assert isinstance(damaged, DocumentDamaged)
    assert damaged.file == "config/timercheck"


def test_floors_that_cannot_be_read_end_the_start_in_one_line(disk: MemoryDisk) -> None:
    disk.replace("queueFloors.json", GARBAGE)
    with pytest.raises(StoreDamaged, match=r"config/queueFloors.json cannot be read .*deleted"):
        Life(disk)


def test_a_last_file_that_is_missing_or_cut_behind_a_record_is_named() -> None:
    rig = Rig(TinyDisk(4096))
    for _ in range(6):
        rig.put(bytes(900))  # four in each segment
    rig.disk.remove_segment(4096)
    (odd,) = rig.reopened().facts_of(OddFileFound)
    assert odd.file == "commitlog/00000000000000000000"
    assert "missing, or this one was cut" in odd.sentence()


def test_files_that_are_none_of_a_log_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / f"{0:020d}").write_bytes(b"")
    odd = [fact for fact in Life(FileDisk(tmp_path)).warnings() if isinstance(fact, OddFileFound)]
    assert [fact.file for fact in odd] == [
        "commitlog/00000000000000000000",
        "commitlog/notes.txt",
    ]
    assert odd[0].sentence().endswith("is empty: if messages were in it, they are lost")
    assert (folder / "notes.txt").read_text() == "mine"
