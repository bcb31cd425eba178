"""One end of a byte stream between two machines.

Bytes arrive whole and in order, late or never.  An end that has gone (closed, its
process killed, its machine switched off and on again) answers what still arrives with a
reset, as a kernel does: so the other side learns of it when it next sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.net.transport import Accept, Endpoint, Values
    from emulator.sim.clock import VirtualClock
    from emulator.sim.path import Path
    from emulator.sim.rules import Traffic


class StreamHost(Protocol):
    """The machine at which a stream ends, as far as the stream knows it."""

    name: str
    clock: VirtualClock
    is_awake: bool
    values: Values

    def receive_later(
        self, stream: Stream, action: Callable[[Any], object], argument: Any, size: int = 0
    ) -> None:
        """Keep what arrives until the machine is awake."""
        ...

    def receive_accept(self, attempt: Any) -> None:
        """The target accepted an attempt of this host."""
        ...

    def forget(self, stream: Stream) -> None:
        """*stream* has ended here."""
        ...


class Stream:
    """The ``Transport`` of the virtual network."""

    __slots__ = (
        "_endpoint",
        "_is_abandoned",
        "_is_notifying",
        "_is_open",
        "_path",
        "arrival_us",
        "held_bytes",
        "host",
        "local",
        "peer",
        "remote",
        "values",
    )

    def __init__(self, host: StreamHost, path: Path, local: str, remote: str) -> None:
        self.local = local
        self.remote = remote
        self.arrival_us = 0  # of the last thing sent: later ones do not overtake it
        self.held_bytes = 0  # taken, but waiting at a closed gate
        self.peer: Stream | None = None
        self.host = host
        self.values = host.values
        self._path = path
        self._endpoint: Endpoint | None = None
        self._is_open = True
        self._is_abandoned = False
        self._is_notifying = False

    # For our endpoint ---------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """As ``Transport.send``."""
        if self._is_open and data:
            assert self.peer is not None, "nobody sends before the stream is open"
            self._path.carry(self, self.peer.receive, data, len(data))

    def unsent_bytes(self) -> int:
        """As ``Transport.unsent_bytes``: what waits at a closed gate."""
        return self.held_bytes

    def close(self) -> None:
        """As ``Transport.close``."""
        if self._is_open:
            self._send_end("eof")
            self._end("closed here")

    # What the host does to us ---------------------------------------------------------

    def open(self, accept: Accept) -> None:
        """Both ends are there: *accept* makes the endpoint that is fed."""
        if self._is_open:
            self._endpoint = accept(self)

    def abandon(self, ending: str | None) -> None:
        """The process that held this end is gone; the peer sees *ending*, if there is one."""
        if self._is_open and ending is not None:
            self._send_end(ending)
        self._is_open = False
        self._is_abandoned = True
        self.host.forget(self)

    def is_between(self, traffic: Traffic) -> bool:
        """Does *traffic* mean this stream, one way or the other?"""
        if self.peer is None:
            return False
        here, there = self.host.name, self.peer.host.name
        return here != there and (traffic(here, there) or traffic(there, here))

    def carry(self, action: Callable[[Any], object], argument: Any, size: int = 0) -> None:
        """Call ``action(argument)`` at the far end, after all that was sent before."""
        self._path.carry(self, action, argument, size)

    def loses_connect(self) -> bool:
        """Is what asks for this stream, or grants it, lost on the way there?"""
        return self._path.loses_connect()

    def refuses_connect(self) -> bool:
        """Does a rule refuse this stream?"""
        return self._path.refuses_connect()

    # What arrives ---------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """*data* came from the other end."""
        if not self.host.is_awake:
            self.host.receive_later(self, self.receive, data, len(data))
        elif not self._is_open:
            self._send_end("reset")
        elif self._endpoint is not None:
            self._endpoint.feed(data)

    def passed_gate(self, size: int) -> None:
        """*size* held bytes passed the gate."""
        self.held_bytes -= size
        if size and not self._is_notifying:
            self._is_notifying = True
            self.host.clock.at(self.host.clock.now_us, self._notify_left)

    def receive_end(self, reason: str) -> None:
        """The other end has gone, for *reason*."""
        if not self._is_open:
            return
        if not self.host.is_awake:
            self.host.receive_later(self, self.receive_end, reason)
        else:
            self._end(reason)

    def _send_end(self, reason: str) -> None:
        if self.peer is not None:
            self._path.carry(self, self.peer.receive_end, reason)

    def _end(self, reason: str) -> None:
        self._is_open = False
        self.host.forget(self)
        if self._endpoint is not None and not self._is_abandoned:
            self._endpoint.closed(reason)

    def _notify_left(self, _: object) -> None:
        self._is_notifying = False
        if not self._is_open or self._endpoint is None:
            return
        if not self.host.is_awake:
            self.host.receive_later(self, self._notify_left, None)
        elif self.held_bytes:
            self._endpoint.drained()
        else:
            self._endpoint.writable()
