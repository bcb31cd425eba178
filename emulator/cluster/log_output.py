"""Where the log of a node goes, which must never stop the node: nobody may be reading it.

A pipe is a buffer already: what it has room for is written, and what it has no room for is
left out and counted.  The next line that finds room comes behind the count.  So the file
stays as blocking as it was given to us, since others may share it, and is asked before each
write instead.
"""

from __future__ import annotations

import os
import select

_PIECE_BYTES = select.PIPE_BUF  # a pipe with any room takes that much without waiting


class LogOutput:
    """The open file with that number; None where there is none, and everything is dropped."""

    def __init__(self, file: int | None) -> None:
        self._file = file
        self._room = select.poll()
        if file is not None:
            self._room.register(file, select.POLLOUT)
        self.dropped_lines = 0  # since the last one that was written
        self._is_torn = False  # the last line has no end

    def write(self, text: str) -> None:
        """Write whole lines if somebody takes them; never waits, never raises."""
        if self._put(self._remark() + text):
            self.dropped_lines = 0
        else:
            self.dropped_lines += text.count("\n")

    def close(self) -> None:
        """Say what was dropped, if there is room by now; the file stays open."""
        if self.dropped_lines:
            self.write("")

    def _remark(self) -> str:
        count = self.dropped_lines
        return f"{count} lines were left out here, because nobody read the log\n" if count else ""

    def _put(self, text: str) -> bool:
        data = (b"\n" if self._is_torn else b"") + text.encode("utf-8", "replace")
        for at in range(0, len(data), _PIECE_BYTES):
            piece = data[at : at + _PIECE_BYTES]
            written_bytes = self._put_piece(piece)
            if written_bytes < len(piece):
                self._is_torn |= at + written_bytes > 0
                return False
        self._is_torn = False
        return True

    def _put_piece(self, piece: bytes) -> int:
        if self._file is None or not self._has_room():
            return 0
        try:
            return os.write(self._file, piece)
        except OSError:  # its reader has gone, or it is a file on the very disk that is full
            return 0

    def _has_room(self) -> bool:
        return any(events & select.POLLOUT for _, events in self._room.poll(0))
