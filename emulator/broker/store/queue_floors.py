"""What must outlive the messages of a queue: the next offset, once its last record is gone.

Everything else about a queue is read from the log.  A queue whose records retention has
dropped would start again from 0, and a deleted topic's records would come back to its
successor: two numbers a queue, in one small document, written before the records go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from emulator.disk.port import Disk

DOCUMENT = "queueFloors.json"  # ours: upstream keeps the files of its consume queues


class Floor(NamedTuple):
    """Offsets below ``next_offset`` were used; records before ``since_position`` do not count."""

    next_offset: int = 0
    since_position: int = 0


class QueueFloors:
    """The document on *disk*, and changes to it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        text = disk.read(DOCUMENT)
        rows = _decode(text) if text else []
        self._floors = {(topic, queue_id): Floor(*rest) for topic, queue_id, *rest in rows}

    def items(self) -> list[tuple[tuple[str, int], Floor]]:
        return list(self._floors.items())

    def set(self, floors: dict[tuple[str, int], Floor], min_position: int = 0) -> None:
        """Change these, on disk before in memory; raises DiskFull and then changes nothing.

        Records before *min_position* are gone, and with them the need to ignore them.
        """
        changed = {
            queue: floor
            for queue, floor in {**self._floors, **floors}.items()
            if floor.next_offset or floor.since_position > min_position
        }
        if changed == self._floors:
            return
        rows = [(*queue, *floor) for queue, floor in changed.items()]
        self._disk.replace(DOCUMENT, msgspec.json.encode(rows))
        self._floors = changed

    def lower_to(self, end_position: int) -> None:
        """The log lost its tail: no floor may hide what will be written there again."""
        self.set(
            {
                queue: Floor(floor.next_offset, end_position)
                for queue, floor in self._floors.items()
                if floor.since_position > end_position
            }
        )


_decode = msgspec.json.Decoder(list[tuple[str, int, int, int]]).decode
