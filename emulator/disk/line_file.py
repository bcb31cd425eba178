"""A file of whole lines, for journals: it rotates when it is long, and tolerates a full disk.

A line is in the kernel's page cache when ``append`` returns, unbuffered: a fact is written before
the reply that it proves.  On a full disk a line is left out, never written in part: facts are
numbered, so their reader sees the gap, and a broker does not fail because of its journal.

A file that has reached its size becomes ``FILE.1``, the one before it ``FILE.2``; the oldest is
removed.  So a cluster that runs for a long time does not fill the disk.
"""

from __future__ import annotations

from pathlib import Path

from rocketmq_emulator.disk.files import NO_ROOM

_TRY_AGAIN_BYTES = 1024 * 1024  # then rotate again, if no new file could be created


class LineFile:
    """Open until ``close``; at most *files_max* files of about *bytes_max* each."""

    def __init__(self, path: str | Path, *, bytes_max: int = 1 << 62, files_max: int = 1) -> None:
        self._path = Path(path)
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()
        self._rotates_at = bytes_max  # a size

    def append(self, line: bytes) -> bool:
        """True if *line* was written, False on a full disk.  Raises other OSErrors."""
        if self._size and self._size + len(line) > self._rotates_at:
            self._rotate()
        try:
            written = self._file.write(line)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return False
        if written == len(line):
            self._size += written
            return True
        self._file.truncate(self._size)
        return False

    def close(self) -> None:
        """Close the file; the lines stay."""
        self._file.close()

    def _rotate(self) -> None:
        """Begin a new file; if that fails now, continue with the old one."""
        beginning = _with_suffix(self._path, "new")
        try:
            file = beginning.open("wb", buffering=0)
            for number in range(self._files_max - 1, 0, -1):
                newer = self._numbered(number - 1)
                if newer.exists():
                    newer.replace(self._numbered(number))
            beginning.replace(self._path)
        except OSError:  # too many open files, or the folder was removed
            self._rotates_at = self._size + _TRY_AGAIN_BYTES
            return
        self._file.close()
        self._file, self._size, self._rotates_at = file, 0, self._bytes_max

    def _numbered(self, number: int) -> Path:
        return _with_suffix(self._path, str(number)) if number else self._path


def line_files(path: str | Path) -> list[Path]:
    """The files of *path* that exist, the oldest lines first: ``FILE.2``, ``FILE.1``, ``FILE``."""
    newest = Path(path)
    older = [
        found
        for found in newest.parent.glob(f"{newest.name}.*")
        if found.suffix.removeprefix(".").isdigit()
    ]
    older.sort(key=lambda found: int(found.suffix.removeprefix(".")), reverse=True)
    return [*older, *([newest] if newest.exists() else [])]


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.{suffix}")
