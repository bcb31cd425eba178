"""The network part of a machine: its address, its listeners, its open streams.

A host is awake, stopped (its kernel answers, its process receives nothing) or without power
(nothing answers).  The kernel of a stopped process takes all bytes that arrive: there is no
receive window.  ``Host`` is the ``Network`` of the process that runs on it.
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

EPHEMERAL_PORTS = range(32_768, 61_000)  # as a Linux kernel gives clients
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
        """A client has connected: open the server's end."""
        stream.open(self._accept)


class ConnectAttempt:
    """One attempt to connect: the client's end, the target's port, and the result.

    Its packets may be lost; then it is sent again, as a kernel does.
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
        """Send the attempt to the target, unless it was given up."""
        if self.is_given_up:
            return
        if self.client.loses_connect():
            self.lost()
        else:
            self.client.carry(self._target.receive_connect, self)

    def lost(self) -> None:
        """A packet was lost: send again, or time out, when Linux would."""
        passed_us = self._clock.now_us - self._began_us
        for after_s in CONNECT_AGAIN_S:
            if after_s * 1_000_000 > passed_us:
                self._clock.at(self._began_us + after_s * 1_000_000, self.send)
                return
        give_up_us = self._began_us + CONNECT_S_MAX * 1_000_000
        self._clock.at(give_up_us, self.fail, errno.ETIMEDOUT)

    def succeed(self) -> None:
        """The target accepted: open the client's end."""
        self.client.open(self._accept)
        self.answered.set()

    def fail(self, reason: int) -> None:
        """End it with the errno *reason*: nothing listens there, a rule refuses, no answer."""
        self.failed_with = reason
        self.answered.set()


class HostNetwork(Protocol):
    """The part of the network that a host uses."""

    values: CommandsInFlight

    def find(self, where: str) -> Host | None:
        """The host with this name or address."""
        ...

    def path(self, source: str, target: str) -> Path:
        """The path from one host to another."""
        ...

    def power_changed(self, host: Host) -> None:
        """*host* lost its power, or has it again."""
        ...


class Host:
    """One host.  While ``is_awake``, arrivals are handled at once."""

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
        self._streams: dict[str, Stream] = {}  # by the addresses of both ends
        self._ports_given = 0

    # For the process here (the Network port) ------------------------------------------

    async def listen(
        self,
        address: str,
        accept: Accept,
        *,
        if_unbound: bool = False,  # noqa: ARG002  # every bound port here has a listener
    ) -> VirtualListener:
        """As ``Network.listen``; also raises ``OSError`` for an address of another host."""
        if not self._listeners:  # a second port takes no turn: on TCP no listen does
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

    # Arrivals -------------------------------------------------------------------------

    def receive_connect(self, attempt: ConnectAttempt) -> None:
        """An attempt to connect to this host has arrived."""
        client = attempt.client
        if not self.has_power:
            client.carry(self.receive_connect, attempt)
        elif not attempt.is_given_up:
            self._answer(attempt)

    def receive_accept(self, attempt: PendingConnect) -> None:
        """The target accepted *attempt* of this host; it may have been given up meanwhile."""
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
        """Call *action* when awake; without power the sender's kernel keeps it."""
        if self.has_power:
            self._inbox.append((action, argument))
        elif stream.peer is not None:
            stream.peer.carry(action, argument, size)

    def handle_interrupt(self, action: Callable[[T], object], argument: T) -> None:
        """A device of this machine has finished: call *action* when the host is awake."""
        if self.is_awake:
            action(argument)
        elif self.has_power:
            self._inbox.append((action, argument))

    def forget(self, stream: Stream) -> None:
        """*stream* has ended at this host."""
        if self._streams.get(_key(stream)) is stream:
            del self._streams[_key(stream)]

    # For the machine ------------------------------------------------------------------

    def streams(self) -> list[Stream]:
        """The open streams with an end at this host."""
        return list(self._streams.values())

    def lose_process(self, ending: str | None) -> None:
        """The process has ended; its peers get *ending* (eof, reset), or nothing if None."""
        self._inbox.clear()
        self._listeners.clear()
        for stream in self.streams():
            stream.abandon(ending)
        self.resume()

    def power_off(self) -> None:
        """Answer nothing; bytes sent here are held in the senders' kernels."""
        self.lose_process(None)
        self.has_power = self.is_awake = False
        self._network.power_changed(self)

    def power_on(self) -> None:
        """The kernel answers again; no process runs."""
        self.has_power = True
        self._network.power_changed(self)
        self.resume()

    def stop(self) -> None:
        """Stop the process, as SIGSTOP; the kernel keeps the arrivals."""
        self._is_stopped = True
        self.is_awake = False

    def resume(self) -> None:
        """Continue: the kept arrivals are handled, in order, before this instant ends."""
        self._is_stopped = False
        # Not at once: deliveries that are due in this instant arrived after the kept ones.
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
        """The next port that is not in use (for a client: not towards the same remote)."""
        for _ in EPHEMERAL_PORTS:
            port = EPHEMERAL_PORTS[self._ports_given % len(EPHEMERAL_PORTS)]
            self._ports_given += 1
            if port not in self._listeners and f"{self.ip}:{port}>{remote}" not in self._streams:
                return port
        raise OSError(errno.EADDRNOTAVAIL, f"{self.name} has no free port")


def _key(stream: Stream) -> str:
    return f"{stream.local}>{stream.remote}"
