"""Spark reads a real RocketMQ: a million messages, compressed bodies, a killed query, a slave."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

from benchmarks.clusters import REAL, Cluster, running
from rocketmq_emulator import Message
from rocketmq_emulator.pipeline.source.broker_offsets import bounds_of
from rocketmq_emulator.pipeline.source.connection import BlockingConnection
from rocketmq_emulator.pipeline.source.options import SinkOptions
from rocketmq_emulator.pipeline.source.queue_offsets import QueueRange
from rocketmq_emulator.pipeline.source.sending import OutgoingBatch, TaskSender, send_all
from rocketmq_emulator.protocol.catalog import GET_ALL_TOPIC_CONFIG
from rocketmq_emulator.protocol.flags import LZ4, ZLIB, ZSTD
from rocketmq_emulator.protocol.messages.compression import compress, compressed_flag
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from tests.support.pipeline.killed_query import KilledQuery
from tests.support.pipeline.source_topics import a_reader, read, rows_of, send, send_many

pytestmark = pytest.mark.parity
MILLION, ROWS_A_BATCH = 1_000_000, 10_000
SLAVE_READS = (
    "--set",
    "slaveReadEnable=true",
)  # otherwise a slave refuses every pull, as if it were busy


@pytest.fixture(scope="module", params=["4.9.7", "5.3.3"])
def cluster(request) -> Iterator[Cluster]:
    with running([*REAL[:-1], request.param]) as cluster:
        yield cluster


def wait_until_queued(namesrv: str, topic: str, count: int) -> None:
    """Wait until the queues of *topic* have *count* messages.

    A real broker puts messages into its queues after its answer (ReputMessageService).
    """
    until_s = time.monotonic() + 60
    while (found := sum(p.end - p.start for p in a_reader(namesrv, topic).partitions())) < count:
        assert time.monotonic() < until_s, f"{found} of {count} messages are in the queues"
        time.sleep(0.1)


class PackedSender(TaskSender):
    """Sends bodies compressed as by SDKs of 5.x, with the sys flags of the compression type."""

    def __init__(self, namesrv: str, kind: int) -> None:
        super().__init__(SinkOptions(namesrv=(namesrv,), topic="packed"), 0)
        self._kind = kind

    def send_packed(self, body: bytes) -> None:
        packed = compress(body, self._kind)
        self.send(pa.RecordBatch.from_pydict({"body": [packed], "tags": ["TagA"]}))

    def _header(self, queue: MessageQueue, outgoing: OutgoingBatch) -> SendMessageRequestV2:
        header = super()._header(queue, outgoing)
        return msgspec.structs.replace(header, sys_flag=compressed_flag(0, self._kind))


def test_a_million_messages_are_read_once_each(cluster) -> None:
    numbers = range(0, MILLION, ROWS_A_BATCH)
    batches = (
        pa.RecordBatch.from_pydict({"body": [b"%07d" % (at + i) for i in range(ROWS_A_BATCH)]})
        for at in numbers
    )
    assert (
        send_all(batches, SinkOptions(namesrv=(cluster.namesrv,), topic="million"), 0) == MILLION
    )
    wait_until_queued(cluster.namesrv, "million", MILLION)
    reader = a_reader(cluster.namesrv, "million", "body offset broker queue_id")
    seen = pa.Table.from_batches(
        [batch for part in reader.partitions() for batch in reader.read(part)]
    )
    assert seen.num_rows == MILLION
    assert len(seen.column("body").unique()) == MILLION


def test_compressed_bodies_come_as_they_were_sent(cluster) -> None:
    noise = os.urandom(20_000).hex().encode()  # zlib halves its size
    sent = [noise[i:] for i in range(200)]
    by_client, by_hand = sent[:50], {LZ4: sent[50:100], ZSTD: sent[100:150], ZLIB: sent[150:]}
    send(cluster.namesrv, *(Message("packed", body, tags="TagA") for body in by_client))
    for kind, packed in by_hand.items():
        with contextlib.closing(PackedSender(cluster.namesrv, kind)) as sender:
            for body in packed:
                sender.send_packed(body)
    wait_until_queued(cluster.namesrv, "packed", len(sent))
    rows = read(cluster.namesrv, "packed", "body tags", tags="TagA || TagB")
    assert Counter(row["body"] for row in rows) == Counter(sent)


def test_a_time_is_found_between_messages(cluster) -> None:
    send_many(cluster.namesrv, "timed", 2_000)
    wait_until_queued(cluster.namesrv, "timed", 2_000)
    rows = read(cluster.namesrv, "timed", "broker queue_id offset store_timestamp")
    stored = {
        (row["broker"], row["queue_id"], row["offset"]): row["store_timestamp"] for row in rows
    }
    for at in sorted(stored.values())[:: len(stored) // 5]:
        at_ms = round(at.timestamp() * 1000)
        reader = a_reader(cluster.namesrv, "timed", "broker queue_id offset", start=at_ms)
        found = {(r["broker"], r["queue_id"], r["offset"]) for r in rows_of(reader)}
        assert found == {place for place, when in stored.items() if when >= at}


@pytest.mark.timeout(1_500)
def test_a_query_killed_five_times_has_each_message_once(cluster, tmp_path) -> None:
    send_many(cluster.namesrv, "killed", 3_000)
    query = KilledQuery(cluster.namesrv, "killed", tmp_path)
    for moment in ("offsets", "rows", "commits", "offsets", "rows"):
        query.killed_when(moment)
    assert query.at_the_end() == {
        "rows": 3_000,
        "bodies": 3_000,
        "places": 3_000,
        "first": "000000",
        "last": "002999",
        "lost": 0,
    }


def wait_until_copied(slave: str, planned: list[QueueRange]) -> None:
    """Wait until the slave has the messages (at once) and the topics (within ten seconds)."""
    until_s = time.monotonic() + 60
    with BlockingConnection(slave, 5_000) as connection:
        while True:
            bounds = bounds_of(connection, [part.queue for part in planned])
            topics = connection.call(GET_ALL_TOPIC_CONFIG).body
            if b'"kept"' in topics and all(bounds[p.queue].end == p.end for p in planned):
                return
            assert time.monotonic() < until_s, bounds
            time.sleep(0.2)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_a_real_slave_is_read_when_its_master_was_killed(release) -> None:
    with running(
        [*REAL[:-1], release, "--brokers", "1", "--slaves", "1", *SLAVE_READS]
    ) as cluster:
        send_many(cluster.namesrv, "kept", 2_000)
        wait_until_queued(cluster.namesrv, "kept", 2_000)
        reader = a_reader(cluster.namesrv, "kept", "body", brokerTimeoutMs=60_000)
        planned = reader.partitions()
        wait_until_copied(cluster.brokers["broker-a-1"], planned)
        _, master, _ = cluster.pids
        os.kill(master, signal.SIGKILL)
        assert Counter(row["body"] for row in rows_of(reader, planned)) == Counter(
            b"%06d" % i for i in range(2_000)
        )
        assert len(read(cluster.namesrv, "kept", "body", brokerTimeoutMs=60_000)) == 2_000
