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
from emulator.journal import Entry
from emulator.releases import EMPTY_QUEUE_HAS_NO_OFFSET, Release

# A member asks for the group's offset (5 s at most) and, without one, where the queue ends (3 s).
BEGIN_US = 8_000_000
PULL_US = 3_000_000  # from the claim of a lite pull member to its first pull; a thread may lack


def first_of(reader: str, records: QueueRecords, offset: int | None) -> int:
    """Where *reader*, new to the queue, begins if a member claims it at *offset*."""
    is_new_to_all = records.first == 0 and not records.dropped_to and "@" not in reader
    return 0 if offset is None or is_new_to_all else offset


def begins_where_it_ends(scene: Scene, reading: QueueReading, now_us: int) -> bool:
    """The group has no offset, and the queue was empty when the member asked for one, or is."""
    run, records = scene.run, reading.records
    if "@" in reading.reader or reading.told or records.first not in (None, 0):
        return False
    if run is None or Release.parse(run.release) < EMPTY_QUEUE_HAS_NO_OFFSET:
        return False
    if records.first is None:
        return True
    first_us = records.stored_us(0)
    return first_us is not None and first_us > now_us - BEGIN_US


def asks_again_to_us(scene: Scene, group: str, claimed: Entry) -> int:
    """Until when the member that claimed asks once more where it begins; 0: it does not.

    Upstream: DefaultLitePullConsumerImpl.nextPullOffset, just before the first pull of a queue.
    """
    seat = scene.seat(group, claimed.node)
    is_lite = seat is not None and seat.started.consumer_kind == "lite_pull"
    return claimed.mono_us + PULL_US if is_lite else 0
