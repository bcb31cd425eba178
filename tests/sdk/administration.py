"""Administration for tests of SDKs: topics on every broker, and committed offsets.

Each request is a plain frame over a new connection: it may go to a real RocketMQ, so it
uses neither our servers nor our client.
"""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

import msgspec

from benchmarks.clusters import Cluster
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.framing import FrameDecoder

UPDATE_AND_CREATE_TOPIC = 17
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
SUCCESS = 0
QUERY_NOT_FOUND = 22
ANSWER_S_MAX = 5.0
ROUTE_S_MAX = 10.0


def create_topic(cluster: Cluster, topic: str, queues: int = 4, brokers: int = 2) -> None:
    """Create *topic* on the first *brokers* brokers, and wait until they are in its route."""
    chosen = dict(list(cluster.brokers.items())[:brokers])
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    for address in chosen.values():
        answer = ask(address, UPDATE_AND_CREATE_TOPIC, fields)
        assert answer.code == SUCCESS, f"{topic} was refused: {answer.code} {answer.remark}"
    _wait_until_routed(cluster, topic, set(chosen))


def create_group(cluster: Cluster, group: str) -> None:
    """Create the retry topic of *group*, so that its first consumer finds the route."""
    create_topic(cluster, f"%RETRY%{group}", queues=1)


def committed(cluster: Cluster, group: str, topic: str, queues: int) -> dict[tuple[str, int], int]:
    """The committed offsets of *group*, by broker and queue; a queue without one is absent."""
    found = {}
    for broker, address in cluster.brokers.items():
        for queue in range(queues):
            fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue)}
            answer = ask(address, QUERY_CONSUMER_OFFSET, fields)
            assert answer.code in (SUCCESS, QUERY_NOT_FOUND), answer.remark
            if answer.code == SUCCESS:
                found[broker, queue] = int(answer.fields()["offset"])
    return found


def commit(cluster: Cluster, group: str, topic: str, queue: int, offset: int) -> None:
    """Commit *offset* for *group* in one queue of each broker."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue)}
    for address in cluster.brokers.values():
        answer = ask(address, UPDATE_CONSUMER_OFFSET, {**fields, "commitOffset": str(offset)})
        assert answer.code == SUCCESS, answer.remark


def cluster_at(namesrv: str) -> Cluster:
    """The cluster whose brokers are registered at *namesrv*."""
    known: Any = body_of(ask(namesrv, GET_BROKER_CLUSTER_INFO, {}))
    brokers = {
        str(name): str(next(iter(broker["brokerAddrs"].values())))
        for name, broker in sorted(known["brokerAddrTable"].items())
    }
    return Cluster(namesrv, brokers)


def broker_addresses(namesrv: str, name: str) -> dict[int, str]:
    """The addresses of a broker name by id, as *namesrv* has them."""
    known: Any = body_of(ask(namesrv, GET_BROKER_CLUSTER_INFO, {}))
    broker = known["brokerAddrTable"].get(name, {"brokerAddrs": {}})
    return {int(number): str(address) for number, address in broker["brokerAddrs"].items()}


def routed_brokers(cluster: Cluster, topic: str) -> set[str]:
    answer = ask(cluster.namesrv, GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if answer.code != SUCCESS:
        return set()
    route: Any = body_of(answer)
    return {str(queue["brokerName"]) for queue in route["queueDatas"]}


def ask(address: str, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
    """Send one request over a new connection; return the answer."""
    host, port = address.rsplit(":", 1)
    ext = msgspec.Raw(msgspec.json.encode(fields))
    with socket.create_connection((host, int(port)), ANSWER_S_MAX) as stream:
        stream.sendall(encode_command(RemotingCommand(code=code, opaque=1, ext=ext, body=body)))
        decoder = FrameDecoder()
        while (frame := decoder.next_frame()) is None:
            data = stream.recv(1 << 16)
            assert data, f"{address} closed the connection after request {code}"
            decoder.feed(data)
    return decode_command(frame)


def body_of(answer: RemotingCommand) -> Any:
    """The JSON of an answer; fastjson writes integer keys without quotes."""
    return json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', answer.body))


def _wait_until_routed(cluster: Cluster, topic: str, brokers: set[str]) -> None:
    deadline = time.monotonic() + ROUTE_S_MAX
    while not brokers <= (found := routed_brokers(cluster, topic)):
        assert time.monotonic() < deadline, f"{topic} is routed to {found}, not {brokers}"
        time.sleep(0.02)
