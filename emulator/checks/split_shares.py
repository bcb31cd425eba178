"""Queues that are left as a NameServer lacks a topic at some broker.

A client asks one NameServer.  While one of them lacks a topic at a broker (`partial_routes`), the
members that ask it count fewer queues than the others.  Each takes its share of what it counts,
and these shares do not fit together: two take one queue, and another one nobody takes.  That
lasts as long as the routes differ: every pass comes to the same shares.
"""

from __future__ import annotations

from emulator.checks.queue_records import QueueReading
from emulator.checks.scene import Scene
from emulator.facts import Queue


def is_left(scene: Scene, group: str, queue: Queue, reading: QueueReading | None) -> bool:
    """Some NameServer lacks the queue; or nobody holds it, and members count different ones."""
    if scene.topics.is_partial(queue):
        return True
    if not scene.counts_differ(group, queue.topic):
        return False
    living = {seat.node for seat in scene.living(group)}
    holds = () if reading is None else reading.holds.items()
    return not any(hold.ended_us is None and node in living for node, hold in holds)
