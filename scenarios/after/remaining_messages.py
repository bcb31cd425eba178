"""The messages that each group has not finished when a journal ends, by queue.

Kept apart from the sentences that are made of it: causes and shortfalls both need it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.rules.delivery import NothingIsLost
from rocketmq_emulator.facts import Queue
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import retry_topic


class RemainingMessages(msgspec.Struct, frozen=True):
    """Messages of a queue that a group has not finished; *node*: the broadcasting member."""

    group: str
    node: str
    queue: Queue
    count: int
    first: int  # their lowest offset
    committed: int | None
    is_read: bool = True  # a member pulled from the queue


def remaining_at_end(entries: Sequence[Entry]) -> list[RemainingMessages]:
    """The unfinished messages of each group and queue, the most first."""
    judging = Judging((NothingIsLost,))
    judging.take(entries)
    cluster, progress = judging.cluster, judging.progress
    found = []
    for reader, reading in progress.readings():
        group, _, node = reader.partition("@")
        if group not in cluster.consumers:
            continue
        start = max(reading.start, reading.records.first or 0, reading.reused_to)
        left = list(
            progress.messages.pending.unsettled(reading, start, reading.records.end_offset)
        )
        if left:
            queue = reading.queue
            found.append(
                RemainingMessages(group, node, queue, len(left), left[0], reading.committed)
            )
    for group, consumers in cluster.consumers.items():
        topics = {topic for consumer in consumers for topic in consumer.topics} - {""}
        read = {r.queue for name, r in progress.readings() if name.partition("@")[0] == group}
        for queue, records in progress.messages.queues.items():
            is_ours = queue.topic in topics or queue.topic == retry_topic(group)
            if is_ours and queue not in read and records.stored_count:
                found.append(
                    RemainingMessages(
                        group, "", queue, records.stored_count, records.first or 0, None, False
                    )
                )
    return sorted(found, key=lambda left: -left.count)
