"""Records of a queue's messages: when and where each was stored, its key and its labels.

Nearly all records are in arrays, from the first offset that is still needed.  A single old message
(it failed, or no member finishes it) is kept separately, so that the arrays need not keep all
later ones.

Messages that a broker lost with the end of its log are kept by their former places: a message
pulled before may reach a listener later, and its acknowledgement its producer; by then the place
may have another message.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocketmq_emulator.checks.state.message_labels import MessageLabels, labels_of
from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.facts.journal import Entry

SPARSE_MAX = 1 << 14  # of a queue; the oldest are dropped


class MessageRecord(NamedTuple):
    """Where and when one message was stored, with its key and labels."""

    stored_us: int
    seq: int  # entry number of its MessageStored
    position: int  # in the broker's log
    key: str
    labels: MessageLabels


class MessageRecords:
    """The records of one queue, by offset."""

    __slots__ = ("_keys", "_labels", "_positions", "_seqs", "_sparse", "_times", "first")

    def __init__(self) -> None:
        self.first = 0  # the offset of the first one in the arrays
        self._times = array("q")
        self._seqs = array("q")
        self._positions = array("q")
        self._keys: list[str] = []
        self._labels: list[MessageLabels] = []
        self._sparse: dict[int, MessageRecord] = {}

    def __len__(self) -> int:
        """The number of messages in the arrays."""
        return len(self._times)

    def add(self, fact: MessageStored, entry: Entry) -> int:
        """Add a message at the next or any other offset; return the length of the arrays."""
        index = fact.offset - self.first
        if index != len(self._times):
            self._drop(len(self._times))
            self.first, index = fact.offset, 0
        self._times.append(entry.mono_us)
        self._seqs.append(entry.seq)
        self._positions.append(fact.position)
        self._keys.append(fact.uniq_key)
        self._labels.append(labels_of(fact))
        return index + 1

    def at(self, offset: int) -> MessageRecord | None:
        """The message at *offset*; None if it is not known."""
        index = offset - self.first
        if 0 <= index < len(self._times):
            return self._life(index)
        return self._sparse.get(offset)

    def key_at(self, offset: int) -> str | None:
        """The key of the message at *offset*; None if it is not known."""
        index = offset - self.first
        if 0 <= index < len(self._keys):
            return self._keys[index]
        alone = self._sparse.get(offset)
        return None if alone is None else alone.key

    def labels_at(self, offset: int) -> MessageLabels | None:
        """What filters see of the message at *offset*; None if it is not known."""
        index = offset - self.first
        if 0 <= index < len(self._labels):
            return self._labels[index]
        alone = self._sparse.get(offset)
        return None if alone is None else alone.labels

    def stored_us(self, offset: int) -> int | None:
        """When the message at *offset* was stored; None if that is not known."""
        index = offset - self.first
        if 0 <= index < len(self._times):
            return self._times[index]
        alone = self._sparse.get(offset)
        return None if alone is None else alone.stored_us

    def with_labels(self, start: int) -> Iterator[tuple[int, MessageLabels]]:
        """Offsets from *start* on, with what filters see of their messages."""
        yield from ((at, alone.labels) for at, alone in self._sparse.items() if at >= start)
        yield from (
            (at, labels) for at, labels in enumerate(self._labels, self.first) if at >= start
        )

    def before(self, position: int) -> int:
        """The first offset whose record does not begin before *position*."""
        return self.first + bisect_left(self._positions, position)

    def cut(self, offset: int) -> Iterator[tuple[int, MessageRecord]]:
        """Remove all messages from *offset* on, and yield them."""
        for at in sorted(each for each in self._sparse if each >= offset):
            yield at, self._sparse.pop(at)
        kept = max(0, offset - self.first)
        lost = [(self.first + at, self._life(at)) for at in range(kept, len(self._times))]
        for column in (self._times, self._seqs, self._positions, self._keys, self._labels):
            del column[kept:]
        yield from lost

    def forget_before(self, offset: int, but: Iterable[int] = ()) -> None:
        """Drop all messages before *offset*, except those at offsets in *but*."""
        wanted = set(but)
        for gone in [each for each in self._sparse if each < offset and each not in wanted]:
            del self._sparse[gone]
        for each in sorted(wanted):
            if 0 <= each - self.first < len(self._times):
                self._sparse[each] = self._life(each - self.first)
        while len(self._sparse) > SPARSE_MAX:
            del self._sparse[next(iter(self._sparse))]
        if offset > self.first:
            self._drop(min(offset - self.first, len(self._times)))
            self.first = offset

    def _life(self, index: int) -> MessageRecord:
        place = self._times[index], self._seqs[index], self._positions[index]
        return MessageRecord(*place, self._keys[index], self._labels[index])

    def _drop(self, count: int) -> None:
        for column in (self._times, self._seqs, self._positions, self._keys, self._labels):
            del column[:count]


# Lost messages ------------------------------------------------------------------------


class LostPlaces:
    """The last lost message of each place of one queue, by offset."""

    __slots__ = ("_left_behind", "_replaced", "_unknown_to", "_unused")

    def __init__(self) -> None:
        self._unused: dict[int, tuple[int, str]] = {}  # when stored, key
        self._replaced: dict[int, str] = {}  # keys of lost ones, places used again
        self._left_behind: dict[int, str] = {}  # keys of those that only a replaced master had
        self._unknown_to = 0  # places below may have lost messages with unknown keys

    def __bool__(self) -> bool:
        return bool(self._unused or self._replaced or self._left_behind)

    def lose(self, offset: int, stored_us: int, key: str) -> None:
        """The message at *offset* is lost."""
        self._unused[offset] = stored_us, key

    def leave_behind(self, offset: int, key: str) -> None:
        """A replaced master stored a message at *offset*, which its successor does not have."""
        self._left_behind[offset] = key
        if len(self._left_behind) > SPARSE_MAX:
            del self._left_behind[next(iter(self._left_behind))]

    def was_left_behind(self, offset: int, key: str) -> bool:
        """Whether a replaced master stored the message *key* at *offset*."""
        return self._left_behind.get(offset) == key

    def lose_unknown(self, end: int) -> None:
        """Messages before *end* are lost whose records were dropped before."""
        self._unknown_to = max(self._unknown_to, end)

    def use(self, offset: int) -> None:
        """Another message is stored at *offset* now."""
        if self._unused and (lost := self._unused.pop(offset, None)) is not None:
            self._replaced[offset] = lost[1]

    def stored_us(self, offset: int) -> int | None:
        """When the lost message at an unused place was stored; None if there is none."""
        lost = self._unused.get(offset)
        return None if lost is None else lost[0]

    def key_at(self, offset: int) -> str | None:
        """The key of the lost message at an unused place; None if there is none."""
        lost = self._unused.get(offset)
        return None if lost is None else lost[1]

    def is_unused(self, offset: int, key: str) -> bool:
        """Whether the message *key* at *offset* was lost, and the place is unused."""
        return self.key_at(offset) == key

    def is_known(self, offset: int, key: str) -> bool:
        """Whether the last lost message of the place *offset* is *key*."""
        is_here = self.is_unused(offset, key) or self._replaced.get(offset) == key
        return is_here or self.was_left_behind(offset, key)

    def had(self, offset: int, key: str) -> bool:
        """Whether the message *key* was at *offset* before a loss, or may have been."""
        return self.is_known(offset, key) or offset < self._unknown_to
