"""The epochs of a log: which master wrote it from which position on; and the file of them.

Two logs with the same epoch, beginning at the same position, had the same master there, so they
are equal up to the nearer of both ends of that epoch: the *consistent point*.  A slave cuts its
log there before it copies the rest from its master.

Three rules of upstream have results that surprise.  A new epoch is added only if its number and
its position are both larger than the last ones: an election after which nothing was stored leaves
no trace.  An epoch whose follower was removed keeps its old end until another one is added.  And
a file that cannot be read means no epochs, as in a new slave, whose log is never cut.

Upstream: EpochFileCache, CheckpointFile, EpochEntry.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rocketmq_emulator.disk.port import EPOCH_FILE, WRITE_ERRORS, refusal
from rocketmq_emulator.facts import EpochBegun, EpochFileUnreadable, EpochNotKept
from rocketmq_emulator.protocol.auto_switch import NO_END, LogEpoch
from rocketmq_emulator.protocol.error_families import DamagedData

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note

BACKUP_FILE = f"{EPOCH_FILE}.bak"


class BadEpochFile(DamagedData):
    """The text has no epochs, or not those that it was written with."""


class EpochFileCache:
    """Epochs by number, each with the position where it begins and where the next one does."""

    def __init__(self, epochs: Iterable[LogEpoch] = ()) -> None:
        found = list(epochs)
        ends = [each.start for each in found[1:]] + [NO_END]
        chained = [each._replace(end=end) for each, end in zip(found, ends, strict=False)]
        self._epochs = {each.epoch: each for each in sorted(chained)}

    @property
    def entries(self) -> tuple[LogEpoch, ...]:
        """All epochs, the oldest first."""
        return tuple(self._epochs.values())

    @property
    def first(self) -> LogEpoch | None:
        """The oldest epoch; None if there is none."""
        return next(iter(self._epochs.values()), None)

    @property
    def last(self) -> LogEpoch | None:
        """The newest epoch; None if there is none."""
        return next(reversed(self._epochs.values()), None)

    @property
    def last_epoch(self) -> int:
        """The number of the newest epoch; -1 if there is none."""
        return -1 if self.last is None else self.last.epoch

    def get(self, number: int) -> LogEpoch | None:
        """The epoch with that number."""
        return self._epochs.get(number)

    def at(self, position: int) -> LogEpoch | None:
        """The epoch that has *position*.  Upstream: findEpochEntryByOffset."""
        having = (each for each in self._epochs.values() if each.start <= position < each.end)
        return next(having, None)

    def after(self, number: int) -> LogEpoch | None:
        """The next epoch with a larger number.  Upstream: nextEntry."""
        return next((each for each in self._epochs.values() if each.epoch > number), None)

    def append(self, epoch: int, start: int) -> bool:
        """Add an epoch; False if not both its number and its position are the largest.

        Upstream: appendEntry.
        """
        last = self.last
        if last is not None:
            if last.epoch >= epoch or last.start >= start:
                return False
            self._epochs[last.epoch] = last._replace(end=start)
        self._epochs[epoch] = LogEpoch(epoch, start)
        return True

    def end_at(self, position: int) -> None:
        """Let the last epoch end at *position*, where the log does.

        Upstream: setLastEpochEntryEndOffset.
        """
        last = self.last
        if last is not None and last.start <= position:
            self._epochs[last.epoch] = last._replace(end=position)

    def consistent_point(self, other: EpochFileCache) -> int:
        """The position up to which both logs are equal; -1 if they have no epoch in common.

        Upstream: findConsistentPoint.
        """
        for own in reversed(self._epochs.values()):
            its = other.get(own.epoch)
            if its is not None and its.start == own.start:
                return min(own.end, its.end)
        return -1

    def cut_from_epoch(self, number: int) -> None:
        """Remove epochs from *number* on.  Upstream: truncateSuffixByEpoch."""
        self._keep(lambda each: each.epoch < number)

    def cut_from(self, position: int) -> None:
        """Remove epochs that begin at *position* or later.  Upstream: truncateSuffixByOffset."""
        self._keep(lambda each: each.start < position)

    def cut_before(self, position: int) -> None:
        """Remove epochs that end at *position* or before.  Upstream: truncatePrefixByOffset."""
        self._keep(lambda each: each.end > position)

    def _keep(self, is_kept: Callable[[LogEpoch], bool]) -> None:
        self._epochs = {each.epoch: each for each in self.entries if is_kept(each)}


class EpochFile(EpochFileCache):
    """The epochs of this broker's log, written to *disk* after each change.

    A change that cannot be written is a fact, and counts until the end of the process.
    """

    def __init__(self, disk: Disk, note: Note) -> None:
        super().__init__(_read(disk, note))
        self._disk = disk
        self._note = note

    def append(self, epoch: int, start: int) -> bool:
        """As ``EpochFileCache.append``; both results are facts, but not an epoch that is known."""
        last = self.last
        if not super().append(epoch, start):
            assert last is not None, "the first epoch is always added"
            if (epoch, start) != (last.epoch, last.start):
                self._note(EpochNotKept(epoch, start, last.epoch, last.start))
            return False
        self._note(EpochBegun(epoch, start))
        self._write()
        return True

    def begin_anew(self, position: int | None) -> None:
        """The log was removed: only its last epoch stays, from *position* on; None: none stays.

        The file before is replaced, too: it has epochs of the removed log.
        """
        last = self.last
        self._epochs.clear()
        if last is not None and position is not None:
            super().append(last.epoch, position)
            self._note(EpochBegun(last.epoch, position))
        try:
            for name in (EPOCH_FILE, BACKUP_FILE):
                self._disk.replace(name, encode_epochs(self.entries))
        except WRITE_ERRORS as error:
            self._note(refusal(error, EPOCH_FILE))

    def _keep(self, is_kept: Callable[[LogEpoch], bool]) -> None:
        super()._keep(is_kept)
        self._write()

    def _write(self) -> None:
        """Upstream: CheckpointFile.write, MixAll.string2File.  No epochs are never written."""
        if not self.entries:
            return
        try:
            if before := self._disk.read(EPOCH_FILE):
                self._disk.replace(BACKUP_FILE, before)
            self._disk.replace(EPOCH_FILE, encode_epochs(self.entries))
        except WRITE_ERRORS as error:
            self._note(refusal(error, EPOCH_FILE))


# The text -----------------------------------------------------------------------------


def encode_epochs(epochs: Iterable[LogEpoch]) -> bytes:
    """Their number, the CRC-32 of the other lines, and a line for each.

    Upstream: CheckpointFile.write, EpochFileCache.EpochEntrySerializer.
    """
    lines = [f"{each.epoch}-{each.start}\n" for each in epochs]
    return f"{len(lines)}\n{_crc32(''.join(lines))}\n{''.join(lines)}".encode()


def decode_epochs(text: bytes) -> list[LogEpoch]:
    """The epochs of a file.  Raises ``BadEpochFile``.  A CRC of 0 is not compared.

    Upstream: CheckpointFile.read, which ends the broker if a number is none.
    """
    lines = text.decode("utf-8", "replace").splitlines()
    try:
        count, crc = (int(line) for line in lines[:2])
        epochs = [LogEpoch(*map(int, line.split("-"))) for line in lines[2:]]
    except (ValueError, TypeError) as error:
        raise BadEpochFile(f"it is no list of epochs ({error})") from error
    if len(epochs) != count:
        raise BadEpochFile(f"it has {len(epochs)} epochs, not {count}")
    found = _crc32("".join(f"{line}\n" for line in lines[2:]))
    if crc not in (0, found):
        raise BadEpochFile(f"its CRC-32 is {found}, not {crc}")
    return epochs


def _crc32(text: str) -> int:
    return zlib.crc32(text.encode()) & 0x7FFFFFFF  # UtilAll.crc32: positive


def _read(disk: Disk, note: Note) -> list[LogEpoch]:
    """The epochs of the file, or else of the one before; none if neither can be read."""
    for name in (EPOCH_FILE, BACKUP_FILE):
        text = disk.read(name)
        if text is None:
            continue
        try:
            if epochs := decode_epochs(text):
                return epochs
        except BadEpochFile as error:
            note(EpochFileUnreadable(name, str(error)))
    return []
