"""Recorded requests of real clients: our NameServer gives the recorded replies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import TopicRouteData
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, ext_of
from rocketmq_emulator.protocol.framing import Frame, FrameDecoder
from tests.support.nameserver.name_servers import V1, NameServerBench, a_peer, topics
from tests.support.paths import GOLDEN

CONVERSATIONS = sorted((GOLDEN / "conversations").glob("*.jsonl"))


PORTS = {"4.9.7": 34911, "5.3.3": 35911}


def commands(path: Path, direction: str) -> list[tuple[int, RemotingCommand]]:
    """The commands in one direction, each with the number of its connection."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        recorded = json.loads(line)
        if recorded["peer"] == "namesrv" and recorded.get("dir") == direction:
            found.append(
                (recorded["conn"], decode_command(frame_of(bytes.fromhex(recorded["hex"]))))
            )
    return found


def frame_of(data: bytes) -> Frame:
    decoder = FrameDecoder()
    decoder.feed(data)
    frame = decoder.next_frame()
    assert frame is not None
    return frame


class RecordedBroker:
    """The one broker of the recordings; registers each topic before the reply that has it."""

    def __init__(self, release: str) -> None:
        self.bench = NameServerBench(release)
        self._broker = a_peer()
        self._version = V1
        self._address = f"127.0.0.1:{PORTS[release]}"

    def comes_to(self, reply: RemotingCommand, topic: str) -> None:
        """Register what the real server had registered when it sent *reply*."""
        self.bench.server.routes.delete_topic(topic, None)
        if reply.code != 0:
            return
        (queue,) = decode_body(reply.body, TopicRouteData).queue_datas
        served = topics(topic, perm=queue.perm, queues=queue.read_queue_nums)
        self._version = self._version.next(0)
        self.bench.register(
            self._broker,
            address=self._address,
            cluster="DefaultCluster",
            serves={**topics("another"), **served},
            version=self._version,
        )


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_the_answers_of_a_recorded_conversation_are_ours_to_the_byte(path) -> None:
    broker = RecordedBroker(path.stem[-5:])
    replies = {(conn, reply.opaque): reply for conn, reply in commands(path, "s2c")}
    compared = 0
    for conn, request in commands(path, "c2s"):
        theirs = replies.get((conn, request.opaque))
        if theirs is None:
            continue  # the client closed before the reply
        broker.comes_to(theirs, request.fields()["topic"])
        ours = broker.bench.take(request)
        assert (ours.code, ours.remark) == (theirs.code, theirs.remark)
        assert ours.body.decode() == theirs.body.decode()
        assert bytes(ext_of(ours.header, ours.extra)) == bytes(theirs.ext)
        compared += 1
    assert compared == len(replies) > 1
