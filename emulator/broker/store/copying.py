"""The log of a slave: bytes of its master's, appended as they come, and read when they are whole.

The bytes arrive in pieces that are cut anywhere.  They are appended at once, because a slave
reports the end of its log and not of its last message; the queues get a message when all its bytes
are there, and after the report, for which a put at the master may wait.  A slave stores nothing
itself: its log must stay equal to its master's.

In controller mode there is a second condition: a message counts when enough replicas have it.  So
the queues end at the *confirm offset*, at a slave and at a master whose puts wait for that.

Upstream: DefaultMessageStore.appendToCommitLog, DefaultMessageStore.ReputMessageService.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
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
    from rocketmq_emulator.protocol.messages.records import IndexFields


def _nobody_waits(_queue: ConsumeQueue, _code: int) -> None:
    """The default of ``on_readable``."""


class CopiedLog:
    """Appends to *log* and *index* what a master sends; the log ended with a whole message.

    ``on_readable`` is called for each message, with its queue and the code of its entry.
    No message beyond ``readable_max`` gets into its queue; None: there is no such limit.
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
        self.readable_to = log.end_position  # in the queues up to here (reputFromOffset)
        self.readable_max: int | None = None  # ReputMessageService.getReputEndOffset
        self._log = log
        self._index = index
        self._flushing = flushing
        self._note = note
        self._wants = wants
        self._is_unreadable = False
        self._unread_bytes = 0  # appended since the last ``read_appended``

    @property
    def end_position(self) -> int:
        """The end of the log, in the middle of a message perhaps: what a slave reports."""
        return self._log.end_position

    def append(self, position: int, data: bytes | memoryview) -> None:
        """``append_unread``, then ``read_appended``."""
        self.append_unread(position, data)
        self.read_appended()

    def append_unread(self, position: int, data: bytes | memoryview) -> None:
        """Append *data*, which begins at *position*; ``read_appended`` is to follow.

        Raises as ``CommitLog.append_copied``.
        """
        is_first = not self._log.segments
        self._log.append_copied(position, data)
        if is_first:
            self.readable_to = position
        self._unread_bytes += len(data)

    def read_appended(self) -> None:
        """Add the complete messages among the appended bytes to their queues."""
        message_count = self.read_on()
        count, self._unread_bytes = self._unread_bytes, 0
        if count:
            end = self._log.end_position
            self._flushing.wrote(end, message_count)
            if self._wants(LogCopied):
                self._note(LogCopied(end, count, message_count))

    def restart(self) -> None:
        """The log was cut or removed, or all of it is in the queues: go on from its end."""
        self.readable_to = self._log.end_position
        self._is_unreadable = False

    def cut(self) -> None:
        """The log was cut: what follows its end now may be readable again."""
        self.readable_to = min(self.readable_to, self._log.end_position)
        self._is_unreadable = False

    def read_on(self) -> int:
        """Put every message that is whole and confirmed into its queue; returns their number.

        Upstream: DefaultMessageStore.ReputMessageService.doReput.
        """
        message_count = 0
        self.readable_to = max(self.readable_to, self._log.min_position)
        while not self._is_unreadable and self.is_behind:
            try:
                size, fields = self._record_at(self.readable_to)
            except BadRecord as error:
                self._is_unreadable = True
                self._note(CopiedLogUnreadable(self.readable_to, str(error)))
                break
            if not size or (fields is not None and self._is_beyond(self.readable_to + size)):
                break
            self.readable_to += size
            if fields is not None:
                message_count += 1
                self._add(fields)
        return message_count

    @property
    def is_behind(self) -> bool:
        """Whether the log has confirmed bytes that are in no queue yet.

        Upstream: DefaultMessageStore.dispatchBehindBytes.
        """
        return self.readable_max is None or self.readable_to < self.readable_max

    def unread_records(self) -> Iterator[IndexFields]:
        """The whole messages that are in no queue yet, up to the first bad one."""
        at = self.readable_to
        try:
            while True:
                size, fields = self._record_at(at)
                if not size:
                    return
                at += size
                if fields is not None:
                    yield fields
        except BadRecord:
            return

    def parsable_to(self) -> int:
        """Where the last whole message ends.  Upstream: AutoSwitchHAService.truncateInvalidMsg."""
        at = self.readable_to
        with contextlib.suppress(BadRecord):
            while (size := self._record_at(at)[0]) > 0:
                at += size
        return at

    def is_record_at(self, position: int) -> bool:
        """Whether a whole message or filler begins there.

        Upstream: DefaultMessageStore.isOffsetAligned.
        """
        try:
            return self._record_at(position, body_is_checked=True)[0] > 0
        except BadRecord:
            return False

    def _is_beyond(self, end: int) -> bool:
        return self.readable_max is not None and end > self.readable_max

    def _record_at(
        self, at: int, *, body_is_checked: bool = False
    ) -> tuple[int, IndexFields | None]:
        """The size and the fields of the record at *at*: a size of 0 if more bytes must come.

        A filler has no fields.  A body with a wrong CRC gets into its queue, as upstream's does
        (doReput): consumers check it themselves.  Raises ``BadRecord``.
        """
        view = self._log.read_to_segment_end(at)
        if len(view) < BLANK_BYTES_MIN:
            return 0, None
        size, magic = SIZE_AND_MAGIC.unpack_from(view)
        left = self._log.segment_end(at) - at
        if magic == BLANK_MAGIC:
            return (left if len(view) == left else 0), None
        if not 0 < size <= left:
            raise BadRecord(f"a record of {size} bytes does not fit there (magic {magic:#010x})")
        if size > len(view):
            return 0, None
        return int(size), index_fields(view, 0, size, body_is_checked=body_is_checked)

    def _add(self, fields: IndexFields) -> None:
        queue = self._index.add_copied(fields)
        if queue is not None:
            self.on_readable(queue, queue.codes[-1])
