"""Telling the story of questions to a broker over TCP, and what it answered.

A real broker stores at once and indexes a moment later, on a thread of its own: after
each send this waits until the queue shows it, so that what follows may rely on it.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from parity.answer import position_of, shown
from parity.question import Leave, Pass, Question, Step

from protocol.codes import RequestCode
from protocol.command import NO_EXT, RemotingCommand, decode_command, encode_command
from protocol.framing import FrameDecoder

ANSWER_S_MAX = 10.0
INDEXED_S_MAX = 5.0


class Line:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._stream = socket.create_connection((host, int(port)), ANSWER_S_MAX)
        self._decoder = FrameDecoder()
        self._opaque = 0

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        """The answer; what the broker says by itself is passed over."""
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


def told(story: tuple[Step, ...], address: str) -> Iterator[tuple[Question, Any]]:
    """Every question with its answer, as ``shown``."""
    lines: dict[str, Line] = {}
    kept: dict[str, str] = {}
    for step in story:
        if isinstance(step, Pass):
            time.sleep(step.ms / 1_000)
        elif isinstance(step, Leave):
            lines.pop(step.by).close()
        else:
            line = lines.get(step.by) or lines.setdefault(step.by, Line(address))
            reply = line.ask(command_of(step, kept))
            if reply.code == 0 and "queueOffset" in reply.fields():
                _wait_indexed(line, step, reply)
            if step.keep is not None:
                kept[step.keep[1]] = position_of(reply)
            yield step, shown(reply)
    for line in lines.values():
        line.close()


def command_of(question: Question, kept: dict[str, str]) -> RemotingCommand:
    fields = question.fields
    if fields is not None:
        fields = {k: v.format(**kept) if _has_place(v) else v for k, v in fields.items()}
    return RemotingCommand(
        code=question.code,
        version=question.version,
        ext=NO_EXT if fields is None else msgspec.Raw(json.dumps(fields).encode()),
        body=question.body,
    )


def _has_place(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("{")


def _wait_indexed(line: Line, question: Question, reply: RemotingCommand) -> None:
    fields = question.fields or {}
    answer = reply.fields()
    is_delayed = "DELAY" in (fields.get("i") or "")
    is_redirected = str(fields.get("b", "")).startswith("%RETRY%")
    is_half = str(fields.get("f")) in ("4", "12")
    if is_delayed or is_redirected or is_half:
        time.sleep(0.1)  # it lies in another queue than the one that was asked for
        return
    topic = fields.get("b") or fields.get("topic")
    end = {"topic": topic, "queueId": answer["queueId"]}
    ask = Question(title="", code=RequestCode.GET_MAX_OFFSET, fields=end)
    deadline_s = time.monotonic() + INDEXED_S_MAX
    while int(line.ask(command_of(ask, {})).fields()["offset"]) <= int(answer["queueOffset"]):
        assert time.monotonic() < deadline_s, f"{question.title}: not indexed"
        time.sleep(0.005)
