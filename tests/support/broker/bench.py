"""A broker without sockets: its shell, clients that feed frames, and virtual time."""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping
from typing import Any

import msgspec
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.handlers.table import handler_table
from rocketmq_emulator.broker.service import ScheduledTasks, connect_replicas
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import Disk
from rocketmq_emulator.facts import Fact, HandlerFailed
from rocketmq_emulator.facts.journal import Entry, Journal
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerData, HeartbeatData, ProducerData
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.command import (
    ONE_WAY,
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.flags import SUSPEND
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.messages.records import StoredMessage, decode_records
from rocketmq_emulator.protocol.messages.subscription import TAG, build_subscription
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply, PullMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageReply, SendMessageRequestV2
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.settings.config import BrokerConfig

EPOCH_MS = 1_700_000_000_000


class Client:
    """One connection: replies are in ``answers``, the broker's own requests in ``heard``."""

    def __init__(self, bench: Bench, address: str, version: int) -> None:
        self.values = None
        self.local, self.remote = bench.broker.address, address
        self._version = version
        self._decoder = FrameDecoder()
        self._opaque = 0
        self._answers: dict[int, RemotingCommand] = {}
        self.heard: list[RemotingCommand] = []
        self.writes = 0
        self.endpoint = bench.server.accept(self)
        self.bench = bench

    # As a transport
    def send(self, data: bytes) -> None:
        self.writes += 1
        self._decoder.feed(data)
        for frame in self._decoder:
            command = decode_command(frame)
            if command.is_response:
                self._answers[command.opaque or 0] = command
            else:
                self.heard.append(command)

    def unsent_bytes(self) -> int:
        return 0

    def close(self) -> None:
        self.endpoint.closed("closed here")

    # As a client
    def ask(
        self, rpc: AnyRpc, header: Header | None = None, body: bytes = b"", flag: int = 0
    ) -> RemotingCommand | None:
        """Send a request; returns the reply if it came at once."""
        command = RemotingCommand(
            code=rpc.code,
            flag=flag,
            version=self._version,
            ext=ext_of(header),
            body=body,
        )
        return self.say(command)

    def say(self, command: RemotingCommand) -> RemotingCommand | None:
        """Send any command with a new opaque; returns the reply if it came at once."""
        self._opaque += 1
        command.opaque = self._opaque
        self.endpoint.feed(encode_command(command))
        return self.answer_to(self._opaque)

    def must(
        self, rpc: AnyRpc, header: Header | None = None, body: bytes = b""
    ) -> RemotingCommand:
        answer = self.ask(rpc, header, body)
        assert answer is not None, f"{rpc.name} was not answered"
        return answer

    def answer_to(self, opaque: int) -> RemotingCommand | None:
        return self._answers.get(opaque)

    def answers(self) -> list[RemotingCommand]:
        return list(self._answers.values())

    @property
    def last_opaque(self) -> int:
        return self._opaque

    def send_message(self, topic: str, body: bytes = b"hello", **fields: Any) -> RemotingCommand:
        answer = self.post(topic, body, **fields)
        assert answer is not None, "a send was not answered"
        return answer

    def post(self, topic: str, body: bytes = b"hello", **fields: Any) -> RemotingCommand | None:
        """Send a message; returns the reply if it came at once."""
        given = {
            "producer_group": "pg",
            "topic": topic,
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 0,
            "sys_flag": 0,
            "born_timestamp": EPOCH_MS,
            "flag": 0,
            **fields,
        }
        return self.ask(catalog.SEND_MESSAGE_V2, SendMessageRequestV2(**given), body)

    def sent(self, topic: str, body: bytes = b"hello", **fields: Any) -> SendMessageReply:
        answer = self.send_message(topic, body, **fields)
        assert answer.code == 0, answer.remark
        return answer.decode(SendMessageReply)

    def heartbeat(
        self,
        client_id: str,
        group: str = "g",
        topics: Mapping[str, str | tuple[str, str]] | None = None,
        *,
        version: int = 1,
        model: str = "CLUSTERING",
        producer: str | None = None,
    ) -> RemotingCommand:
        data = [
            build_subscription(topic, *_typed(expression), version)
            for topic, expression in (topics or {}).items()
        ]
        consumer: Any = ConsumerData(
            group_name=group,
            consume_type="CONSUME_PASSIVELY",
            message_model=model,  # type: ignore[arg-type]
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=data,
        )
        beat = HeartbeatData(
            client_id=client_id,
            consumer_data_set=[] if topics is None else [consumer],
            producer_data_set=[] if producer is None else [ProducerData(group_name=producer)],
        )
        return self.must(catalog.HEART_BEAT, None, encode_body(beat, self.bench.broker.release))

    def pull(
        self, topic: str, offset: int = 0, *, flags: int = SUSPEND, **fields: Any
    ) -> RemotingCommand | None:
        given = {
            "consumer_group": "g",
            "topic": topic,
            "queue_id": 0,
            "queue_offset": offset,
            "max_msg_nums": 32,
            "sys_flag": flags,
            "commit_offset": 0,
            "suspend_timeout_millis": 15_000,
            "sub_version": 0,
            **fields,
        }
        return self.ask(catalog.PULL_MESSAGE, PullMessageRequest(**given))

    def pulled(self, topic: str, offset: int = 0, **fields: Any) -> list[StoredMessage]:
        answer = self.pull(topic, offset, flags=0, **fields)
        assert answer is not None
        return decode_records(answer.body)

    def notices(self) -> list[str]:
        """The groups whose members changed, of each NOTIFY_CONSUMER_IDS_CHANGED."""
        found = [c.fields()["consumerGroup"] for c in self.heard if c.code == 40]
        assert all(c.flag == ONE_WAY for c in self.heard)
        return found


def _typed(expression: str | tuple[str, str]) -> tuple[str, str]:
    return expression if isinstance(expression, tuple) else (expression, TAG)


class Bench:
    """The broker, its shell, and the facts they noted."""

    def __init__(
        self, disk: Disk | None = None, *, keeps_facts: bool = True, **settings: Any
    ) -> None:
        assert isinstance(trio.lowlevel.current_clock(), MockClock), "a bench needs virtual time"
        self.entries: list[Entry] = []
        self.announced: list[tuple[TopicConfig, Hashable | None]] = []
        self.clock = WallClock(EPOCH_MS, trio.current_time())
        config = BrokerConfig(**settings)
        self.journal = journal = Journal(
            "broker-a", self.clock, listeners=[self.entries.append] if keeps_facts else []
        )
        self.disk = disk or MemoryDisk()
        self.broker = Broker(config, disk=self.disk, journal=journal, now_ms=self.now_ms())
        handlers = handler_table(self.broker, random.Random(7), self.now_ms())
        self.server = RemotingServer(
            self.clock, config.net, config.parsed_release, journal.note, handlers
        )
        self.broker.connect(
            self.server.ring,
            self.server.push,
            lambda topics, bell: self.announced.extend((topic, bell) for topic in topics or ()),
            self.server.later,
        )
        self.ha = connect_replicas(self.broker, self.server, self.clock)
        self.server.on_closed = self.broker.clients.close
        self._ports = 40_000

    def start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.server.timers.run)
        ScheduledTasks(self.broker, self.server, self.clock).start(nursery)

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def client(self, version: int = 409) -> Client:
        self._ports += 1
        return Client(self, f"127.0.0.1:{self._ports}", version)

    def facts(self, kind: type[Fact]) -> list[Any]:
        return [entry.fact for entry in self.entries if isinstance(entry.fact, kind)]

    def no_bugs(self) -> None:
        assert self.facts(HandlerFailed) == []


def next_offset(answer: RemotingCommand) -> int:
    return answer.decode(PullMessageReply).next_begin_offset


def fields_of(value: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(value)
