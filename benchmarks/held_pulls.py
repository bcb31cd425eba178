"""Ten thousand pulls that a broker holds: their memory, and the time to answer them.

A thousand queues, ten pulls each; a connection has the pulls of ten queues.  Then one
message is sent to a queue; the time is measured until all its ten pulls are answered.
"""

from __future__ import annotations

import contextlib
import statistics
import time

from benchmarks.clusters import Cluster
from benchmarks.memory import resident_mb
from benchmarks.requests import create_topic, held_pull_frame, send_frame
from benchmarks.stream import Stream

QUEUES = 1_000
PULLS_A_QUEUE = 10
QUEUES_A_CONNECTION = 10
WOKEN_QUEUES = 100
TOPIC = "HeldPulls"
OTHER_TOPIC = "NobodyPulls"


def held_pulls(cluster: Cluster) -> dict[str, float]:
    """Bytes of memory per held pull, and the median and maximal time to answer, in ms."""
    address = next(iter(cluster.brokers.values()))
    broker_pid = cluster.pids[1]  # the NameServer's is the first
    create_topic(address, TOPIC, QUEUES)
    create_topic(address, OTHER_TOPIC, 1)
    with contextlib.ExitStack() as closing:
        streams = [
            closing.enter_context(Stream(address)) for _ in range(QUEUES // QUEUES_A_CONNECTION)
        ]
        sender = closing.enter_context(Stream(address))
        before_mb = resident_mb([broker_pid])
        for queue_id in range(QUEUES):
            frames = held_pull_frame(TOPIC, queue_id) * PULLS_A_QUEUE
            streams[queue_id // QUEUES_A_CONNECTION].send(frames)
        _wait_read(sender)
        after_mb = resident_mb([broker_pid])
        wakes_ms = [
            _wake_ms(sender, streams[queue_id // QUEUES_A_CONNECTION], queue_id)
            for queue_id in range(0, QUEUES, QUEUES // WOKEN_QUEUES)
        ]
    return {
        "held_pull_bytes": (after_mb - before_mb) * 1e6 / (QUEUES * PULLS_A_QUEUE),
        "wake_ms": statistics.median(wakes_ms),
        "wake_ms_max": max(wakes_ms),
    }


def _wake_ms(sender: Stream, holder: Stream, queue_id: int) -> float:
    began_s = time.perf_counter()
    sender.send(send_frame(TOPIC, queue_id))
    holder.take_frames(PULLS_A_QUEUE)
    took_ms = (time.perf_counter() - began_s) * 1e3
    sender.take_frames(1)
    return took_ms


def _wait_read(sender: Stream) -> None:
    """Wait until the broker has read all earlier requests: it answers three later ones."""
    for _ in range(3):
        sender.send(send_frame(OTHER_TOPIC, 0))
        sender.take_frames(1)
