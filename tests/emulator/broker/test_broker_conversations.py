"""In ten recorded conversations our broker answers as the real broker did.

Every frame of the client is fed to our broker of the recorded release, in its order and at its
time.  Replies and requests of the broker must equal the recorded ones, except for times and
ports.  If the log had messages before, positions count from the conversation's first message.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command
from rocketmq_emulator.protocol.framing import Frame, FrameDecoder
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.messages.records import StoredMessage, decode_records
from tests.support.broker.bench import Bench, Client
from tests.support.paths import GOLDEN

CONVERSATIONS = sorted((GOLDEN / "conversations").glob("*.jsonl"))
Said = dict[str, Any]


def lines_of(path: Path) -> list[Said]:
    """The frames between the client and the broker, and their opened and closed connections."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["peer"] == "broker-a"]


def command_of(line: Said) -> RemotingCommand:
    return decode_command(frame_of(bytes.fromhex(line["hex"])))


def frame_of(data: bytes) -> Frame:
    decoder = FrameDecoder()
    decoder.feed(data)
    frame = decoder.next_frame()
    assert frame is not None
    return frame


class Replay:
    """Repeats a conversation with our broker, which first gets the same topics and groups."""

    def __init__(self, path: Path) -> None:
        self.lines = lines_of(path)
        self.bench = Bench(release=path.stem[-5:])
        self._clients: dict[int, Client] = {}
        self._prepare(path.stem)

    async def run(self) -> None:
        """Feed each frame at its recorded time, because the answer may depend on it."""
        began_s, first_ms = trio.current_time(), self.lines[0]["t_ms"]
        for line in self.lines:
            await trio.sleep_until(began_s + (line["t_ms"] - first_ms) / 1_000)
            number = line["conn"]
            if line.get("event") == "open":
                self._clients[number] = self.bench.client()
            elif line.get("event") == "close":
                self._clients[number].close()
            elif line["dir"] == "c2s":
                self._clients[number].endpoint.feed(bytes.fromhex(line["hex"]))

    def heard(self, number: int) -> list[RemotingCommand]:
        client = self._clients[number]
        return [*client.answers(), *client.heard]

    def _prepare(self, name: str) -> None:
        """Create the topic of Node; and the group, unless the recorded broker was new."""
        broker, now_ms = self.bench.broker, self.bench.now_ms()
        if name.startswith("node"):
            topic = TopicConfig(topic_name="TalkNode", read_queue_nums=4, write_queue_nums=4)
            broker.topics.update(topic, now_ms)
        if not name.startswith("java-4.9.8"):
            broker.groups.update(SubscriptionGroupConfig(group_name="talk_group"), now_ms)
            broker.ensure_topic("%RETRY%talk_group", 1, now_ms, by="heartbeat")


def recorded(lines: list[Said]) -> dict[int, list[RemotingCommand]]:
    """The commands that the real broker sent, by connection."""
    said = defaultdict(list)
    for line in lines:
        if line.get("dir") == "s2c":
            said[line["conn"]].append(command_of(line))
    return said


class Plain:
    """The fields that must be equal: all except times, hosts and keys that the broker made.

    A 5.x broker makes the unique keys that its client did not send.  Their length depends on an
    address of the machine, so size and position are not compared then.
    """

    def __init__(self, lines: list[Said], base: int = 0) -> None:
        self._asked = b"".join(
            bytes.fromhex(line["hex"]) for line in lines if line.get("dir") == "c2s"
        )
        self._base = base

    def of(self, reply: RemotingCommand) -> Said:
        return {
            "code": reply.code,
            "flag": reply.flag,
            "language": reply.language,
            "remark": reply.remark,
            "ext": self._ext(reply.fields()) if reply.ext else None,
            "body": self._body(reply.body),
        }

    def _ext(self, fields: dict[str, str]) -> Said:
        if "msgId" not in fields:
            return fields
        position = int(fields["msgId"][-16:], 16) - self._base
        if self._is_made(fields.get("transactionId")):
            return {**fields, "transactionId": "made", "msgId": "somewhere"}
        return {**fields, "msgId": position}

    def _body(self, body: bytes) -> Any:
        if not body:
            return None
        if body.startswith(b"{"):
            return java_json.read(body)
        return [self._record(message) for message in decode_records(body)]

    def _record(self, message: StoredMessage) -> Said:
        dull = ("end", "properties", "store_ms", "store_host", "born_host")
        shown = {k: v for k, v in msgspec.structs.asdict(message).items() if k not in dull}
        properties = message.property_map()
        if self._is_made(properties.get("UNIQ_KEY")):
            properties["UNIQ_KEY"] = "made"
            shown["size"] = shown["position"] = None
        else:
            shown["position"] -= self._base
        return {**shown, "properties": properties}

    def _is_made(self, key: str | None) -> bool:
        return key is not None and key.encode() not in self._asked


def first_position(said: dict[int, list[RemotingCommand]]) -> int:
    """The log position of the conversation's first message."""
    replies = [reply.fields() for replies in said.values() for reply in replies if reply.ext]
    return min(int(ext["msgId"][-16:], 16) for ext in replies if "msgId" in ext)


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
async def test_a_recorded_conversation_goes_the_same_way_with_ours(
    path: Path, autojump_clock: MockClock
) -> None:
    replay = Replay(path)
    async with trio.open_nursery() as nursery:
        replay.bench.start(nursery)
        await replay.run()
        nursery.cancel_scope.cancel()
    said = recorded(replay.lines)
    plain_ours, plain_theirs = Plain(replay.lines), Plain(replay.lines, first_position(said))
    for number, theirs in said.items():
        ours = replay.heard(number)
        replies = {reply.opaque: reply for reply in ours if reply.is_response}
        for reply in theirs:
            if reply.is_response:
                assert plain_ours.of(replies[reply.opaque]) == plain_theirs.of(reply)
        assert [plain_ours.of(r) for r in ours if not r.is_response] == [
            plain_theirs.of(r) for r in theirs if not r.is_response
        ]
    assert sum(map(len, said.values())) > 10
    replay.bench.no_bugs()
