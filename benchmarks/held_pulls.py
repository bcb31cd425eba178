"""Ten thousand pulls that a broker holds: what they weigh, and how soon one is woken.

A thousand queues, ten pulls each; a connection has the pulls of ten queues.  Then one
message goes to a queue, and the clock stops when all its ten pulls are answered.
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
    """Memory of one held pull in bytes, and the median wake-up in milliseconds."""
    address = next(iter(cluster.brokers.values()))
    broker_pid = cluster.pids[1]  # the NameServer stands first
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
    """A broker with one loop has read what came before when it answers what comes now."""
    for _ in range(3):
        sender.send(send_frame(OTHER_TOPIC, 0))
        sender.take_frames(1)
