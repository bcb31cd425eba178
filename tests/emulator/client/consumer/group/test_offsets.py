"""Offsets in memory and in stores: which offsets are written, when, and which are dropped."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_emulator.client.consumer.group.offsets import (
    LocalFileOffsetStore,
    OffsetFolder,
    OffsetsInMemory,
    OffsetTable,
    RemoteBrokerOffsetStore,
    StartOffsets,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import R_4_9_7, Release
from tests.support.golden_data import cases

OLD, NEW = Release(4, 9, 7), Release(4, 9, 8)
NAME = "10.0.0.1@DEFAULT/cg/offsets.json"


def q(number: int) -> MessageQueue:
    return MessageQueue("T", "broker-a", number)


class ABroker:
    """Keeps the committed offsets."""

    def __init__(self) -> None:
        self.commits = []
        self.stored = {}
        self.batches = []

    @contextmanager
    def batch(self):
        self.batches.append([])
        yield
        self.batches.append("written")

    def commit_offset(self, queue, offset) -> None:
        self.commits.append((queue.queue_id, offset))
        if self.batches and self.batches[-1] != "written":
            self.batches[-1].append(queue.queue_id)

    async def query_offset(self, queue):
        return self.stored.get(queue)

    async def max_offset(self, queue):
        return 100

    async def offset_at(self, queue, at_ms):
        return at_ms


def a_file_store(documents, release=NEW, client="10.0.0.1@DEFAULT") -> LocalFileOffsetStore:
    store = LocalFileOffsetStore(documents, client, "cg", release)
    store.load()
    return store


def test_acknowledgements_never_lower_an_offset() -> None:
    table = OffsetTable()
    for offset in (5, 3, 8, 7):
        table.raise_to(q(0), offset)
    assert table.get(q(0)) == 8
    table.update(q(0), 2)
    assert table.get(q(0)) == 2


def test_a_frozen_offset_changes_only_after_it_was_dropped() -> None:
    table = OffsetTable()
    table.freeze(q(0), 10)
    table.raise_to(q(0), 50)
    table.update(q(0), 5)
    assert table.get(q(0)) == 10
    table.forget(q(0))
    table.raise_to(q(0), 3)
    table.raise_to(q(0), 4)
    assert table.get(q(0)) == 4


def test_the_offsets_of_a_topic_come_in_queue_order() -> None:
    table = OffsetTable()
    other = MessageQueue("U", "broker-a", 0)
    for queue, offset in ((q(1), 6), (other, 7), (q(0), 5)):
        table.update(queue, offset)
    assert list(table.of_topic("T").items()) == [(q(0), 5), (q(1), 6)]


def test_client_invariant_56_persisting_no_queues_writes_and_drops_nothing() -> None:
    broker = ABroker()
    store = RemoteBrokerOffsetStore(broker)
    store.table.update(q(0), 5)
    store.table.update(q(1), 6)
    store.persist_all([])
    assert broker.commits == []
    store.persist_all([q(1)])
    assert broker.commits == [(1, 6)]
    assert (store.table.get(q(0)), store.table.get(q(1))) == (None, 6)


def test_offsets_are_written_again_even_if_they_have_not_changed() -> None:
    broker = ABroker()
    store = RemoteBrokerOffsetStore(broker)
    store.table.update(q(0), 5)
    store.persist_all([q(0)])
    store.persist_all([q(0)])
    assert broker.commits == [(0, 5), (0, 5)]


def test_the_offsets_of_all_held_queues_leave_in_one_batch() -> None:
    broker = ABroker()
    store = RemoteBrokerOffsetStore(broker)
    for number in range(3):
        store.table.update(q(number), 5)
    store.persist_all([q(0), q(1), q(2)])
    assert broker.batches == [[0, 1, 2], "written"]


async def test_an_offset_read_from_a_broker_is_kept_in_memory() -> None:
    broker = ABroker()
    broker.stored[q(0)] = 9
    store = RemoteBrokerOffsetStore(broker)
    assert await store.read(q(0)) == 9
    assert store.table.get(q(0)) == 9
    assert await store.read(q(1)) is None
    assert store.table.get(q(1)) is None


def test_client_invariant_57_a_file_is_found_again_under_the_same_client_id_only(tmp_path) -> None:
    first = a_file_store(OffsetFolder(tmp_path))
    first.table.update(q(0), 5)
    first.persist_all([q(0)])
    assert a_file_store(OffsetFolder(tmp_path)).table.get(q(0)) == 5
    assert a_file_store(OffsetFolder(tmp_path), client="10.0.0.1@7#1").table.get(q(0)) is None
    assert (tmp_path / NAME).exists()


def test_a_write_that_was_cut_short_leaves_the_file_as_it_was(tmp_path, monkeypatch) -> None:
    folder = OffsetFolder(tmp_path)
    folder.replace(NAME, b"whole")

    def full(path, data):
        assert path.name == "offsets.json.tmp"
        raise OSError(28, "the disk is full")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="the disk is full"):
        folder.replace(NAME, b"half")
    assert folder.read(NAME) == b"whole"


@pytest.mark.parametrize(
    ("policy", "normal", "retry"),
    [
        ("CONSUME_FROM_LAST_OFFSET", 100, 0),
        ("CONSUME_FROM_MAX_OFFSET", 100, 0),
        ("CONSUME_FROM_FIRST_OFFSET", 0, 0),
        ("CONSUME_FROM_TIMESTAMP", 42, 100),
    ],
)
async def test_a_group_without_an_offset_starts_where_its_policy_says(
    policy, normal, retry
) -> None:
    broker = ABroker()
    starts = StartOffsets(
        RemoteBrokerOffsetStore(broker), broker, policy, new_group_from_ms=42, release=R_4_9_7
    )
    assert await starts.find(q(0)) == normal
    assert await starts.find(MessageQueue("%RETRY%cg", "broker-a", 0)) == retry
    broker.stored[q(0)] = 7
    assert await starts.find(q(0)) == 7


def test_a_damaged_file_is_replaced_by_its_last_good_copy() -> None:
    documents = OffsetsInMemory()
    store = a_file_store(documents)
    for offset in (5, 6):
        store.table.update(q(0), offset)
        store.persist_all([q(0)])
    documents.replace(NAME, b'{"offsetTable":{{"brok')
    assert a_file_store(documents).table.get(q(0)) == 5


async def test_before_4_9_8_a_write_drops_the_queues_that_are_not_held() -> None:
    for release, expected in ((OLD, None), (NEW, 5)):
        documents = OffsetsInMemory()
        store = a_file_store(documents, release)
        store.table.update(q(0), 5)
        store.persist_all([q(0)])
        store.table.update(q(1), 6)
        store.persist_all([q(1)])
        assert await store.read(q(1)) == 6
        assert await store.read(q(0)) == expected


def test_before_4_9_8_single_queues_are_neither_written_nor_dropped() -> None:
    for release, written, left in ((OLD, None, 5), (NEW, 5, None)):
        documents = OffsetsInMemory()
        store = a_file_store(documents, release)
        store.table.update(q(0), 5)
        store.persist(q(0))
        assert a_file_store(documents, release).table.get(q(0)) == written
        store.forget(q(0))
        assert store.table.get(q(0)) == left


async def test_files_of_the_real_classes_are_read() -> None:
    for case in cases("config-files.jsonl", "file_offsets"):
        documents = OffsetsInMemory()
        documents.replace(NAME, case["out"].encode())
        store = a_file_store(documents)
        for key, offset in case["in"]["fields"]["offsetTable"]["map"]:
            queue = MessageQueue(key["topic"], key["brokerName"], key["queueId"])
            assert await store.read(queue) == offset
