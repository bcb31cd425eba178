"""The port between a connection and whatever moves its bytes.

A connection is a machine, not a task: bytes are fed to an *endpoint*, what it writes
goes out through a *transport*, and neither waits.  On TCP reader tasks feed; in the
virtual world the clock does, while it moves time.  So everything above
this port is the same code in both worlds.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

from rocketmq_emulator.protocol.error_families import CannotDoHere, NobodyAnswered

CommandsInFlight: TypeAlias = MutableMapping[
    bytes, Any
]  # by the bytes that were sent: what they mean


class ConnectRefused(NobodyAnswered, OSError):
    """Nobody listens there, or the network refuses: nothing was sent."""

    definite = True


class HostUnknown(NobodyAnswered, OSError):
    """A name that nobody can resolve; nothing was done."""

    definite = True


class AddressInUse(CannotDoHere, OSError):
    """Somebody listens there already."""


class Transport(Protocol):
    """One open byte stream, seen from one end."""

    local: str  # "ip:port"
    remote: str  # "ip:port"

    @property
    def values(self) -> CommandsInFlight | None:
        """Shared with the far end, if that is in this process: see ``put_in_flight``."""
        ...

    def send(self, data: bytes) -> None:
        """Take *data* for sending; never waits.  What cannot leave yet is kept in order.

        The own endpoint's ``closed`` is never called inside, even if the stream turns out to
        be broken: it is called a little later.
        """
        ...

    def unsent_bytes(self) -> int:
        """How much of what was taken has not left this machine."""
        ...

    def close(self) -> None:
        """Close now: the own endpoint's ``closed`` is called once, the far end sees an end."""
        ...


class Endpoint(Protocol):
    """What a transport talks to: our connection."""

    def feed(self, data: bytes) -> None:
        """Some bytes arrived, in order."""
        ...

    def writable(self) -> None:
        """Everything taken for sending has left, after ``unsent_bytes`` had been above zero."""
        ...

    def drained(self) -> None:
        """Some of what was taken for sending has left, and some has not."""
        ...

    def closed(self, reason: str) -> None:
        """The stream ended (``eof``, ``reset``, ``closed here`` …); called exactly once."""
        ...


Accept = Callable[[Transport], Endpoint]


class Listener(Protocol):
    """An open listening address."""

    address: str  # "ip:port", the port really bound

    def close(self) -> None:
        """Stop accepting; open streams stay."""
        ...


class Network(Protocol):
    """Where a node lives: it can listen and connect.  Its own tasks run in its own nursery."""

    async def listen(self, address: str, accept: Accept) -> Listener:
        """Listen on "ip:port" (port 0: any free one).  Raises ``AddressInUse``."""
        ...

    async def connect(self, address: str, accept: Accept) -> Transport:
        """Open a stream to "ip:port".  *accept* makes the endpoint that will be fed.

        Raises ``ConnectRefused``; a silent host waits until cancelled.
        """
        ...
