"""What is kept of each message of a queue: when and where it was stored, its key and its tags.

Nearly all of a queue stands in arrays, from the first place that somebody still needs.  A message
that stayed behind alone (it failed, or nobody ever finishes it) is kept by itself, so that it
does not keep all that came later.

Messages that a broker lost with the end of its log are kept by the places in which they stood: one
that was pulled before may come to a listener later, and its acknowledgement to its producer; by
then another one may stand in its place.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.facts.journal import Entry

SPARSE_MAX = 1 << 14  # of a queue; the oldest are forgotten


class MessageRecord(NamedTuple):
    """One message."""

    stored_us: int
    seq: int  # number of that entry of its broker
    position: int  # in the broker's log
    key: str
    tags: str


class MessageRecords:
    """Of one queue, by offset."""

    __slots__ = ("_keys", "_positions", "_seqs", "_sparse", "_tags", "_times", "first")

    def __init__(self) -> None:
        self.first = 0  # the offset of the first one in the arrays
        self._times = array("q")
        self._seqs = array("q")
        self._positions = array("q")
        self._keys: list[str] = []
        self._tags: list[str] = []
        self._sparse: dict[int, MessageRecord] = {}

    def __len__(self) -> int:
        """How many there are in the arrays."""
        return len(self._times)

    def add(self, fact: MessageStored, entry: Entry) -> int:
        """A message at the next offset, or anywhere; how many the arrays have now."""
        index = fact.offset - self.first
        if index != len(self._times):
            self._drop(len(self._times))
            self.first, index = fact.offset, 0
        self._times.append(entry.mono_us)
        self._seqs.append(entry.seq)
        self._positions.append(fact.position)
        self._keys.append(fact.uniq_key)
        self._tags.append(fact.tags)
        return index + 1

    def at(self, offset: int) -> MessageRecord | None:
        """The message that stands there; None if nothing is known of it."""
        index = offset - self.first
        if 0 <= index < len(self._times):
            return self._life(index)
        return self._sparse.get(offset)

    def key_at(self, offset: int) -> str | None:
        """Its key; None if it is not known."""
        index = offset - self.first
        if 0 <= index < len(self._keys):
            return self._keys[index]
        alone = self._sparse.get(offset)
        return None if alone is None else alone.key

    def tags_at(self, offset: int) -> str | None:
        """Its tags; the same."""
        index = offset - self.first
        if 0 <= index < len(self._tags):
            return self._tags[index]
        alone = self._sparse.get(offset)
        return None if alone is None else alone.tags

    def stored_us(self, offset: int) -> int | None:
        """When it was stored; None if that is not known."""
        index = offset - self.first
        if 0 <= index < len(self._times):
            return self._times[index]
        alone = self._sparse.get(offset)
        return None if alone is None else alone.stored_us

    def with_tags(self, start: int) -> Iterator[tuple[int, str]]:
        """Offsets from *start* on, with the tags of their messages."""
        yield from ((at, alone.tags) for at, alone in self._sparse.items() if at >= start)
        yield from ((at, tags) for at, tags in enumerate(self._tags, self.first) if at >= start)

    def before(self, position: int) -> int:
        """The first offset whose record does not begin before *position*."""
        return self.first + bisect_left(self._positions, position)

    def cut(self, offset: int) -> Iterator[tuple[int, MessageRecord]]:
        """Forget all from *offset* on; which they were."""
        for at in sorted(each for each in self._sparse if each >= offset):
            yield at, self._sparse.pop(at)
        kept = max(0, offset - self.first)
        lost = [(self.first + at, self._life(at)) for at in range(kept, len(self._times))]
        for column in (self._times, self._seqs, self._positions, self._keys, self._tags):
            del column[kept:]
        yield from lost

    def forget_before(self, offset: int, but: Iterable[int] = ()) -> None:
        """Keep nothing of what is before *offset*, but of those."""
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
        return MessageRecord(*place, self._keys[index], self._tags[index])

    def _drop(self, count: int) -> None:
        for column in (self._times, self._seqs, self._positions, self._keys, self._tags):
            del column[:count]


# Lost messages ------------------------------------------------------------------------


class LostPlaces:
    """Of one queue: the last message of each place that was lost, by offset."""

    __slots__ = ("_replaced", "_unknown_to", "_unused")

    def __init__(self) -> None:
        self._unused: dict[int, tuple[int, str]] = {}  # when it was stored, and its key
        self._replaced: dict[int, str] = {}  # keys of those whose places are used again
        self._unknown_to = 0  # places below it may have had others, whose keys are not known

    def lose(self, offset: int, stored_us: int, key: str) -> None:
        """The message that stood there is lost."""
        self._unused[offset] = stored_us, key

    def lose_unknown(self, end: int) -> None:
        """Messages before *end* are lost of which nothing is known any more."""
        self._unknown_to = max(self._unknown_to, end)

    def use(self, offset: int) -> None:
        """Another message has that place now."""
        if self._unused and (lost := self._unused.pop(offset, None)) is not None:
            self._replaced[offset] = lost[1]

    def stored_us(self, offset: int) -> int | None:
        """When the lost message was stored in whose place nothing stands."""
        lost = self._unused.get(offset)
        return None if lost is None else lost[0]

    def is_unused(self, offset: int, key: str) -> bool:
        """That message was lost, and nothing stands in its place."""
        return self._unused.get(offset, (0, ""))[1] == key

    def had(self, offset: int, key: str) -> bool:
        """That message stood there until it was lost, or that is not known any more."""
        is_known = self.is_unused(offset, key) or self._replaced.get(offset) == key
        return is_known or offset < self._unknown_to
