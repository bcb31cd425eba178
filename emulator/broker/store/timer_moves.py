"""How far timer messages were moved by advancing time, and which came early for it.

A message's record says when it is due, and a start reads all records again: so those that came
early are remembered on disk, or they would come a second time.  How far others were moved is
forgotten with the process: they come at their own time then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from emulator.broker.store.timer_records import SlotRule, TimerRecord
    from emulator.disk.port import Disk

DOCUMENT = "timerAdvanced.json"


class TimerMoves:
    """By offset in the timer topic; *disk* keeps ``came_early``."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.came_early: set[int] = set()
        self._steps: list[tuple[int, int]] = []  # offsets below the first moved by the second
        self._rolled: dict[int, int] = {}  # how far a message was moved before it was stored anew
        if (saved := disk.read(DOCUMENT)) is not None:
            try:
                self.came_early.update(msgspec.json.decode(saved, type=list[int]))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return  # they come once more

    @property
    def is_moved(self) -> bool:
        """Was anything moved since the start?"""
        return bool(self._steps)

    def move(self, end_offset: int, ms: int) -> None:
        """All that wait below *end_offset* come earlier by *ms*."""
        self._steps.append((end_offset, ms))

    def of(self, offset: int) -> int:
        """How far the message at *offset* was moved, in ms."""
        moved_ms = sum(ms for end_offset, ms in self._steps if offset < end_offset)
        return moved_ms + self._rolled.get(offset, 0)

    def slot_of(self, rule: SlotRule, record: TimerRecord, offset: int) -> tuple[int, bool]:
        """As ``SlotRule.slot_of``; a *record* that was stored anew may have been moved before."""
        out_ms = record.out_ms - self._rolled.get(offset, 0)
        return rule.slot_of(out_ms, record.message.store_ms)

    def rolled(self, offset: int, moved_ms: int) -> None:
        """What was moved by *moved_ms* is stored anew at *offset*."""
        if moved_ms:
            self._rolled[offset] = moved_ms

    def done(self, offset: int) -> None:
        """That message is done with."""
        self._rolled.pop(offset, None)
        if self.is_moved:
            self.came_early.add(offset)

    def persist(self, min_offset: int) -> None:
        """Write down what came early; what has gone from the log needs no mark."""
        self.came_early = {offset for offset in self.came_early if offset >= min_offset}
        if self.came_early or self._disk.read(DOCUMENT) is not None:
            self._disk.replace(DOCUMENT, msgspec.json.encode(sorted(self.came_early)))

    def clear(self) -> None:
        """Nothing was ever moved."""
        self.came_early.clear()
        self._steps.clear()
        self._rolled.clear()
