"""What a controller of a group must remember to keep its promises: its term, its vote, its log.

The log has entries 1, 2, 3 …, each with the term of the leader that made it.  The first ones may
be replaced by a snapshot: the tables after the last of them.  ``controllerGroup.jsonl`` has the
snapshot in its first line and an entry in each other line; ``controllerVote.json`` has the term
and the vote.  Both are durable before anybody is answered.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rocketmq_emulator.controller.state.events import AnyEvent, TablesSaved
from rocketmq_emulator.disk.port import Disk, StoreDamaged

LOG, VOTE = "controllerGroup.jsonl", "controllerVote.json"


class GroupEntry(msgspec.Struct, frozen=True):
    """One event; None: a new leader's first entry, which says only that it leads."""

    term: int
    event: AnyEvent | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """The *tables* after the entry *index*, which has *term*."""

    index: int = 0
    term: int = 0
    tables: TablesSaved = TablesSaved()


class Vote(msgspec.Struct, frozen=True):
    """The latest term, and the controller that got this one's vote in it; "": nobody."""

    term: int = 0
    voted_for: str = ""


_ENTRY = msgspec.json.Decoder(GroupEntry)
_SNAPSHOT = msgspec.json.Decoder(Snapshot)
_VOTE = msgspec.json.Decoder(Vote)


class GroupLog:
    """The log on *disk*.  Raises ``StoreDamaged`` if it cannot be read.

    Methods that write raise ``WRITE_ERRORS``: then nothing has changed, in memory or on the disk.
    """

    def __init__(self, disk: Disk, lines_max: int) -> None:
        self._disk = disk
        self._lines_max = lines_max
        self.vote = Vote()
        self.snapshot = Snapshot()
        self.entries: list[GroupEntry] = []  # after the snapshot
        self._load()

    def _load(self) -> None:
        text = self._disk.read(LOG) or b""
        whole, _, part = text.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        try:
            if vote := self._disk.read(VOTE):
                self.vote = _VOTE.decode(vote)
            if lines:
                self.snapshot = _SNAPSHOT.decode(lines[0])
                self.entries = [_ENTRY.decode(line) for line in lines[1:]]
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"{LOG} or {VOTE} cannot be read: {error}") from error
        if part or not lines:  # a kill while a line was written: that entry was not answered
            self._rewrite(self.snapshot, self.entries)

    # Reading --------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The index of the last entry; 0 if there never was one."""
        return self.snapshot.index + len(self.entries)

    @property
    def last_term(self) -> int:
        """The term of the last entry."""
        return self.entries[-1].term if self.entries else self.snapshot.term

    @property
    def is_long(self) -> bool:
        """Whether it is time for ``compact``."""
        return len(self.entries) > self._lines_max

    def term_at(self, index: int) -> int | None:
        """The term of the entry *index*; None if it is beyond the end or before the snapshot."""
        if index == self.snapshot.index:
            return self.snapshot.term
        place = index - self.snapshot.index - 1
        return self.entries[place].term if 0 <= place < len(self.entries) else None

    def after(self, index: int) -> list[GroupEntry]:
        """The entries after *index*, which is not before the snapshot."""
        assert index >= self.snapshot.index, "the caller sends the snapshot first"
        return self.entries[index - self.snapshot.index :]

    def entry(self, index: int) -> GroupEntry:
        """The entry *index*, which is after the snapshot."""
        return self.entries[index - self.snapshot.index - 1]

    # Writing --------------------------------------------------------------------------

    def set_vote(self, vote: Vote) -> None:
        """Remember *vote* from now on."""
        self._disk.replace(VOTE, msgspec.json.encode(vote), flushed=True)
        self.vote = vote

    def append(self, entries: Sequence[GroupEntry]) -> None:
        """Add *entries* at the end."""
        if entries:
            self._disk.append(LOG, b"".join(map(_line, entries)), flushed=True)
            self.entries += entries

    def replace_after(self, index: int, entries: Sequence[GroupEntry]) -> None:
        """Remove all entries after *index*, and add *entries*."""
        kept = [*self.entries[: index - self.snapshot.index], *entries]
        self._rewrite(self.snapshot, kept)
        self.entries = kept

    def compact(self, snapshot: Snapshot) -> None:
        """Replace the entries up to *snapshot* by it; a log that ends before it, too."""
        place = snapshot.index - self.snapshot.index
        fits = place >= 0 and self.term_at(snapshot.index) == snapshot.term
        kept = self.entries[place:] if fits else []
        self._rewrite(snapshot, kept)
        self.snapshot, self.entries = snapshot, kept

    def _rewrite(self, snapshot: Snapshot, entries: Sequence[GroupEntry]) -> None:
        self._disk.replace(LOG, _line(snapshot) + b"".join(map(_line, entries)), flushed=True)


def _line(value: GroupEntry | Snapshot) -> bytes:
    return msgspec.json.encode(value) + b"\n"
