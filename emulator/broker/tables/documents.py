"""Tables that survive their broker, in upstream's own files.

The text equals upstream's to the byte, so a real broker can use the directory and vice versa.
``Document`` keeps the previous text as ``.bak`` and reads it if the main file is empty or damaged.

``TableDocument`` is for tables that may be large: rewriting ten thousand topics for each new one
would take longer than all other work of a broker.  So each change of a large table is one line at
the end of ``<name>.changes``; the file itself is rewritten when the changes are larger than it,
when the broker stops, and when it starts.  The first line has the data version of the file to
which the changes belong; changes of another file are not read, and a torn line was never
acknowledged.

Upstream: ConfigManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from rocketmq_emulator.disk.port import WRITE_ERRORS, reason, refusal
from rocketmq_emulator.facts import DocumentDamaged
from rocketmq_emulator.protocol.bodies.body import (
    Body,
    decode_unlimited_body,
    encode_body,
    encode_config_file,
)
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupWrapper
from rocketmq_emulator.protocol.bodies.topics import DataVersion, TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.fields import BadFields

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.releases import Release


FOLDER = "config"  # of documents, below the store's folder
REASON_CHARS_MAX = 120

B = TypeVar("B", bound=Body)


class Document(Generic[B]):
    """The table *name* on *disk*, a body of type *kind* in the format of *release*.

    A saved table survives the process; with *flushed* also a loss of power.
    """

    def __init__(
        self,
        disk: Disk,
        name: str,
        kind: type[B],
        release: Release,
        note: Note,
        *,
        flushed: bool = False,
    ) -> None:
        self._disk = disk
        self._name = name
        self._kind = kind
        self._release = release
        self._note = note
        self._flushed = flushed
        self.is_write_failing = False  # the last save failed
        self.refusal_reason = ""  # why it failed, as a text for clients
        self.text_bytes = 0  # size of the text that was loaded or saved last

    def load(self) -> B | None:
        """The table saved last, or the one before that; None if neither can be read.

        A damaged text is a fact.
        """
        why_damaged = ""
        for name in (self._name, f"{self._name}.bak"):
            data = self._disk.read(name)
            if data is None:
                continue
            try:
                body = decode_unlimited_body(data, self._kind)
            except BadFields as error:
                why_damaged = why_damaged or (_damage_reason(error) if data else "it is empty")
                continue
            self.text_bytes = len(data)
            if why_damaged:
                self.note_damage(self._name, why_damaged, name)
            return body
        if why_damaged:
            self.note_damage(self._name, why_damaged)
        return None

    def note_damage(self, name: str, reason: str, used_name: str = "") -> None:
        """Note that the document *name* is damaged, and that *used_name*, if any, was read."""
        used_file = f"{FOLDER}/{used_name}" if used_name else ""
        self._note(DocumentDamaged(f"{FOLDER}/{name}", reason, used_file))

    def save(self, body: B) -> bool:
        """Save the table; False if the disk cannot be read or written: the old text stays."""
        return self.save_text(encode_config_file(body, self._release))

    def save_text(self, text: bytes) -> bool:
        """As ``save``, for an encoded body."""
        try:
            before = self._disk.read(self._name)
            if text == before:
                return True
            if before:
                self._disk.replace(f"{self._name}.bak", before)
            self._disk.replace(self._name, text, flushed=self._flushed)
        except WRITE_ERRORS as error:
            self.refuse(error)
            return False
        self.is_write_failing = False
        self.text_bytes = len(text)
        return True

    def refuse(self, error: Exception) -> None:
        """Note that the disk has failed: the first failure only, not each try."""
        if not self.is_write_failing:
            self._note(refusal(error, self._name))
        self.is_write_failing = True
        self.refusal_reason = reason(error)


def _damage_reason(error: BadFields) -> str:
    text = str(error).partition(": ")[2] or str(error)  # without the name of our struct
    return text if len(text) <= REASON_CHARS_MAX else f"{text[:REASON_CHARS_MAX]}…"


# Large tables: the file and its changes -----------------------------------------------


SMALL_BYTES_MAX = 32 * 1024  # a file of up to this size is rewritten for each change

Entry = TypeVar("Entry")
Table = TypeVar("Table", TopicConfigSerializeWrapper, SubscriptionGroupWrapper)


class TableChange(Body, Generic[Entry], frozen=True):
    """One line: entries that were put or removed, and the data version after the change."""

    data_version: DataVersion
    put: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    removed: list[str] = msgspec.field(default_factory=list[str])


class TableDocument(Generic[Table, Entry]):
    """The table *name* on *disk*; *kinds* are the types of its body and of its changes.

    *whole* returns the present table, with every change that is to be saved.  A saved change
    survives the process; with *flushed* also a loss of power.
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
        self._current_table: Callable[[], Table] = whole
        self._file: Document[Table] = Document(disk, name, kind, release, note, flushed=flushed)
        self._disk = disk
        self._release = release
        self._name = f"{name}.changes"
        self._flushed = flushed
        self._decode = msgspec.json.Decoder(change, strict=False).decode
        self._saved_version: DataVersion | None = None  # of the file
        self._changes_bytes = 0
        self._needs_rewrite = (
            False  # a change is in neither file, or the file of changes has a torn line
        )
        self._unwritten: list[TableChange[Entry]] | None = None

    @property
    def refusal_reason(self) -> str:
        """Why the last failed save failed, as a text for clients."""
        return self._file.refusal_reason

    def load(self) -> tuple[Table | None, list[TableChange[Entry]]]:
        """The table in the file, and its later changes in order; call ``rewrite`` after that."""
        whole = self._file.load()
        if whole is None:
            return None, []
        self._saved_version = whole.data_version
        return whole, self._changes_since()

    def save(self, change: TableChange[Entry], *, must_be_saved: bool) -> bool:
        """Save *change*, which the table has already; returns whether it is on disk.

        If it is not and *must_be_saved*, the caller must undo it; else a later save writes it.
        """
        if self._unwritten is not None:
            self._unwritten.append(change)
            return True
        is_saved = self._save(change)
        self._needs_rewrite = self._needs_rewrite or not (is_saved or must_be_saved)
        return is_saved

    @contextmanager
    def saved_in_one_write(self) -> Iterator[None]:
        """Write all changes of this block at its end; if that fails, a later save writes them."""
        assert self._unwritten is None, "these blocks cannot be nested"
        self._unwritten = []
        try:
            yield
        finally:
            held, self._unwritten = self._unwritten, None
            if held and not self._save(_merged(held)):
                self._needs_rewrite = True

    def rewrite(self) -> bool:
        """Write the whole table to the file, and empty the file of changes, if there are any."""
        if not self._changes_bytes and not self._needs_rewrite:
            return True
        is_done = self._rewrite()
        self._needs_rewrite = self._needs_rewrite or not is_done
        return is_done

    def rewrite_whole(self) -> bool:
        """Write the whole table to the file, for a table that was replaced."""
        self._needs_rewrite = True
        return self.rewrite()

    # Inside ---------------------------------------------------------------------------

    def _save(self, change: TableChange[Entry]) -> bool:
        if self._needs_rewrite or self._file.text_bytes <= SMALL_BYTES_MAX:
            return self._rewrite()
        lines = encode_body(change, self._release) + b"\n"
        encode_config_file(change, self._release)  # caches these entries for a later rewrite
        if self._changes_bytes + len(lines) > self._file.text_bytes:
            return self._rewrite()
        if not self._changes_bytes:
            assert self._saved_version is not None, "a file of some size has been written"
            first: TableChange[Entry] = TableChange(data_version=self._saved_version)
            lines = encode_body(first, self._release) + b"\n" + lines
        try:
            self._disk.append(self._name, lines, flushed=self._flushed)
        except WRITE_ERRORS as error:
            self._file.refuse(error)
            return False
        self._changes_bytes += len(lines)
        self._file.is_write_failing = False
        return True

    def _rewrite(self) -> bool:
        whole = self._current_table()
        if not self._file.save(whole):
            return False
        self._saved_version = whole.data_version
        try:
            if self._changes_bytes:
                self._disk.replace(self._name, b"", flushed=self._flushed)
        except WRITE_ERRORS as error:
            self._file.refuse(error)
            self._needs_rewrite = True  # no line may be added to the changes of another file
            return True
        self._changes_bytes = 0
        self._needs_rewrite = False
        return True

    def _changes_since(self) -> list[TableChange[Entry]]:
        """The changes that belong to the file, up to a torn line."""
        lines = (self._disk.read(self._name) or b"").splitlines(keepends=True)
        self._changes_bytes = sum(map(len, lines))
        found: list[TableChange[Entry]] = []
        for number, line in enumerate(lines, 1):
            try:
                change = self._decode(line)
            except msgspec.DecodeError:
                if number < len(lines):  # a torn last line is no damage: it was not acknowledged
                    self._file.note_damage(self._name, f"line {number} of {len(lines)}")
                break
            if not line.endswith(b"\n"):
                break
            found.append(change)
        if not found or found[0].data_version != self._saved_version:
            return []
        return found[1:]


def _merged(changes: list[TableChange[Entry]]) -> TableChange[Entry]:
    """One change that has the same effect as *changes* in their order."""
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
