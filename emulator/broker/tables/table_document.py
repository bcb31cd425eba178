"""A large table in upstream's file, and what has changed since in a file beside it.

Rewriting a file of ten thousand topics for each new one takes longer than all else that a
broker does.  So each change of a large table is one line at the end of ``<name>.changes``:
what is acknowledged is there, at a cost that does not depend on the table.  The file itself is
written again when the changes have outgrown it, when the broker ends, and when it starts:
then there are no changes, and the directory can change hands with upstream.  Small tables,
most tables, are written whole each time.

The first line has the data version of the file that the changes belong to: changes of any
other file are not read.  A line that is torn was never acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from emulator.broker.tables.documents import Document
from emulator.disk.port import NOT_WRITTEN
from protocol.bodies.body import Body, encode_body, encode_config_file
from protocol.bodies.groups import SubscriptionGroupWrapper
from protocol.bodies.topics import DataVersion, TopicConfigSerializeWrapper

if TYPE_CHECKING:
    from emulator.disk.port import Disk
    from emulator.facts import Note
    from emulator.releases import Release

SMALL_BYTES_MAX = 32 * 1024  # a file up to here is written whole

Entry = TypeVar("Entry")
Table = TypeVar("Table", TopicConfigSerializeWrapper, SubscriptionGroupWrapper)


class TableChange(Body, Generic[Entry], frozen=True):
    """One line: entries that were put or removed, and the table's data version after that."""

    data_version: DataVersion
    put: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    removed: list[str] = msgspec.field(default_factory=list[str])


class TableDocument(Generic[Table, Entry]):
    """The table *name* on *disk*; *kinds* are those of its body and of its changes.

    *whole* gives the table as it is now, with every change that is to be saved.  What was
    saved survives the process; with *flushed* also a loss of power.
    """

    def __init__(
        self,
        disk: Disk,
        name: str,
        kinds: tuple[type[Table], type[TableChange[Entry]]],
        release: Release,
        note: Note,
        whole: Callable[[], Table],
        *,
        flushed: bool,
    ) -> None:
        kind, change = kinds
        self._now: Callable[[], Table] = whole
        self._whole: Document[Table] = Document(disk, name, kind, release, note, flushed=flushed)
        self._disk = disk
        self._release = release
        self._name = f"{name}.changes"
        self._flushed = flushed
        self._decode = msgspec.json.Decoder(change, strict=False).decode
        self._saved_version: DataVersion | None = None  # of the file
        self._changes_bytes = 0
        self._owes = False  # the table holds what neither file does, or the changes are torn
        self._held: list[TableChange[Entry]] | None = None

    @property
    def why_refused(self) -> str:
        """Why the disk took nothing when it last did not, in words for clients."""
        return self._whole.why_refused

    def load(self) -> tuple[Table | None, list[TableChange[Entry]]]:
        """The file, and what has changed since, in order: ``rewrite`` the table they make."""
        whole = self._whole.load()
        if whole is None:
            return None, []
        self._saved_version = whole.data_version
        return whole, self._changes_since()

    def save(self, change: TableChange[Entry], *, must_last: bool) -> bool:
        """Whether *change*, which the table has already, is on disk.

        If it is not and *must_last*, the caller takes it back; else a later save writes it.
        """
        if self._held is not None:
            self._held.append(change)
            return True
        is_saved = self._save(change)
        self._owes = self._owes or not (is_saved or must_last)
        return is_saved

    @contextmanager
    def saved_together(self) -> Iterator[None]:
        """All that is saved inside is one write, at the end; what finds no room, a later one."""
        assert self._held is None, "what is held is written before more is"
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            if held and not self._save(_merged(held)):
                self._owes = True

    def rewrite(self) -> bool:
        """Write the file, if there are changes beside it; then there are none."""
        if not self._changes_bytes and not self._owes:
            return True
        is_done = self._rewrite()
        self._owes = self._owes or not is_done
        return is_done

    def begin_anew(self) -> bool:
        """The table is another one: write it whole."""
        self._owes = True
        return self.rewrite()

    # Inside ---------------------------------------------------------------------------

    def _save(self, change: TableChange[Entry]) -> bool:
        if self._owes or self._whole.text_bytes <= SMALL_BYTES_MAX:
            return self._rewrite()
        lines = encode_body(change, self._release) + b"\n"
        encode_config_file(change, self._release)  # now, not all of them when the file is written
        if self._changes_bytes + len(lines) > self._whole.text_bytes:
            return self._rewrite()
        if not self._changes_bytes:
            assert self._saved_version is not None, "a file of some size has been written"
            first: TableChange[Entry] = TableChange(data_version=self._saved_version)
            lines = encode_body(first, self._release) + b"\n" + lines
        try:
            self._disk.append(self._name, lines, flushed=self._flushed)
        except NOT_WRITTEN as error:
            self._whole.refuse(error)
            return False
        self._changes_bytes += len(lines)
        self._whole.is_refusing = False
        return True

    def _rewrite(self) -> bool:
        whole = self._now()
        if not self._whole.save(whole):
            return False
        self._saved_version = whole.data_version
        try:
            if self._changes_bytes:
                self._disk.replace(self._name, b"", flushed=self._flushed)
        except NOT_WRITTEN as error:
            self._whole.refuse(error)
            self._owes = True  # no line may follow those of another file
            return True
        self._changes_bytes = 0
        self._owes = False
        return True

    def _changes_since(self) -> list[TableChange[Entry]]:
        """The changes that belong to the file, up to a line that is torn."""
        lines = (self._disk.read(self._name) or b"").splitlines(keepends=True)
        self._changes_bytes = sum(map(len, lines))
        found: list[TableChange[Entry]] = []
        for number, line in enumerate(lines, 1):
            try:
                change = self._decode(line)
            except msgspec.DecodeError:
                if number < len(lines):  # the last one may be torn, and was not acknowledged
                    self._whole.note_damage(self._name, f"line {number} of {len(lines)}")
                break
            if not line.endswith(b"\n"):
                break
            found.append(change)
        if not found or found[0].data_version != self._saved_version:
            return []
        return found[1:]


def _merged(changes: list[TableChange[Entry]]) -> TableChange[Entry]:
    """One change that does what all of these do, one after another."""
    put = changes[0].put
    removed = dict.fromkeys(changes[0].removed)
    for change in changes[1:]:
        for name in change.removed:
            put.pop(name, None)
            removed[name] = None
        for name in change.put:
            removed.pop(name, None)
        put.update(change.put)
    return TableChange(data_version=changes[-1].data_version, put=put, removed=list(removed))
