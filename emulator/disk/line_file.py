"""A file that grows by whole lines, begins anew when it is long, and may run out of room.

A line is in the kernel's hands when ``append`` returns, unbuffered: a fact comes before
the reply it proves.  Where there is no room a line is left out, never torn: facts are
numbered, so their reader sees the hole, and no broker dies for its diary.

A file that has reached its size becomes ``FILE.1``, the one before it ``FILE.2``; the oldest is
removed.  So a cluster that is left running does not fill the disk.
"""

from __future__ import annotations

from pathlib import Path

from rocketmq_emulator.disk.files import NO_ROOM

_TRY_AGAIN_BYTES = 1024 * 1024  # later, where no new file could be begun


class LineFile:
    """Open as long as the process lives; at most *files_max* files of about *bytes_max*."""

    def __init__(self, path: str | Path, *, bytes_max: int = 1 << 62, files_max: int = 1) -> None:
        self._path = Path(path)
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()
        self._rotates_at = bytes_max  # a size

    def append(self, line: bytes) -> bool:
        """Whether *line* is there; raises OSError for anything but a lack of room."""
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
        """Begin a new file; where that is not possible now the old one grows on."""
        beginning = _with_suffix(self._path, "new")
        try:
            file = beginning.open("wb", buffering=0)
            for number in range(self._files_max - 1, 0, -1):
                newer = self._numbered(number - 1)
                if newer.exists():
                    newer.replace(self._numbered(number))
            beginning.replace(self._path)
        except OSError:  # too many open files, or a folder that is gone
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
