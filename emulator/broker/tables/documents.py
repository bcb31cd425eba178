"""Small tables that outlive their broker, in upstream's own files.

The text is upstream's to the byte, so a directory can change hands between the two.
The text before is kept as ``.bak`` and read where the main file is empty or damaged.

Upstream: ConfigManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from emulator.disk.port import NOT_WRITTEN
from emulator.disk.refusals import reason, refusal
from emulator.facts import DocumentDamaged
from protocol.bodies.body import Body, decode_long_body, encode_config_file
from protocol.fields import BadFields

if TYPE_CHECKING:
    from emulator.disk.port import Disk
    from emulator.facts import Note
    from emulator.releases import Release

FOLDER = "config"  # of documents, in a store
REASON_CHARS_MAX = 120

B = TypeVar("B", bound=Body)


class Document(Generic[B]):
    """The table *name* on *disk*, a *kind* of body, in the shape of *release*.

    What was saved survives the process; with *flushed* also a loss of power.
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
        self.is_refusing = False  # the last save found no room, or a broken disk
        self.why_refused = ""  # in words for clients
        self.text_bytes = 0  # of the text that was loaded or saved last

    def load(self) -> B | None:
        """What was saved last, or before that; None if neither can be read.

        A damaged text is a fact.
        """
        why_damaged = ""
        for name in (self._name, f"{self._name}.bak"):
            data = self._disk.read(name)
            if data is None:
                continue
            try:
                body = decode_long_body(data, self._kind)
            except BadFields as error:
                why_damaged = why_damaged or (_why(error) if data else "it is empty")
                continue
            self.text_bytes = len(data)
            if why_damaged:
                self.note_damage(self._name, why_damaged, name)
            return body
        if why_damaged:
            self.note_damage(self._name, why_damaged)
        return None

    def note_damage(self, name: str, reason: str, used_name: str = "") -> None:
        """The document *name* cannot be read, and *used_name* was, if there was one."""
        used_file = f"{FOLDER}/{used_name}" if used_name else ""
        self._note(DocumentDamaged(f"{FOLDER}/{name}", reason, used_file))

    def save(self, body: B) -> bool:
        """False if the disk cannot be read or written, and then the old text stays."""
        return self.save_text(encode_config_file(body, self._release))

    def save_text(self, text: bytes) -> bool:
        """As ``save``, of a body that is written already."""
        try:
            before = self._disk.read(self._name)
            if text == before:
                return True
            if before:
                self._disk.replace(f"{self._name}.bak", before)
            self._disk.replace(self._name, text, flushed=self._flushed)
        except NOT_WRITTEN as error:
            self.refuse(error)
            return False
        self.is_refusing = False
        self.text_bytes = len(text)
        return True

    def refuse(self, error: Exception) -> None:
        """Note that the disk takes nothing: once, not for every try."""
        if not self.is_refusing:
            self._note(refusal(error, self._name))
        self.is_refusing = True
        self.why_refused = reason(error)


def _why(error: BadFields) -> str:
    text = str(error).partition(": ")[2] or str(error)  # without the name of our struct
    return text if len(text) <= REASON_CHARS_MAX else f"{text[:REASON_CHARS_MAX]}…"
