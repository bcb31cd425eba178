"""A machine as the network sees it: its address, what listens there, its open streams.

A host is awake, stopped (its kernel answers, its process sees nothing) or without power
(nobody answers).  The kernel of a stopped process takes whatever comes: there is no window
that closes.  It implements the ``Network`` port for whatever runs on it.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from rocketmq_emulator.net.transport import AddressInUse, ConnectRefused
from rocketmq_emulator.sim.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketmq_emulator.net.transport import Accept, CommandsInFlight
    from rocketmq_emulator.sim.clock import VirtualClock
    from rocketmq_emulator.sim.stream import Path, PendingConnect

T = TypeVar("T")

EPHEMERAL_PORTS = range(32_768, 61_000)  # what a Linux kernel gives to clients
CONNECT_AGAIN_S = (1, 3, 7, 15, 31, 63)  # Linux, tcp_syn_retries = 6
CONNECT_S_MAX = 127
CONNECT_ERROR_TEXTS = {
    errno.ECONNREFUSED: "nobody listens at {}",
    errno.ETIMEDOUT: f"no answer from {{}} in {CONNECT_S_MAX} s",
}
ANY_ADDRESS = ("", "0.0.0.0", "127.0.0.1", "localhost")


class VirtualListener:
    """The ``Listener`` of the virtual network."""

    def __init__(self, address: str, accept: Accept, close: Callable[[], None]) -> None:
        self.address = address
        self.close = close
        self._accept = accept

    def accept(self, stream: Stream) -> None:
        """Somebody connected: the server makes its end."""
        stream.open(self._accept)


class ConnectAttempt:
    """One attempt to connect: from which host, to which port, and what became of it.

    What asks for the connection may be lost on the way; then the kernel asks again.
    """

    def __init__(self, target: Host, client: Stream, accept: Accept, port: int) -> None:
        self.client = client
        self.port = port
        self.answered = trio.Event()
        self.failed_with: int | None = None  # an errno
        self.is_given_up = False
        self._accept = accept
        self._target = target
        self._clock = target.clock
        self._began_us = target.clock.now_us

    def send(self, _: object = None) -> None:
        """Ask the target, unless nobody waits for it any more."""
        if self.is_given_up:
            return
        if self.client.loses_connect():
            self.lost()
        else:
            self.client.carry(self._target.receive_connect, self)

    def lost(self) -> None:
        """No answer will come: ask again when the kernel does, or give up when it does."""
        passed_us = self._clock.now_us - self._began_us
        for after_s in CONNECT_AGAIN_S:
            if after_s * 1_000_000 > passed_us:
                self._clock.at(self._began_us + after_s * 1_000_000, self.send)
                return
        give_up_us = self._began_us + CONNECT_S_MAX * 1_000_000
        self._clock.at(give_up_us, self.fail, errno.ETIMEDOUT)

    def succeed(self) -> None:
        """The target accepted."""
        self.client.open(self._accept)
        self.answered.set()

    def fail(self, reason: int) -> None:
        """It ends with the errno *reason*: nobody listens there, a rule refuses, no answer."""
        self.failed_with = reason
        self.answered.set()


class HostNetwork(Protocol):
    """The network, as far as a host knows it."""

    values: CommandsInFlight

    def find(self, where: str) -> Host | None:
        """The host with this name or address."""
        ...

    def path(self, source: str, target: str) -> Path:
        """The way from one host to another."""
        ...

    def power_changed(self, host: Host) -> None:
        """*host* lost its power, or has it again."""
        ...


class Host:
    """``is_awake``: what arrives is handled at once."""

    def __init__(self, name: str, ip: str, network: HostNetwork, clock: VirtualClock) -> None:
        self.name = name
        self.ip = ip
        self.clock = clock
        self.has_power = True
        self.is_awake = True
        self.values = network.values
        self._network = network
        self._is_stopped = False
        self._inbox: list[tuple[Callable[[Any], object], Any]] = []
        self._listeners: dict[int, VirtualListener] = {}
        self._streams: dict[str, Stream] = {}  # by both addresses, as TCP tells them apart
        self._ports_given = 0

    # For what runs here (the Network port) --------------------------------------------

    async def listen(self, address: str, accept: Accept) -> VirtualListener:
        """As ``Network.listen``; also raises ``OSError`` for an address of another host."""
        await trio.lowlevel.checkpoint()
        where, _, port_text = address.rpartition(":")
        port = int(port_text) or self._free_port()
        if where not in (*ANY_ADDRESS, self.ip, self.name):
            raise OSError(errno.EADDRNOTAVAIL, f"{address} is not an address of {self.name}")
        if port in self._listeners:
            raise AddressInUse(errno.EADDRINUSE, f"{address} is in use")

        def close() -> None:
            if self._listeners.get(port) is listener:
                del self._listeners[port]

        listener = VirtualListener(f"{self.ip}:{port}", accept, close)
        self._listeners[port] = listener
        return listener

    async def connect(self, address: str, accept: Accept) -> Stream:
        """As ``Network.connect``."""
        await trio.lowlevel.checkpoint()
        where, _, port = address.rpartition(":")
        target = self if where in ANY_ADDRESS else self._network.find(where)
        if target is None:
            raise ConnectRefused(errno.EHOSTUNREACH, f"there is no host at {address}")
        remote = f"{target.ip}:{port}"
        local = f"{self.ip}:{self._free_port(remote)}"
        client = Stream(self, self._network.path(self.name, target.name), local, remote)
        attempt = ConnectAttempt(target, client, accept, int(port))
        attempt.send()
        try:
            await attempt.answered.wait()
        except trio.Cancelled:
            attempt.is_given_up = True
            raise
        if attempt.failed_with is not None:
            text = CONNECT_ERROR_TEXTS[attempt.failed_with].format(address)
            raise ConnectRefused(attempt.failed_with, text)
        return client

    # What arrives ---------------------------------------------------------------------

    def receive_connect(self, attempt: ConnectAttempt) -> None:
        """Somebody wants to connect to this host."""
        client = attempt.client
        if not self.has_power:
            client.carry(self.receive_connect, attempt)
        elif not attempt.is_given_up:
            self._answer(attempt)

    def receive_accept(self, attempt: PendingConnect) -> None:
        """The target accepted an attempt of this host; it may have been given up meanwhile."""
        if attempt.is_given_up and self.has_power:
            attempt.client.abandon("reset")
        elif not self.is_awake:
            self.receive_later(attempt.client, self.receive_accept, attempt)
        else:
            self._register(attempt.client)
            attempt.succeed()

    def receive_later(
        self, stream: Stream, action: Callable[[T], object], argument: T, size: int = 0
    ) -> None:
        """Not awake: our kernel keeps it while we are stopped, the sender's without power."""
        if self.has_power:
            self._inbox.append((action, argument))
        elif stream.peer is not None:
            stream.peer.carry(action, argument, size)

    def handle_interrupt(self, action: Callable[[T], object], argument: T) -> None:
        """A device of this machine has finished something: handled when the host is awake."""
        if self.is_awake:
            action(argument)
        elif self.has_power:
            self._inbox.append((action, argument))

    def forget(self, stream: Stream) -> None:
        """*stream* has ended here."""
        if self._streams.get(_key(stream)) is stream:
            del self._streams[_key(stream)]

    # What happens to the machine ------------------------------------------------------

    def streams(self) -> list[Stream]:
        """Open streams that end here."""
        return list(self._streams.values())

    def lose_process(self, ending: str | None) -> None:
        """No process runs here any more; its peers see *ending* (eof, reset), or nothing."""
        self._inbox.clear()
        self._listeners.clear()
        for stream in self.streams():
            stream.abandon(ending)
        self.resume()

    def power_off(self) -> None:
        """Nobody answers; what is sent here waits in the senders' kernels."""
        self.lose_process(None)
        self.has_power = self.is_awake = False
        self._network.power_changed(self)

    def power_on(self) -> None:
        """The kernel answers again; nothing runs."""
        self.has_power = True
        self._network.power_changed(self)
        self.resume()

    def stop(self) -> None:
        """The process stands still; the kernel keeps what arrives."""
        self._is_stopped = True
        self.is_awake = False

    def resume(self) -> None:
        """What arrived meanwhile is handled, in order, before this instant ends."""
        self._is_stopped = False
        # Not at once: what is due in this very instant came after what waits here.
        self.clock.at(self.clock.now_us, self._wake)

    # Inside ---------------------------------------------------------------------------

    def _answer(self, attempt: ConnectAttempt) -> None:
        client, source = attempt.client, attempt.client.host
        server = Stream(
            self, self._network.path(self.name, source.name), client.remote, client.local
        )
        if server.loses_connect():
            attempt.lost()
            return
        listener = self._listeners.get(attempt.port)
        if listener is None or client.refuses_connect():
            server.carry(attempt.fail, errno.ECONNREFUSED)
            return
        server.peer, client.peer = client, server
        self._register(server)
        server.carry(source.receive_accept, attempt)
        if self.is_awake:
            listener.accept(server)
        else:
            self.receive_later(server, listener.accept, server)

    def _register(self, stream: Stream) -> None:
        self._streams[_key(stream)] = stream

    def _wake(self, _: object) -> None:
        if self._is_stopped or not self.has_power:
            return
        self.is_awake = True
        inbox, self._inbox = self._inbox, []
        for action, argument in inbox:
            action(argument)

    def _free_port(self, remote: str = "") -> int:
        """Counting up, past those in use (for a client: in use towards the same remote)."""
        for _ in EPHEMERAL_PORTS:
            port = EPHEMERAL_PORTS[self._ports_given % len(EPHEMERAL_PORTS)]
            self._ports_given += 1
            if port not in self._listeners and f"{self.ip}:{port}>{remote}" not in self._streams:
                return port
        raise OSError(errno.EADDRNOTAVAIL, f"{self.name} has no port left")


def _key(stream: Stream) -> str:
    return f"{stream.local}>{stream.remote}"
