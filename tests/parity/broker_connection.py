"""Sends the questions to a broker over TCP, and yields its answers.

A real broker stores a message at once, and another thread indexes it a moment later.  So after
each send this waits until the queue contains its messages, because later questions need them.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import (
    NO_EXT,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rocketmq_emulator.protocol.framing import FrameDecoder
from tests.parity.answer import position_of, shown
from tests.parity.question import CloseConnection, Question, Sleep, Step

ANSWER_S_MAX = 10.0  # also waited in virtual time: no member may expire within it
INDEXED_S_MAX = 60.0  # on a busy machine


class BrokerConnection:
    """One blocking connection to a broker."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._stream = socket.create_connection((host, int(port)), ANSWER_S_MAX)
        self._decoder = FrameDecoder()
        self._opaque = 0

    def invoke(self, command: RemotingCommand) -> RemotingCommand:
        """The reply; requests that the broker sends are ignored."""
        self._opaque += 1
        command.opaque = self._opaque
        self._stream.sendall(encode_command(command))
        while True:
            while (frame := self._decoder.next_frame()) is None:
                data = self._stream.recv(1 << 16)
                assert data, "the broker closed the connection"
                self._decoder.feed(data)
            reply = decode_command(frame)
            if reply.is_response and reply.opaque == self._opaque:
                return reply

    def close(self) -> None:
        self._stream.close()


def answers_of(main: tuple[Step, ...], address: str) -> Iterator[tuple[Question, Any]]:
    """Ask every question; yield it with its answer in the form of ``shown``."""
    connections: dict[str, BrokerConnection] = {}
    kept: dict[str, str] = {}
    for step in main:
        if isinstance(step, Sleep):
            time.sleep(step.ms / 1_000)
        elif isinstance(step, CloseConnection):
            connections.pop(step.by).close()
        else:
            connection = connections.get(step.by) or connections.setdefault(
                step.by, BrokerConnection(address)
            )
            reply = connection.invoke(command_of(step, kept))
            if reply.code == 0 and "queueOffset" in reply.fields():
                _wait_indexed(connection, step, reply)
            if step.keep is not None:
                kept[step.keep[1]] = position_of(reply)
            yield step, shown(reply)
    for connection in connections.values():
        connection.close()


def command_of(question: Question, kept: dict[str, str]) -> RemotingCommand:
    fields = question.fields
    if fields is not None:
        fields = {k: v.format(**kept) if _has_placeholder(v) else v for k, v in fields.items()}
    return RemotingCommand(
        code=question.code,
        version=question.version,
        ext=NO_EXT if fields is None else msgspec.Raw(json.dumps(fields).encode()),
        body=question.body,
    )


def _has_placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("{")


def _wait_indexed(
    connection: BrokerConnection, question: Question, reply: RemotingCommand
) -> None:
    fields = question.fields or {}
    answer = reply.fields()
    is_delayed = "DELAY" in (fields.get("i") or "")
    is_redirected = str(fields.get("b", "")).startswith("%RETRY%")
    is_half = str(fields.get("f")) in ("4", "12")
    if is_delayed or is_redirected or is_half:
        time.sleep(0.1)  # it is not stored in the requested queue
        return
    topic = fields.get("b") or fields.get("topic")
    end = {"topic": topic, "queueId": answer["queueId"]}
    query = Question(title="", code=RequestCode.GET_MAX_OFFSET, fields=end)
    # A batch gets one id for each of its messages, which are indexed one by one.
    last = int(answer["queueOffset"]) + (answer.get("msgId") or "").count(",")
    deadline_s = time.monotonic() + INDEXED_S_MAX
    while int(connection.invoke(command_of(query, {})).fields()["offset"]) <= last:
        assert time.monotonic() < deadline_s, f"{question.title}: not indexed"
        time.sleep(0.005)
