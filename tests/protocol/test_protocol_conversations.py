"""Recorded conversations of real clients with a real RocketMQ: every frame must be decoded.

Frames of servers and of Java clients must be encoded to the same bytes again.  The C++ and
Node clients write their headers in another order and with other spaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.fields import Header, fields_of
from rocketmq_emulator.protocol.framing import Frame, FrameDecoder
from rocketmq_emulator.protocol.rpc import Role, Rpc
from rocketmq_emulator.protocol.versions import R_4_9_7, R_5_3_3, Release
from tests.support.paths import GOLDEN

FILES = sorted((GOLDEN / "conversations").glob("*.jsonl"))
IDS = [path.stem for path in FILES]
COMMON = {"ns", "nsd", "oway", "lo", "bname"}  # ext fields of all 5.x requests, unused here
# Ext fields of every signed request.
SIGNED = {"AccessKey", "Signature", "OnsChannel"}
HAS_RESULT = {0, 10, 11, 12, 19, 20, 21}  # response codes with the fields of the reply


class RecordedFrame:
    """One recorded frame, and the call it belongs to."""

    def __init__(self, line: dict[str, Any], rpc: Rpc | None, frame: Frame, sender: Release):
        self.line = line
        self.rpc = rpc
        self.frame = frame
        self.sender = sender
        self.data = bytes.fromhex(line["hex"])
        self.command = decode_command(frame)
        self.name = f"{line['t_ms']} {rpc.name if rpc else self.command.code}"
        self.is_request = not self.command.is_response


def conversation(path: Path) -> Iterator[RecordedFrame]:
    """Every frame, with the call it belongs to."""
    requests: dict[tuple[Any, ...], Rpc] = {}
    server = R_5_3_3 if path.stem.endswith("5.3.3") else R_4_9_7
    client = R_5_3_3 if path.stem.startswith("java-5") else R_4_9_7
    with path.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "hex" not in line:
                continue
            decoder = FrameDecoder()
            decoder.feed(bytes.fromhex(line["hex"]))
            (frame,) = decoder
            sender = server if line["dir"] == "s2c" else client
            yield RecordedFrame(line, *_call(line, frame, requests), sender)


def _call(
    line: dict[str, Any], frame: Frame, requests: dict[tuple[Any, ...], Rpc]
) -> tuple[Rpc | None, Frame]:
    command = decode_command(frame)
    to_server = line["dir"] == "c2s"
    if command.is_response:
        return requests.get((line["conn"], not to_server, command.opaque)), frame
    server: Role = "broker" if line["peer"] == "broker-a" else "nameserver"
    role: Role = server if to_server else "client"
    rpc = catalog.by_code(command.code, role)
    assert rpc is not None, (command.code, role)
    requests[line["conn"], to_server, command.opaque] = rpc
    return rpc, frame


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_every_frame_is_a_known_call_with_a_header_of_its_type(path: Path) -> None:
    count = 0
    for recorded in conversation(path):
        count += 1
        assert recorded.rpc is not None, recorded.name
        command, given = recorded.command, recorded.line["header"]
        assert command.code == given["code"]
        assert command.opaque == given["opaque"]
        assert len(command.body) == recorded.line["body_len"]
        if recorded.is_request:
            kind: type[Header] = recorded.rpc.request
        elif command.code in HAS_RESULT:
            kind = recorded.rpc.reply
        else:
            continue
        found = fields_of(command.decode(kind))
        sent = command.fields()
        unread = set(sent) - set(found) - COMMON - SIGNED
        assert not unread, (recorded.name, unread)
        # The C++ client writes booleans as numbers.
        zeros = {key for key, text in found.items() if text == "false" and sent.get(key) == "0"}
        assert not zeros or path.stem.startswith("cpp")
        same = (set(sent) & set(found)) - zeros
        assert {key: found[key] for key in same} == {key: sent[key] for key in same}, recorded.name
    assert count > 20


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_frames_of_servers_and_java_clients_come_back_byte_for_byte(path: Path) -> None:
    java = path.stem.startswith(("java", "pyrocketmq"))
    for recorded in conversation(path):
        if recorded.line["dir"] == "s2c" or java:
            assert encode_command(recorded.command) == recorded.data, recorded.name


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_header_of_ours_has_the_fields_of_the_recorded_one(path: Path) -> None:
    """Keys and texts are the same; the order is not compared, it is that of Java's hash maps."""
    for recorded in conversation(path):
        if recorded.line["dir"] == "c2s" or recorded.command.code not in HAS_RESULT:
            continue
        assert recorded.rpc is not None
        kind = recorded.rpc.request if recorded.is_request else recorded.rpc.reply
        ours = RemotingCommand(ext=ext_of(recorded.command.decode(kind)))
        assert ours.fields() == recorded.command.fields(), recorded.name


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_bodies_come_back_byte_for_byte(path: Path) -> None:
    for recorded in conversation(path):
        assert recorded.rpc is not None
        kind = recorded.rpc.request_body if recorded.is_request else recorded.rpc.reply_body
        if kind in (None, bytes) or not recorded.command.body:
            continue
        body = decode_body(recorded.command.body, kind)
        if recorded.line["dir"] == "c2s" and not path.stem.startswith(("java", "pyrocketmq")):
            continue
        standard = (
            recorded.rpc is catalog.GET_ROUTEINFO_BY_TOPIC and b'{"0":' in recorded.command.body
        )
        ours = encode_body(body, recorded.sender, standard=standard)
        assert ours == recorded.command.body, recorded.name
