"""Recorded conversations of real clients with a real RocketMQ: all of it must be understood.

Byte for byte back: every frame a server wrote, and every frame a Java client wrote.  The
C++ and Node clients write their headers in an order and a spacing of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_data import GOLDEN

from protocol import catalog
from protocol.bodies.body import decode_body, encode_body
from protocol.command import RemotingCommand, decode_command, encode_command, ext_of
from protocol.fields import Header, fields_of
from protocol.framing import Frame, FrameDecoder
from protocol.rpc import Role, Rpc
from protocol.versions import R_4_9_7, R_5_3_3, Release

FILES = sorted((GOLDEN / "conversations").glob("*.jsonl"))
IDS = [path.stem for path in FILES]
COMMON = {"ns", "nsd", "oway", "lo", "bname"}  # ext fields of all 5.x requests, of no use here
# Every request of a client that signs its requests carries these.
SIGNED = {"AccessKey", "Signature", "OnsChannel"}
HAS_RESULT = {0, 10, 11, 12, 19, 20, 21}  # response codes whose ext fields are the reply's


class Heard:
    """One recorded frame and what it answers."""

    def __init__(self, line: dict[str, Any], asked: Rpc | None, frame: Frame, sender: Release):
        self.line = line
        self.rpc = asked
        self.frame = frame
        self.sender = sender
        self.data = bytes.fromhex(line["hex"])
        self.command = decode_command(frame)
        self.name = f"{line['t_ms']} {asked.name if asked else self.command.code}"
        self.is_asked = not self.command.is_response


def conversation(path: Path) -> Iterator[Heard]:
    """Every frame, with the call it belongs to."""
    asked: dict[tuple[Any, ...], Rpc] = {}
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
            yield Heard(line, *_call(line, frame, asked), sender)


def _call(
    line: dict[str, Any], frame: Frame, asked: dict[tuple[Any, ...], Rpc]
) -> tuple[Rpc | None, Frame]:
    command = decode_command(frame)
    to_server = line["dir"] == "c2s"
    if command.is_response:
        return asked.get((line["conn"], not to_server, command.opaque)), frame
    server: Role = "broker" if line["peer"] == "broker-a" else "nameserver"
    role: Role = server if to_server else "client"
    rpc = catalog.by_code(command.code, role)
    assert rpc is not None, (command.code, role)
    asked[line["conn"], to_server, command.opaque] = rpc
    return rpc, frame


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_every_frame_is_a_known_call_with_a_header_of_its_type(path: Path) -> None:
    count = 0
    for heard in conversation(path):
        count += 1
        assert heard.rpc is not None, heard.name
        command, given = heard.command, heard.line["header"]
        assert command.code == given["code"]
        assert command.opaque == given["opaque"]
        assert len(command.body) == heard.line["body_len"]
        if heard.is_asked:
            kind: type[Header] = heard.rpc.request
        elif command.code in HAS_RESULT:
            kind = heard.rpc.reply
        else:
            continue
        found = fields_of(command.decode(kind))
        said = command.fields()
        unread = set(said) - set(found) - COMMON - SIGNED
        assert not unread, (heard.name, unread)
        # C++ writes its booleans as numbers.
        zeros = {key for key, text in found.items() if text == "false" and said.get(key) == "0"}
        assert not zeros or path.stem.startswith("cpp")
        same = (set(said) & set(found)) - zeros
        assert {key: found[key] for key in same} == {key: said[key] for key in same}, heard.name
    assert count > 20


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_frames_of_servers_and_java_clients_come_back_byte_for_byte(path: Path) -> None:
    java = path.stem.startswith(("java", "pyrocketmq"))
    for heard in conversation(path):
        if heard.line["dir"] == "s2c" or java:
            assert encode_command(heard.command) == heard.data, heard.name


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_header_of_ours_says_the_same_as_the_recorded_one(path: Path) -> None:
    """Built from typed fields: the same keys and texts; only Java knows its hash maps' order."""
    for heard in conversation(path):
        if heard.line["dir"] == "c2s" or heard.command.code not in HAS_RESULT:
            continue
        assert heard.rpc is not None
        kind = heard.rpc.request if heard.is_asked else heard.rpc.reply
        ours = RemotingCommand(ext=ext_of(heard.command.decode(kind)))
        assert ours.fields() == heard.command.fields(), heard.name


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_bodies_come_back_byte_for_byte(path: Path) -> None:
    for heard in conversation(path):
        assert heard.rpc is not None
        kind = heard.rpc.request_body if heard.is_asked else heard.rpc.reply_body
        if kind in (None, bytes) or not heard.command.body:
            continue
        body = decode_body(heard.command.body, kind)
        if heard.line["dir"] == "c2s" and not path.stem.startswith(("java", "pyrocketmq")):
            continue
        standard = heard.rpc is catalog.GET_ROUTEINFO_BY_TOPIC and b'{"0":' in heard.command.body
        ours = encode_body(body, heard.sender, standard=standard)
        assert ours == heard.command.body, heard.name
