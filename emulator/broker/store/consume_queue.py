"""Where the messages of one queue lie in the commit log.

An entry's index is the message's *queue offset*: it starts at 0, grows by one a message
and is never given out twice, even when retention has dropped every message there was.
An entry keeps position, size and a *code*: the hash of the message's tag or, in the
topic of delayed messages, the time it is due.  The same function makes the code when a
message is stored and when a log is read again after a crash, so the two cannot disagree.

Upstream: ConsumeQueue, CommitLog.checkMessageAndReturnSize, DispatchRequest.
"""

from __future__ import annotations

import bisect
import functools
from array import array

from protocol.delay_levels import DelayLevels
from protocol.names import SCHEDULE_TOPIC
from protocol.properties import DELAY, property_of
from protocol.sysflag import TRANSACTION_PREPARED
from protocol.tags import tag_code

# Prepared and rolled-back messages are in the log only, no queue has them: of the four types
# of a transaction just these two have this bit of the sys flag.
NOT_INDEXED = TRANSACTION_PREPARED
_TAGS_FIRST = b"TAGS\x01"
_TAGS_LATER = b"\x02TAGS\x01"
_PAIR_END = b"\x02"
_TAGS_KEPT_MAX = 4096


class ConsumeQueue:
    """Entries ``min_offset`` … ``max_offset - 1`` of one queue, 20 bytes each."""

    __slots__ = (
        "began_at",
        "codes",
        "max_offset",
        "min_offset",
        "positions",
        "queue_id",
        "sizes",
        "topic",
        "topic_bytes",
    )

    def __init__(self, topic: str, queue_id: int, first_offset: int = 0) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.began_at = 0  # the first offset it ever had; another one after a reset
        self.max_offset = first_offset  # the offset the next message gets
        self.restart(first_offset)

    def append(self, position: int, size: int, code: int) -> None:
        """The entry of the next offset."""
        self.positions.append(position)
        self.sizes.append(size)
        self.codes.append(code)
        self.max_offset += 1

    def append_record(
        self, position: int, size: int, properties: bytes, store_ms: int, levels: DelayLevels
    ) -> int:
        """The entry of a record that was stored just now; its code."""
        code = index_code(self.topic, properties, store_ms, levels)
        self.append(position, size, code)
        return code

    def drop_before(self, position: int) -> None:
        """Remove the entries whose messages lie before *position*."""
        gone = bisect.bisect_left(self.positions, position)
        if gone:
            self.min_offset += gone
            del self.positions[:gone], self.sizes[:gone], self.codes[:gone]

    @property
    def is_whole(self) -> bool:
        """Whether every message it ever got is there still."""
        return self.min_offset == self.began_at

    def begin_anew(self) -> None:
        """Empty, as if the next message were the first one, whatever its offset."""
        self.restart(self.max_offset)
        self.began_at = self.max_offset

    def restart(self, offset: int) -> None:
        """Empty, the next message gets *offset*."""
        self.min_offset = self.max_offset = offset
        self.positions = array("q")
        self.sizes = array("i")
        self.codes = array("q")


def index_code(topic: str, properties: bytes, store_ms: int, levels: DelayLevels) -> int:
    """The tag's hash; for a message that waits for a delay to pass, the time it is due."""
    if topic == SCHEDULE_TOPIC:
        level = levels.clamp(_delay_level(str(properties, "utf-8", "replace")))
        if level > 0:
            return levels.deliver_ms(level, store_ms)
    # On bytes and by hand: this is done for every message of a log that is read again.
    at = properties.rfind(_TAGS_LATER)
    if at >= 0:
        start = at + len(_TAGS_LATER)
    elif properties.startswith(_TAGS_FIRST):
        start = len(_TAGS_FIRST)
    else:
        return 0
    end = properties.find(_PAIR_END, start)
    return _code_of(properties[start:end] if end >= 0 else properties[start:])


@functools.lru_cache(_TAGS_KEPT_MAX)
def _code_of(tag: bytes) -> int:
    return tag_code(str(tag, "utf-8", "replace"))


def _delay_level(properties: str) -> int:
    """The level a DELAY property asks for; 0 without one, and for what is no number."""
    if DELAY not in properties:
        return 0
    try:
        return int(property_of(properties, DELAY) or 0)
    except ValueError:
        return 0
