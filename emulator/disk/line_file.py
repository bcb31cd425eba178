"""A file of whole lines, for journals: it rotates when it is long, and tolerates a full disk.

A line is in the kernel's page cache when ``append`` returns, unbuffered: a fact is written before
the reply that it proves.  On a full disk a line is left out, never written in part, and a broker
does not fail because of its journal.  An unlinked file of one page keeps room for a last line
that counts what was left out (``write_reserved``); it is freed when the disk is full.

A file that has reached its size becomes ``FILE.1``, the one before it ``FILE.2``; the oldest is
removed.  So a cluster that runs for a long time does not fill the disk.
"""

from __future__ import annotations

from io import FileIO
from pathlib import Path

from rocketmq_emulator.disk.files import NO_ROOM

_TRY_AGAIN_BYTES = 1024 * 1024  # then rotate again, if no new file could be created
_TRY_AGAIN_LINES = 16  # that are left out, between two looks for room
_RESERVE_BYTES = 4096  # a page: what a file system gives back at least
RESERVED_LINE_BYTES_MAX = 512  # of one line of ``write_reserved``, filled up with spaces


class LineFile:
    """Open until ``close``; at most *files_max* files of about *bytes_max* each."""

    def __init__(self, path: str | Path, *, bytes_max: int = 1 << 62, files_max: int = 1) -> None:
        self._path = Path(path)
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()
        self._rotates_at = bytes_max  # a size
        self._is_full = False  # the last line was left out
        self._left_out = 0
        self._reserve: FileIO | None = None
        self._reserved_at: int | None = None  # the place of the last line, if it is a reserved one
        self._keep_room()

    def append(self, line: bytes) -> bool:
        """True if *line* was written, False on a full disk.  Raises other OSErrors."""
        if self._is_full and not self._has_room_again():
            return False
        if self._size and self._size + len(line) > self._rotates_at:
            self._rotate()
        self._is_full = not self._write(line)
        return not self._is_full

    def write_reserved(self, line: bytes) -> bool:
        """Write *line*, after an ``append`` that returned False, into the room kept for it.

        The next one replaces it, until an ``append`` succeeds.  False if the room was lost to
        another process, or *line* is longer than RESERVED_LINE_BYTES_MAX.
        """
        if len(line) > RESERVED_LINE_BYTES_MAX:
            return False
        padded = line.removesuffix(b"\n").ljust(RESERVED_LINE_BYTES_MAX - 1) + b"\n"
        if self._reserved_at is not None:
            return self._overwrite(padded, self._reserved_at)
        self._free_room()
        if not self._write(padded):
            return False
        self._reserved_at = self._size - len(padded)
        return True

    def close(self) -> None:
        """Close the file; the lines stay."""
        self._free_room()
        self._file.close()

    def _write(self, line: bytes) -> bool:
        try:
            written = self._file.write(line)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return False
        if written != len(line):
            self._file.truncate(self._size)
            return False
        self._size += written
        return True

    def _overwrite(self, line: bytes, place: int) -> bool:
        """Write over bytes that the file has: this needs no room."""
        try:
            with self._path.open("r+b", buffering=0) as file:  # the other one only appends
                file.seek(place)
                return file.write(line) == len(line)
        except OSError:  # too many open files, or the folder was removed
            return False

    def _has_room_again(self) -> bool:
        """Whether there is room for a new reserve; tried at every ``_TRY_AGAIN_LINES``th line.

        A line that happens to fit into the last page of the file is no sign of room.
        """
        self._left_out += 1
        if self._left_out % _TRY_AGAIN_LINES or not self._keep_room():
            return False
        self._reserved_at = None
        return True

    def _keep_room(self) -> bool:
        """Fill a page of the disk with a file without a name, which ends with the process."""
        self._free_room()
        path = _with_suffix(self._path, "reserve")
        try:
            self._reserve = path.open("wb", buffering=0)
            path.unlink()
            return self._reserve.write(bytes(_RESERVE_BYTES)) == _RESERVE_BYTES
        except OSError:  # no room to keep, or too many open files
            return False

    def _free_room(self) -> None:
        if self._reserve is not None:
            self._reserve.close()
            self._reserve = None

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
