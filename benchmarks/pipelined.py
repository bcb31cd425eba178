"""Frames per second through one connection, sent without waiting for the answers.

Echo measures the ``RemotingServer`` alone; SEND_MESSAGE_V2 measures the server with a broker.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.clusters import ROOT, Cluster
from benchmarks.requests import BODY, create_topic, send_frame
from benchmarks.stream import Stream, request
from rocketmq_emulator.protocol import catalog

CHUNK_FRAMES = 500
QUEUES = 4


def echo_per_s(seconds: float) -> float:
    with _echo_server() as address:
        return _frames_per_s(
            address, request(catalog.HEART_BEAT, None, BODY) * CHUNK_FRAMES, seconds
        )


def sends_per_s(cluster: Cluster, seconds: float) -> float:
    """SEND_MESSAGE_V2 per second, into four queues of one broker."""
    address = next(iter(cluster.brokers.values()))
    create_topic(address, "Pipelined", QUEUES)
    queues = (send_frame("Pipelined", number % QUEUES) for number in range(CHUNK_FRAMES))
    return _frames_per_s(address, b"".join(queues), seconds)


def _frames_per_s(address: str, chunk: bytes, seconds: float) -> float:
    """Send with two chunks always unanswered, so that the server never waits for requests."""
    with Stream(address) as stream:
        stream.send(chunk)
        began_s = time.perf_counter()
        taken = 0
        while time.perf_counter() - began_s < seconds:
            stream.send(chunk)
            stream.take_frames(CHUNK_FRAMES)
            taken += CHUNK_FRAMES
        took_s = time.perf_counter() - began_s
        stream.take_frames(CHUNK_FRAMES)
    return taken / took_s


@contextlib.contextmanager
def _echo_server() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.echo_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
