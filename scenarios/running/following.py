"""Journals in files that grow: what was written since the last look, by time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from emulator.checks.reading import entries_in
from emulator.journal import Entry


class Following:
    """The journals of *folder*; files may come later.  ``close`` it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, IO[bytes]] = {}
        self._halves: dict[Path, bytes] = {}  # a line whose end is not written yet

    def read(self) -> list[Entry]:
        """What is new.  Raises ``BadJournal``.

        What two nodes wrote at the same moment may come in two calls, in the wrong order.
        """
        return in_time(
            entry
            for path in sorted(self._folder.glob("*.jsonl"))
            for entry in entries_in(self._lines(path), str(path))
        )

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _lines(self, path: Path) -> list[bytes]:
        if path not in self._files:
            self._files[path] = path.open("rb")
        data = self._halves.pop(path, b"") + self._files[path].read()
        *lines, self._halves[path] = data.split(b"\n")
        return lines


def in_time(entries: Iterator[Entry] | list[Entry]) -> list[Entry]:
    """As journals of one machine are merged."""
    return sorted(entries, key=lambda entry: (entry.mono_us, entry.node, entry.seq))
