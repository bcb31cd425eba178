"""Answers with a whole table, and requests that fill one: how long other connections wait."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Self

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerData, HeartbeatData, ProducerData
from rocketmq_emulator.protocol.bodies.registration import (
    RegisterBrokerBody,
    crc32,
    encode_register_broker,
)
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.protocol.requests.nameserver import RegisterBrokerRequest
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.protocol.versions import R_4_9_7
from rocketmq_emulator.text.values import split_address
from tools.torture import Row
from tools.torture.frames import AIM_MS, MB, PATIENCE_S, heartbeat, longest_wait_ms, request, row
from tools.torture.waiting import Server

NAME = "answers with a whole table"
RELEASES = ("4.9.7", "5.3.3")
GROUPS, TOPICS, QUEUES, COMMITTED = 9_999, 10_000, 100_000, 4
BROKER_NAME = "broker-z"
FRAMES_AT_ONCE = 500  # sent before their answers are read; more would fill the sockets
CLOSING_S = 2


def run() -> list[Row]:
    """For each release: fill the tables of a cluster, then request them."""
    return [found for release in RELEASES for found in _rows(release)]


def _rows(release: str) -> Iterator[Row]:
    with ProcessCluster(ClusterSpec(brokers=1, release=release)) as cluster:
        broker = Server(cluster.brokers["broker-a"], cluster.pids["broker-a"])
        namesrv = Server(cluster.namesrv, cluster.pids["namesrv"])
        with Member(broker) as member, Member(broker) as leaver:
            beat = heartbeat(a_heartbeat())
            yield member.row(f"a heartbeat of {GROUPS:,} new groups, {release}", beat)
            yield member.row(f"the same heartbeat again, {release}", beat)
            yield leaver.row(f"the same heartbeat of a second client, {release}", beat)
            leaver.answers([a_topic("orders", COMMITTED), *commits()])
            for what, frame in questions_to_a_broker():
                yield row(broker, f"{what}, {release}", frame)
            yield member.row(f"UNREGISTER_CLIENT of {GROUPS:,} groups, {release}", *leaves())
            yield leaver.closing_row(f"a client of {GROUPS:,} groups closes, {release}")
        with Member(namesrv) as registered:
            what = f"REGISTER_BROKER with {TOPICS:,} topics, {release}"
            yield registered.row(what, a_registration())
            for what, frame in questions_to_a_name_server():
                yield row(namesrv, f"{what}, {release}", frame)


class Member:
    """A connection that stays open, as a client's does."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sock = socket.create_connection(split_address(server.address), PATIENCE_S)
        self._decoder = FrameDecoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def row(self, what: str, *frames: bytes) -> Row:
        """How long other connections wait while *frames* are answered."""
        with longest_wait_ms(self._server) as waits:
            codes = self.answers(frames)
        return _row(what, max(waits), f"code {max(codes)}")

    def closing_row(self, what: str) -> Row:
        """How long other connections wait after this one has closed."""
        with longest_wait_ms(self._server) as waits:
            self._sock.close()
            time.sleep(CLOSING_S)
        return _row(what, max(waits), "closed")

    def answers(self, frames: Iterable[bytes]) -> list[int]:
        """Send *frames* and return the codes of all answers."""
        found: list[int] = []
        for part in batched(frames, FRAMES_AT_ONCE):
            self._sock.sendall(b"".join(part))
            wanted = len(found) + len(part)
            while len(found) < wanted:
                self._decoder.feed(self._sock.recv(MB))
                found += [c.code for c in map(decode_command, self._decoder) if c.is_response]
        return found


def _row(what: str, worst_ms: float, said: str) -> Row:
    aim = f"others wait {AIM_MS} ms at most"
    return Row(what, aim, f"{worst_ms:.0f} ms; {said}", worst_ms <= AIM_MS)


def questions_to_a_broker() -> Iterator[tuple[str, bytes]]:
    """Requests that a broker answers with a whole table, or for which it reads one."""
    yield f"a topic of {QUEUES:,} queues", a_topic("Wide", QUEUES)
    plain = (
        catalog.GET_ALL_TOPIC_CONFIG,
        catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        catalog.GET_ALL_CONSUMER_OFFSET,
        catalog.GET_ALL_DELAY_OFFSET,
        catalog.GET_ALL_PRODUCER_INFO,
        catalog.CLEAN_UNUSED_TOPIC,
        catalog.CLEAN_EXPIRED_CONSUMEQUEUE,
    )
    for rpc in plain:
        yield rpc.name, request(rpc.code)
    asked: tuple[tuple[AnyRpc, dict[str, str]], ...] = (
        (catalog.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group_name(0)}),
        (catalog.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        (
            catalog.QUERY_CORRECTION_OFFSET,
            {"topic": "orders", "filterGroups": "", "compareGroup": group_name(1)},
        ),
        (catalog.QUERY_CONSUME_TIME_SPAN, {"topic": "Wide", "group": group_name(0)}),
        (catalog.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"}),
        (
            catalog.INVOKE_BROKER_TO_RESET_OFFSET,
            {"topic": "Wide", "group": group_name(0), "timestamp": "-1", "isForce": "true"},
        ),
    )
    for rpc, fields in asked:
        yield rpc.name, request(rpc.code, **fields)


def questions_to_a_name_server() -> Iterator[tuple[str, bytes]]:
    """Requests that a NameServer answers with a whole table, or that change one."""
    yield "all topics of a NameServer", request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    cluster = {"cluster": "DefaultCluster"}
    yield "the topics of a cluster", request(RequestCode.GET_TOPICS_BY_CLUSTER, **cluster)
    yield "all brokers", request(RequestCode.GET_BROKER_CLUSTER_INFO)
    wipe = request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName=BROKER_NAME)
    yield f"{TOPICS:,} topics made read-only", wipe


def a_topic(name: str, queues: int) -> bytes:
    fields = {"topic": name, "defaultTopic": "TBW102", "perm": "6", "topicSysFlag": "0"}
    fields |= {"topicFilterType": "SINGLE_TAG", "order": "false"}
    fields |= {"readQueueNums": str(queues), "writeQueueNums": str(queues)}
    return request(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields)


def group_name(number: int) -> str:
    return f"group-{number:04}"


def a_heartbeat() -> bytes:
    """The heartbeat of a client: GROUPS consumer groups of one topic, and one producer group."""
    subscriptions = [build_subscription("orders", "*")]
    consumers = [
        ConsumerData(
            group_name=group_name(number),
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=subscriptions,
        )
        for number in range(GROUPS)
    ]
    producers = [ProducerData(group_name="producers")]
    beat = HeartbeatData(
        client_id="client", consumer_data_set=consumers, producer_data_set=producers
    )
    return encode_body(beat, R_4_9_7)


def commits() -> Iterator[bytes]:
    """Commits of every group, in ``COMMITTED`` queues of the topic."""
    for number in range(GROUPS):
        for queue_id in range(COMMITTED):
            fields = {"consumerGroup": group_name(number), "topic": "orders"}
            fields |= {"queueId": str(queue_id), "commitOffset": "5"}
            yield request(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)


def leaves() -> Iterator[bytes]:
    """One request per group, as clients send them."""
    for number in range(GROUPS):
        fields = {"clientID": "client", "consumerGroup": group_name(number)}
        yield request(RequestCode.UNREGISTER_CLIENT, **fields)


def a_registration() -> bytes:
    """The first registration of a broker, with all its topics."""
    names = [f"registered-topic-{number:05}" for number in range(TOPICS)]
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table={name: TopicConfig(topic_name=name) for name in names},
        data_version=DataVersion(timestamp=1, counter=1),
    )
    table = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
    body = encode_register_broker(table, R_4_9_7, compressed=False)
    header = RegisterBrokerRequest(
        broker_name=BROKER_NAME,
        broker_addr="127.0.0.1:1",
        cluster_name="DefaultCluster",
        ha_server_addr="127.0.0.1:2",
        broker_id=0,
        body_crc32=crc32(body),
    )
    return encode_command(
        RemotingCommand(
            code=RequestCode.REGISTER_BROKER,
            opaque=1,
            version=R_4_9_7.version,
            ext=ext_of(header),
            body=body,
        )
    )


def batched(frames: Iterable[bytes], count: int) -> Iterator[list[bytes]]:
    walk = iter(frames)
    while part := list(islice(walk, count)):
        yield part
