"""Replies to requests, and colliding keys, at a real broker: its answers are still the recorded.

``RECORD=1`` overwrites the recording.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from contextlib import closing
from typing import Any

import pytest

from benchmarks.clusters import ROOT, ClusterNotUp, running
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.framing import FrameDecoder
from tests.parity.broker_connection import command_of
from tests.parity.question import CloseConnection, Question, Sleep
from tests.parity.recording import record, recorded
from tests.parity.reply_steps import PUSH_MS_MAX, STEPS, Push, agree, answer_to, recorded_form

ANSWER_S_MAX = PUSH_MS_MAX / 1_000 + 20
INDEXED_S = 0.05


class Connections:
    """Connections to one broker, by name; each answers what is pushed to it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._streams: dict[str, tuple[socket.socket, FrameDecoder]] = {}
        self._selector = selectors.DefaultSelector()
        self._opaque = 0

    def exchange(self, question: Question) -> tuple[RemotingCommand, list[Push]]:
        """The answer to *question*, and what was pushed meanwhile."""
        self._opaque += 1
        command = command_of(question, {})
        command.opaque = self._opaque
        self._stream(question.by).sendall(encode_command(command))
        pushes: list[Push] = []
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while True:
            assert time.monotonic() < deadline_s, f"{question.title}: no answer"
            for key, _ in self._selector.select(1.0):
                for found in self._read(key.data):
                    if found.is_response and found.opaque == self._opaque:
                        return found, pushes
                    if not found.is_response:
                        pushes.append((key.data, found))

    def leave(self, name: str) -> None:
        stream, _ = self._streams.pop(name)
        self._selector.unregister(stream)
        stream.close()

    def close(self) -> None:
        for name in list(self._streams):
            self.leave(name)

    def _read(self, name: str) -> list[RemotingCommand]:
        stream, decoder = self._streams[name]
        decoder.feed(stream.recv(1 << 16))
        found = [decode_command(frame) for frame in decoder]
        for command in found:
            if not command.is_response and (answer := answer_to(command)) is not None:
                stream.sendall(encode_command(answer))
        return found

    def _stream(self, name: str) -> socket.socket:
        if name not in self._streams:
            stream = socket.create_connection(self._address)
            self._streams[name] = stream, FrameDecoder()
            self._selector.register(stream, selectors.EVENT_READ, name)
        return self._streams[name][0]


def answers_of(address: str) -> list[tuple[Question, Any]]:
    answers = []
    with closing(Connections(address)) as connections:
        for step in STEPS:
            if isinstance(step, Sleep):
                time.sleep(step.ms / 1_000)
            elif isinstance(step, CloseConnection):
                connections.leave(step.by)
            else:
                answers.append((step, recorded_form(*connections.exchange(step))))
                time.sleep(INDEXED_S)
    return answers


@pytest.mark.parity
@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_a_real_broker_pushes_and_answers_as_it_was_recorded(release: str) -> None:
    script = str(ROOT / "benchmarks" / "real_cluster.py")
    command = [sys.executable, script, "--version", release, "--brokers", "1"]
    try:
        with running(command) as cluster:
            answers = answers_of(cluster.brokers["broker-a"])
    except ClusterNotUp as error:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {error}")
        pytest.skip(str(error))
    if os.environ.get("RECORD") == "1":
        record(release, answers, "replies")
    before = recorded(release, "replies")
    assert {question.title for question, _ in answers} == before.keys()
    changed = [q.title for q, answer in answers if not agree(before[q.title], answer)]
    assert changed == []
