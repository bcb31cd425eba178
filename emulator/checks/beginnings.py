"""Where a reader begins that has no offset yet: a new group, at the first message or at the end.

A broker answers 0 to a group without an offset while the queue has its first message.  Up to 5.0.0
it does so in an empty queue too; since 5.1.0 it has no answer there, and the member goes on to ask
where the queue ends, which may have moved between the two questions.

Upstream: ConsumerManageProcessor.queryConsumerOffset, RebalancePushImpl and
RebalanceLitePullImpl.computePullFromWhereWithException.
"""

from __future__ import annotations

from emulator.checks.queue_records import QueueReading, QueueRecords
from emulator.checks.scene import Scene
from emulator.releases import EMPTY_QUEUE_HAS_NO_OFFSET, Release

# A member asks for the group's offset (5 s at most) and, without one, where the queue ends (3 s).
BEGIN_US = 8_000_000


def first_of(reader: str, records: QueueRecords, offset: int | None) -> int:
    """Where *reader*, new to the queue, begins if a member claims it at *offset*."""
    is_new_to_all = records.first == 0 and not records.dropped_to and "@" not in reader
    return 0 if offset is None or is_new_to_all else offset


def begins_where_it_ends(scene: Scene, reading: QueueReading, now_us: int) -> bool:
    """The group has no offset, and the queue was empty when the member asked for one."""
    run, records = scene.run, reading.records
    if "@" in reading.reader or reading.told or records.first != 0:
        return False
    if run is None or Release.parse(run.release) < EMPTY_QUEUE_HAS_NO_OFFSET:
        return False
    first_us = records.stored_us(0)
    return first_us is not None and first_us > now_us - BEGIN_US
