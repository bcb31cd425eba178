"""The interface between a connection and the network, real or virtual.

A connection has no task of its own: received bytes are fed to an *endpoint*, its frames are sent
through a *transport*, and neither waits.  On TCP reader tasks feed it; in a virtual world the
clock does while it moves time.  So all code above this interface is the same in both worlds.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

from rocketmq_emulator.protocol.error_families import CannotDoHere, NobodyAnswered

CommandsInFlight: TypeAlias = MutableMapping[bytes, Any]  # the commands in the bytes sent


class ConnectRefused(NobodyAnswered, OSError):
    """No process listens at the address, or the network refuses: nothing was sent."""

    definite = True


class HostUnknown(NobodyAnswered, OSError):
    """The host name cannot be resolved; nothing was sent."""

    definite = True


class AddressInUse(CannotDoHere, OSError):
    """The address is in use: another socket listens there."""


class Transport(Protocol):
    """One open byte stream, seen from one end."""

    local: str  # "ip:port"
    remote: str  # "ip:port"

    @property
    def values(self) -> CommandsInFlight | None:
        """The commands shared with a far end in this process: see ``put_in_flight``; else None."""
        ...

    def send(self, data: bytes) -> None:
        """Send *data*; never waits.  Bytes that cannot be sent yet are kept in order.

        The own endpoint's ``closed`` is never called inside, even if the stream is found to
        be broken: it is called a little later.
        """
        ...

    def unsent_bytes(self) -> int:
        """The number of bytes given to ``send`` and not yet sent."""
        ...

    def close(self) -> None:
        """Close now: the own endpoint's ``closed`` is called once, the far end's stream ends."""
        ...


class Endpoint(Protocol):
    """The receiver of a transport's bytes and events: a ``Connection``."""

    def feed(self, data: bytes) -> None:
        """Some bytes arrived, in order."""
        ...

    def writable(self) -> None:
        """All bytes were sent: ``unsent_bytes`` is zero again."""
        ...

    def drained(self) -> None:
        """Some of the unsent bytes were sent, and some are left."""
        ...

    def closed(self, reason: str) -> None:
        """The stream ended (``eof``, ``reset``, ``closed here`` …); called exactly once."""
        ...


Accept = Callable[[Transport], Endpoint]


class Listener(Protocol):
    """An open listening address."""

    address: str  # "ip:port", with the port that was bound

    def close(self) -> None:
        """Stop accepting; open streams stay open."""
        ...


class Network(Protocol):
    """The network of a node: it can listen and connect.  Its tasks run in a nursery of its own."""

    async def listen(self, address: str, accept: Accept, *, if_unbound: bool = False) -> Listener:
        """Listen on "ip:port" (port 0: any free one).  Raises ``AddressInUse``.

        With *if_unbound* also if a socket that does not listen has the port.
        """
        ...

    async def connect(self, address: str, accept: Accept) -> Transport:
        """Open a stream to "ip:port".  *accept* makes the endpoint that will be fed.

        Raises ``ConnectRefused``; a silent host waits until cancelled.
        """
        ...
