"""The log output of a node when its standard error is not read."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from rocketmq_emulator.processes.node import LogOutput
from rocketmq_emulator.settings.config import NameServerConfig

PIPE_BYTES = 8192  # two pages: a line begins the second only if that page is empty
LINE = "a line\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The reading and the writing end of a small pipe."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reads, writes
    os.close(reads)
    os.close(writes)


def test_lines_that_find_no_room_are_counted_and_the_count_comes_when_there_is_room(
    pipe: tuple[int, int],
) -> None:
    reads, writes = pipe
    output, count = LogOutput(writes), PIPE_BYTES // len(LINE)
    for _ in range(count):
        output.write(LINE)
    held = os.read(reads, PIPE_BYTES).decode()
    output.write("the next\n")
    shown = held.count(LINE)
    assert held == LINE * shown
    assert count // 2 <= shown < count
    assert os.read(reads, PIPE_BYTES).decode() == (
        f"{count - shown} lines were left out here, because nobody read the log\nthe next\n"
    )


def test_a_long_text_that_is_cut_short_does_not_run_into_the_next_line(
    pipe: tuple[int, int],
) -> None:
    reads, writes = pipe
    output = LogOutput(writes)
    output.write("x" * 2 * PIPE_BYTES + "\n")
    assert os.read(reads, 2 * PIPE_BYTES) == b"x" * PIPE_BYTES
    output.write(LINE)
    assert os.read(reads, PIPE_BYTES).decode().splitlines() == [
        "",
        "1 lines were left out here, because nobody read the log",
        LINE.strip(),
    ]


def test_a_log_whose_reader_has_gone_or_that_has_no_file_drops_its_lines_and_counts_them() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    outputs = [LogOutput(writes), LogOutput(None)]
    for output in outputs:
        output.write(LINE)
        output.write(LINE)
    os.close(writes)
    assert [output.dropped_lines for output in outputs] == [2, 2]


def test_a_node_whose_standard_error_nobody_reads_goes_on_answering(
    pipe: tuple[int, int],
) -> None:
    reads, writes = pipe
    config = msgspec.json.encode(NameServerConfig(listen_address="127.0.0.1:0")).decode()
    command = [sys.executable, "-m", "rocketmq_emulator.processes.node", "nameserver", config]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writes) as process:
        try:
            assert process.stdout is not None
            host, port = json.loads(process.stdout.readline())["address"].split(":")
            for _ in range(200):  # each is a warning of some hundred bytes
                send_what_is_no_frame(host, int(port))
            held = os.read(reads, PIPE_BYTES)
            send_what_is_no_frame(host, int(port))
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
    assert b"FrameRefused" in held
    assert b" lines were left out here" in os.read(reads, PIPE_BYTES)


def send_what_is_no_frame(host: str, port: int) -> None:
    """Send bytes that are no frame, and wait until the node closes the connection."""
    with socket.create_connection((host, port), timeout=20) as connection:
        connection.sendall(b"\xff" * 64)
        assert connection.recv(1) == b""
