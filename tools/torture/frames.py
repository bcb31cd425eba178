"""Hostile frames, one at a time: how long other connections wait for an answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.framing import JSON, FrameDecoder, encode_frame
from rocketmq_emulator.text.values import split_address
from tools.torture import Row
from tools.torture.waiting import Server, ServerClock

NAME = "Frames that take long to read"
AIM_MS = 100
MB = 1024 * 1024
PATIENCE_S = 60
ECHO = encode_command(
    RemotingCommand(code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, opaque=1)
)
QUEUES = 100_000


def run() -> list[Row]:
    """Send each frame to a broker or NameServer while another connection sends requests."""
    with ProcessCluster(ClusterSpec(brokers=1)) as cluster:
        broker = Server(cluster.brokers["broker-a"], cluster.pids["broker-a"])
        namesrv = Server(cluster.namesrv, cluster.pids["namesrv"])
        make = {"topic": "Wide", "defaultTopic": "TBW102", "perm": "6", "topicSysFlag": "0"}
        make["topicFilterType"] = "SINGLE_TAG"
        make |= {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "order": "false"}
        answered = answer(broker.address, request(RequestCode.UPDATE_AND_CREATE_TOPIC, **make))
        if answered != "code 0":
            raise RuntimeError(f"the broker did not create the topic Wide: {answered}")
        rows = [_first_touch(broker)]
        rows += [row(broker, what, frame) for what, frame in frames_for_a_broker()]
        return [*rows, row(namesrv, "properties of 8 MB at the NameServer", properties(8 * MB))]


def _first_touch(server: Server) -> Row:
    """A frame that is refused unread: shows how long the machine needs to provide memory."""
    found = row(server, "the first 13 MB that a process receives", heartbeat(bytes(13 * MB)))
    return found._replace(aim="", reached=None)


def frames_for_a_broker() -> Iterator[tuple[str, bytes]]:
    """Frames that once took seconds, as a hostile or broken peer would send them."""
    pairs = ",".join(f"'k{i}':'v{i}'" for i in range(13 * MB // 17))
    header = f"{{'code':34,'opaque':1,'flag':0,'extFields':{{{pairs}}}}}".encode()
    yield "13 MB of single-quoted ext fields", encode_frame(JSON, header, b"")
    yield "13 MB of ext fields", encode_frame(JSON, header.replace(b"'", b'"'), b"")
    yield "a lax heartbeat of 14 MB", heartbeat(a_group(14 * MB).replace(b'"', b"'"))
    yield "a heartbeat of 14 MB", heartbeat(a_group(14 * MB))
    yield r"14 MB of \x41 in a heartbeat", heartbeat(b'{"clientID":"%b"}' % (b"\\x41" * 3 * MB))
    yield "4 million empty groups", heartbeat(b'{"consumerDataSet":[%b{}]}' % (b"{}," * 4 * MB))
    tags = "||".join(f"T{i}" for i in range(1_000_000))
    pull = {"consumerGroup": "g", "topic": "Wide", "queueId": "0", "queueOffset": "0"}
    pull |= {"maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    pull["subVersion"] = "0"
    pull["subscription"] = tags
    yield (
        "a pull with a million tags",
        request(RequestCode.PULL_MESSAGE, **pull),
    )
    stats = request(RequestCode.GET_TOPIC_STATS_INFO, topic="Wide")
    yield f"statistics of {QUEUES:,} queues", stats


def a_group(size: int) -> bytes:
    one = '{"groupName":"g%d","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING"}'
    groups = ",".join(one % number for number in range(size // len(one)))
    return f'{{"clientID":"c","consumerDataSet":[{groups}]}}'.encode()


def heartbeat(body: bytes) -> bytes:
    return encode_command(RemotingCommand(code=RequestCode.HEART_BEAT, opaque=1, body=body))


def properties(size: int) -> bytes:
    body = b"orderMessageEnable=true\n" * (size // 24)
    return encode_command(
        RemotingCommand(code=RequestCode.UPDATE_NAMESRV_CONFIG, opaque=1, body=body)
    )


def request(code: int, **fields: str) -> bytes:
    pairs = ",".join(f'"{name}":"{value}"' for name, value in fields.items())
    header = f'{{"code":{code},"opaque":1,"flag":0,"extFields":{{{pairs}}}}}'
    return encode_frame(JSON, header.encode(), b"")


def row(server: Server, what: str, frame: bytes) -> Row:
    with longest_wait_ms(server) as waits:
        said = answer(server.address, frame)
    worst_ms = max(waits)
    aim = f"others wait {AIM_MS} ms at most"
    return Row(what, aim, f"{worst_ms:.0f} ms; {said}", worst_ms <= AIM_MS)


def answer(address: str, frame: bytes) -> str:
    """``code N`` of the answer to *frame*, or ``closed``."""
    with socket.create_connection(split_address(address), PATIENCE_S) as sock:
        sock.sendall(frame)
        reply = read_reply(sock)
    return "closed" if reply is None else f"code {reply.code}"


def read_reply(sock: socket.socket) -> RemotingCommand | None:
    decoder = FrameDecoder()
    while data := sock.recv(MB):
        decoder.feed(data)
        if (found := decoder.next_frame()) is not None:
            return decode_command(found)
    return None


@contextmanager
def longest_wait_ms(server: Server) -> Iterator[list[float]]:
    """In the block another connection sends requests; the list gets the time of each answer."""
    waits: list[float] = []
    asks, done = threading.Event(), threading.Event()

    def ask() -> None:
        clock = ServerClock(server.pid)
        with socket.create_connection(split_address(server.address), PATIENCE_S) as sock:
            while not done.is_set():
                began_s = clock.now_s()
                sock.sendall(ECHO)
                read_reply(sock)
                waits.append(clock.since_s(began_s) * 1_000)
                asks.set()
                time.sleep(0.002)

    asker = threading.Thread(target=ask)
    asker.start()
    asks.wait(PATIENCE_S)
    try:
        yield waits
    finally:
        done.set()
        asker.join()
