"""The log of a slave: bytes of its master's, appended as they come, and read when they are whole.

The bytes arrive in pieces that are cut anywhere.  They are appended at once, because a slave
reports the end of its log and not of its last message; the queues get a message when all its bytes
are there.  A slave stores nothing itself: its log must stay equal to its master's.

Upstream: DefaultMessageStore.appendToCommitLog, DefaultMessageStore.ReputMessageService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketmq_emulator.facts import CopiedLogUnreadable, LogCopied
from rocketmq_emulator.protocol.messages.records import (
    BLANK_BYTES_MIN,
    BLANK_MAGIC,
    SIZE_AND_MAGIC,
    BadRecord,
    index_fields,
)

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.commit_log import CommitLog
    from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue, QueueIndex
    from rocketmq_emulator.broker.store.flushing import Flushing
    from rocketmq_emulator.facts import Fact, Note


def _nobody_waits(_queue: ConsumeQueue, _code: int) -> None:
    """The default of ``on_readable``."""


class CopiedLog:
    """Appends to *log* and *index* what a master sends; the log ended with a whole message.

    ``on_readable`` is called for each message, with its queue and the code of its entry.
    """

    def __init__(
        self,
        log: CommitLog,
        index: QueueIndex,
        flushing: Flushing,
        *,
        note: Note,
        wants: Callable[[type[Fact]], bool],
    ) -> None:
        self.on_readable: Callable[[ConsumeQueue, int], object] = _nobody_waits
        self.readable_to = log.end_position  # in the queues up to here
        self._log = log
        self._index = index
        self._flushing = flushing
        self._note = note
        self._wants = wants
        self._is_unreadable = False

    @property
    def end_position(self) -> int:
        """The end of the log, in the middle of a message perhaps: what a slave reports."""
        return self._log.end_position

    def append(self, position: int, data: bytes) -> None:
        """Append *data*, which begins at *position*.  Raises as ``CommitLog.append_copied``."""
        is_first = not self._log.segments
        self._log.append_copied(position, data)
        if is_first:
            self.readable_to = position
        message_count = self._read_on()
        end = self._log.end_position
        if data:
            self._flushing.wrote(end, message_count)
            if self._wants(LogCopied):
                self._note(LogCopied(end, len(data), message_count))

    def restart(self) -> None:
        """The log was cut or removed: go on from its end."""
        self.readable_to = self._log.end_position
        self._is_unreadable = False

    def _read_on(self) -> int:
        """Put every message that is whole now into its queue; returns their number."""
        message_count = 0
        while not self._is_unreadable:
            view = self._log.read_to_segment_end(self.readable_to)
            size = self._whole_bytes(view)
            if not size:
                break
            if SIZE_AND_MAGIC.unpack_from(view)[1] != BLANK_MAGIC:
                self._add(view, size)
                message_count += not self._is_unreadable
            if not self._is_unreadable:
                self.readable_to += size
        return message_count

    def _whole_bytes(self, view: memoryview) -> int:
        """The size of the message or filler at the start of *view*; 0 if more bytes must come."""
        if len(view) < BLANK_BYTES_MIN:
            return 0
        size, magic = SIZE_AND_MAGIC.unpack_from(view)
        left = self._log.segment_end(self.readable_to) - self.readable_to
        if magic == BLANK_MAGIC:
            return left if len(view) == left else 0
        if not 0 < size <= left:
            self._give_up(f"a record of {size} bytes does not fit there (magic {magic:#010x})")
            return 0
        return int(size) if size <= len(view) else 0

    def _add(self, view: memoryview, size: int) -> None:
        try:
            fields = index_fields(view, 0, size)
        except BadRecord as error:
            self._give_up(str(error))
            return
        queue = self._index.add_copied(fields)
        if queue is not None:
            self.on_readable(queue, queue.codes[-1])

    def _give_up(self, reason: str) -> None:
        self._is_unreadable = True
        self._note(CopiedLogUnreadable(self.readable_to, reason))
