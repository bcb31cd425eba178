"""Where the messages of one queue lie in the commit log.

An entry's index is the message's *queue offset*: it starts at 0, grows by one a message
and is never given out twice, even when retention has dropped every message there was.
An entry keeps position, size and a *code*: the hash of the message's tag or, in the
topic of delayed messages, the time it is due.

Upstream: ConsumeQueue.
"""

from __future__ import annotations

import bisect
from array import array


class ConsumeQueue:
    """Entries ``min_offset`` … ``max_offset - 1`` of one queue, 20 bytes each."""

    __slots__ = ("codes", "min_offset", "positions", "queue_id", "sizes", "topic", "topic_bytes")

    def __init__(self, topic: str, queue_id: int, first_offset: int = 0) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.restart(first_offset)

    @property
    def max_offset(self) -> int:
        """The offset the next message gets."""
        return self.min_offset + len(self.positions)

    def append(self, position: int, size: int, code: int) -> None:
        self.positions.append(position)
        self.sizes.append(size)
        self.codes.append(code)

    def drop_before(self, position: int) -> None:
        """Forget the entries whose messages lay before *position*."""
        gone = bisect.bisect_left(self.positions, position)
        if gone:
            self.min_offset += gone
            del self.positions[:gone], self.sizes[:gone], self.codes[:gone]

    def restart(self, offset: int) -> None:
        """Empty, the next message gets *offset*."""
        self.min_offset = offset
        self.positions = array("q")
        self.sizes = array("i")
        self.codes = array("q")
