"""Documents: the last text that was written is read; a failing disk raises nothing."""

from __future__ import annotations

import errno

from rocketmq_emulator.broker.tables.documents import Document
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import Fact, OpenFilesRanOut
from rocketmq_emulator.protocol.bodies.offsets import DelayOffsetSerializeWrapper
from rocketmq_emulator.settings.releases import Release
from tests.support.broker.store_makers import LAST_4

NAME = "delayOffset.json"


class NoHandlesLeft(MemoryDisk):
    """A disk that cannot be read while ``is_broken``: too many open files."""

    is_broken = False

    def read(self, name: str) -> bytes | None:
        if self.is_broken:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().read(name)


def a_document(disk: MemoryDisk, facts: list[Fact]) -> Document[DelayOffsetSerializeWrapper]:
    release = Release.parse(LAST_4)
    return Document(disk, NAME, DelayOffsetSerializeWrapper, release, facts.append)


def test_a_disk_that_cannot_be_read_refuses_to_save_once_and_saves_later() -> None:
    disk, facts = NoHandlesLeft(), list[Fact]()
    document = a_document(disk, facts)
    body = DelayOffsetSerializeWrapper(offset_table={1: 5})
    disk.is_broken = True
    assert not document.save(body)
    assert not document.save(body)
    assert [type(fact) for fact in facts] == [OpenFilesRanOut]
    disk.is_broken = False
    assert document.save(body)
    assert document.load() == body


def test_r62_the_text_before_is_read_where_the_last_one_is_damaged() -> None:
    disk = MemoryDisk()
    document = a_document(disk, [])
    first = DelayOffsetSerializeWrapper(offset_table={1: 5})
    assert document.save(first)
    assert document.save(DelayOffsetSerializeWrapper(offset_table={1: 6}))
    disk.replace(NAME, b"{ damaged")
    assert document.load() == first
