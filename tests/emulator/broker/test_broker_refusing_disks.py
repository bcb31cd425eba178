"""If the disk refuses a change, the client gets an error with the reason."""

from __future__ import annotations

import errno

import pytest

from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import DiskFull
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest, DeleteTopicRequest
from rocketmq_emulator.protocol.requests.offsets import UpdateConsumerOffsetRequest
from rocketmq_emulator.protocol.rpc import Rpc
from tests.support.broker.bench import Bench

TOPIC = CreateTopicRequest(
    topic="New", read_queue_nums=1, write_queue_nums=1, perm=6, topic_filter_type="SINGLE_TAG"
)
OFFSET = UpdateConsumerOffsetRequest(
    consumer_group="g", topic="Orders", queue_id=0, commit_offset=5
)
CALLS: list[tuple[Rpc, Header | None]] = [
    (catalog.UPDATE_AND_CREATE_TOPIC, TOPIC),
    (catalog.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="Orders")),
    (catalog.UPDATE_CONSUMER_OFFSET, OFFSET),
    (catalog.CLEAN_UNUSED_TOPIC, None),
]
REASONS = [
    (DiskFull("no room"), "the broker's disk is full"),
    (
        OSError(errno.EMFILE, "Too many open files"),
        "the broker has too many open files (ulimit -n)",
    ),
]


class RefusingDisk(MemoryDisk):
    """Refuses all documents while ``error`` is set."""

    error: Exception | None = None

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        if self.error is not None:
            raise self.error
        super().replace(name, data, flushed=flushed)


@pytest.mark.parametrize(("error", "reason"), REASONS, ids=["full", "files"])
@pytest.mark.parametrize(("rpc", "header"), CALLS, ids=[rpc.name for rpc, _ in CALLS])
async def test_a_change_that_is_not_on_disk_is_refused_with_the_reason_of_the_disk(
    rpc: Rpc, header: Header | None, error: Exception, reason: str
) -> None:
    disk = RefusingDisk()
    bench = Bench(disk, durable_offsets=True)
    client = bench.client()
    assert client.send_message("Orders").code == 0
    if rpc is catalog.CLEAN_UNUSED_TOPIC:
        del bench.broker.topics.topic_config_table["Orders"]
    disk.error = error
    answer = client.must(rpc, header)
    assert answer.code != 0
    assert (answer.remark or "").endswith(f": {reason}")
