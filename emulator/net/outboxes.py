"""How much all peers of a server together have not read, and who is closed when it is too much.

One peer that does not read is slowed by its own outbox: it is read from no more, and pushes to
it are dropped.  Five hundred such peers would still take gigabytes.  So there is one limit
for all: whoever has read least recently is closed first, until the rest has room.
"""

from __future__ import annotations

from typing import Protocol

from emulator.facts import Note, SlowReaderClosed
from emulator.net.results import Peer
from emulator.net.transport import Transport
from emulator.net.turn import Turn


class Reader(Protocol):
    """A connection, as far as its outbox is concerned."""

    peer: Peer
    transport: Transport


class Outboxes:
    """Unsent bytes by connection; at most *bytes_max* stay, None: without limit."""

    def __init__(self, turn: Turn, note: Note, bytes_max: int | None = None) -> None:
        self.waiting_bytes = 0  # of all
        self._turn = turn
        self._note = note
        self._bytes_max = bytes_max
        self._unsent: dict[Reader, int] = {}  # who has read least recently comes first

    def wrote(self, reader: Reader, unsent_bytes: int) -> None:
        """Something was sent to *reader*, and so much has not left.  In a turn only."""
        self.waiting_bytes += unsent_bytes - self._unsent.get(reader, 0)
        self._unsent[reader] = unsent_bytes  # its place stays
        if self._bytes_max is not None and self.waiting_bytes > self._bytes_max:
            self._turn.at_end(self._close_slowest)

    def read(self, reader: Reader, unsent_bytes: int) -> None:
        """The *reader* has taken something, or has gone; so much is left."""
        self.waiting_bytes += unsent_bytes - self._unsent.pop(reader, 0)
        if unsent_bytes:
            self._unsent[reader] = unsent_bytes

    def _close_slowest(self) -> None:
        assert self._bytes_max is not None, "without a limit nothing is too much"
        while self.waiting_bytes > self._bytes_max:
            reader, unsent_bytes = next(iter(self._unsent.items()))
            self._note(SlowReaderClosed(reader.peer.address, unsent_bytes, self.waiting_bytes))
            self.read(reader, 0)
            reader.transport.close()
