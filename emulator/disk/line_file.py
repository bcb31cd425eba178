"""A file that grows by whole lines, and may run out of room.

A line is in the kernel's hands when ``append`` returns, unbuffered: a fact comes before
the reply it proves.  Where there is no room a line is left out, never torn: facts are
numbered, so their reader sees the hole, and no broker dies for its diary.
"""

from __future__ import annotations

from pathlib import Path

from emulator.disk.files import NO_ROOM


class LineFile:
    """Open as long as the process lives."""

    def __init__(self, path: str | Path) -> None:
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115  # see above

    def append(self, line: bytes) -> bool:
        """Whether *line* is there; raises OSError for anything but a lack of room."""
        try:
            written = self._file.write(line)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return False
        if written == len(line):
            return True
        self._file.truncate(self._file.tell() - written)
        return False

    def close(self) -> None:
        """Close the file; the lines stay."""
        self._file.close()
