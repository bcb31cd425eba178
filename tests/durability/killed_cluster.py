"""One NameServer and one broker with a store: processes to kill, and a client that invokes them.

No function sleeps: a start waits for the readiness line, a kill for the exit of the
process, a request for its reply.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from rocketmq_emulator.admin.calls import Admin, tool_client
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.disk.line_file import line_files
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.spawning import node_command, node_environment
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.flags import pull_flag
from rocketmq_emulator.protocol.messages.message import MessageExt, decode_messages
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.offsets import (
    GetMaxOffsetRequest,
    OffsetReply,
    QueryConsumerOffsetRequest,
)
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply, PullMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageReply, SendMessageRequestV2
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.settings.config import BrokerConfig

BROKER = "broker-a"
START_S_MAX = 20.0
CALL_MS_MAX = 10_000
SMALL = {"message_bytes_max": 64 * 1024, "segment_bytes": 256 * 1024}  # makes many segments
WHOLE_JOURNAL = {"journal_bytes_max": 16 * 1024 * 1024, "journal_files_max": 1_000}


@contextmanager
def a_cluster(folder: Path, **settings: Any) -> Iterator[ProcessCluster]:
    """A running cluster; its store and its journals are below *folder*."""
    spec = ClusterSpec(brokers=1, store=str(folder / "store"), broker_settings=settings)
    with ProcessCluster(spec, journal=str(folder / "journal")) as cluster:
        yield cluster


def store_of(folder: Path) -> Path:
    return folder / "store" / BROKER


def saved_offsets(folder: Path) -> dict[str, dict[int, int]] | None:
    """The broker's table of consumer offsets as it is on disk; None before it is first written."""
    path = store_of(folder) / "config" / "consumerOffset.json"
    if not path.exists():
        return None
    return decode_body(path.read_bytes(), ConsumerOffsetSerializeWrapper).offset_table


def facts_of(folder: Path, kind: type[Fact]) -> list[dict[str, Any]]:
    """The broker's facts of one *kind* since its first start; an incomplete last line is left out.

    Older facts are in rotated files beside the journal; ``journal_files_max`` of them are kept.
    """
    named = b'"kind":"%b"' % kind.__name__.encode()
    found = []
    for path in line_files(folder / "journal" / f"{BROKER}.jsonl"):
        with path.open("rb") as lines:
            whole = [line for line in lines if named in line and line.endswith(b"\n")]
        facts = [json.loads(line)["fact"] for line in whole]
        found += [fact for fact in facts if fact["kind"] == kind.__name__]
    return found


def kill_now(cluster: ProcessCluster) -> None:
    os.kill(cluster.pids[BROKER], signal.SIGKILL)


async def wait_restarted(cluster: ProcessCluster) -> None:
    """Kill the broker if it runs, and start it again with the same port and store."""
    await trio.to_thread.run_sync(cluster.restart, BROKER)


async def wait_ended_in_order(cluster: ProcessCluster) -> int:
    """Stop the broker with SIGTERM; return its exit code."""
    node = cluster._nodes[BROKER]
    node.requested_end = "stop"
    node.signal(signal.SIGTERM)
    return await trio.to_thread.run_sync(node.popen.wait, START_S_MAX)


def failed_start(config: BrokerConfig) -> tuple[int, list[str]]:
    """Exit code and stderr lines of a broker that cannot start."""
    ended = subprocess.run(
        node_command("broker", msgspec.json.encode(config).decode()),
        env=node_environment(),
        capture_output=True,
        text=True,
        timeout=START_S_MAX,
        check=False,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr.splitlines()


class LoneBroker:
    """A broker without a NameServer, started with *before* in front of its command."""

    def __init__(self, folder: Path, before: Sequence[str] = (), **settings: Any) -> None:
        store, journal = str(store_of(folder)), folder / "journal"
        journal.mkdir()
        config = BrokerConfig(listen_address="127.0.0.1:0", store=store, **settings)
        text = msgspec.json.encode(config).decode()
        self.process = subprocess.Popen(
            [*before, *node_command("broker", text, str(journal / f"{BROKER}.jsonl"))],
            env=node_environment(),
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.brokers = {BROKER: json.loads(self.process.stdout.readline())["address"]}
        self.namesrv = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> int:
        """Stop the broker; return its exit code."""
        self.process.terminate()
        with self.process:
            return self.process.wait(START_S_MAX)


class Questions:
    """Sends the requests of a test to the broker."""

    def __init__(self, cluster: ProcessCluster | LoneBroker, remoting: RemotingClient) -> None:
        self.address = cluster.brokers[BROKER]
        self.admin = Admin(cluster.namesrv, remoting)
        self._remoting = remoting

    async def create_topic(self, name: str, queues: int = 4) -> None:
        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        await self.admin.create_topic(self.address, config)

    async def create_group(self, name: str) -> None:
        await self.admin.create_group(self.address, SubscriptionGroupConfig(group_name=name))

    async def topics(self) -> set[str | None]:
        return {topic.topic_name for topic in await self.admin.topics(self.address)}

    async def groups(self) -> set[str | None]:
        return {group.group_name for group in await self.admin.groups(self.address)}

    async def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit and wait for the reply; a consumer commits one-way."""
        queue = MessageQueue(topic, BROKER, queue_id)
        await self.admin.commit(self.address, group, queue, offset)

    async def committed(self, group: str, topic: str, queue_id: int) -> int:
        header = QueryConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=queue_id)
        reply = await self._ask(catalog.QUERY_CONSUMER_OFFSET, header)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply.decode(OffsetReply).offset

    async def max_offset(self, topic: str, queue_id: int) -> int:
        header = GetMaxOffsetRequest(topic=topic, queue_id=queue_id)
        return (await self._ask(catalog.GET_MAX_OFFSET, header)).decode(OffsetReply).offset

    async def send(
        self, topic: str, queue_id: int, body: bytes, properties: str = ""
    ) -> RemotingCommand:
        """Send one message; return the reply, also if it is an error."""
        header = SendMessageRequestV2(
            producer_group="pg",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties=properties,
        )
        return await self._ask(catalog.SEND_MESSAGE_V2, header, body)

    async def stored(self, topic: str, queue_id: int, body: bytes, properties: str = "") -> int:
        """Send one message, which must succeed; return its queue offset."""
        reply = await self.send(topic, queue_id, body, properties)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply.decode(SendMessageReply).queue_offset

    async def messages(self, topic: str, queue_id: int, from_offset: int = 0) -> list[MessageExt]:
        """All messages of the queue from *from_offset* on, in order."""
        found: list[MessageExt] = []
        offset = from_offset
        while True:
            reply = await self._ask(catalog.PULL_MESSAGE, _pull(topic, queue_id, offset))
            if reply.code == ResponseCode.PULL_NOT_FOUND:
                return found
            assert reply.code == ResponseCode.SUCCESS, (reply.code, reply.remark)
            found += decode_messages(reply.body)
            offset = reply.decode(PullMessageReply).next_begin_offset

    async def wait_messages(self, topic: str, queue_id: int, count: int) -> None:
        """Wait until the queue has *count* messages; the broker holds each pull until then."""
        for offset in range(count):
            header = _pull(topic, queue_id, offset, hold_ms=CALL_MS_MAX)
            reply = await self._ask(catalog.PULL_MESSAGE, header)
            assert reply.code == ResponseCode.SUCCESS, (reply.code, reply.remark)

    async def _ask(self, rpc: AnyRpc, header: Header, body: bytes = b"") -> RemotingCommand:
        return await self._remoting.invoke(self.address, rpc, header, body, timeout_ms=CALL_MS_MAX)


@asynccontextmanager
async def questions_to(cluster: ProcessCluster | LoneBroker) -> AsyncIterator[Questions]:
    async with cancelling_nursery() as nursery:
        remoting = tool_client(nursery)
        yield Questions(cluster, remoting)
        remoting.close_all()


def _pull(topic: str, queue_id: int, offset: int, hold_ms: int = 0) -> PullMessageRequest:
    """A pull of a client that is in no group; answered at once unless *hold_ms* is given."""
    return PullMessageRequest(
        consumer_group="readers",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=pull_flag(subscription=True, suspend=hold_ms > 0),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
