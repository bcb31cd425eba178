"""TCP under trio: connect, bind, listen, accept, read and write.

Plain non-blocking sockets: a read takes all bytes that have arrived (many frames), the
connection handles them, and its replies are sent in one send.  A writer task runs only while the
kernel's send buffer is full.  The first few sockets have a reader task each; the others share
one (``epoll_reader``).

A process may open a limited number of files.  Some descriptors are reserved for the store and
for outgoing connections.  When those for peers are used up, connected peers are still served,
and new connections wait in the kernel's backlog until others have closed.  A fact names the limit.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable, Sequence

import trio

from rocketmq_emulator.facts import Note, OpenFilesFreed, OpenFilesRanOut
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.net.epoll_reader import EpollReader, epoll_is_supported
from rocketmq_emulator.net.tasks import TaskNursery
from rocketmq_emulator.net.transport import (
    Accept,
    AddressInUse,
    ConnectRefused,
    Endpoint,
    Transport,
)
from rocketmq_emulator.text.values import join_address, split_address

READ_BYTES = 256 * 1024
OWN_TASK_SOCKETS_MAX = 8  # sockets of a network that have a task each
UNSENT_BYTES_MAX = 4 * 1024 * 1024  # above it that peer is not read
BACKLOG = 1024


class TcpNetwork:
    """Real sockets.  Its tasks run in *nursery*; *note* takes its facts."""

    def __init__(self, nursery: TaskNursery, note: Note = discard_fact) -> None:
        self._nursery = nursery
        self._note = note
        self._own_task_count = 0  # sockets with a task of their own
        self._ready: EpollReader | None = None  # created above OWN_TASK_SOCKETS_MAX sockets

    async def listen(
        self, address: str, accept: Accept, *, if_unbound: bool = False
    ) -> TcpListener:
        """Bind and listen.  Raises as ``bound_socket``."""
        sock = bound_socket(address, if_unbound=if_unbound)
        sock.listen(BACKLOG)
        listener = TcpListener(sock, accept, self._open, self._note)
        self._nursery.start_soon(listener.run)
        return listener

    async def connect(self, address: str, accept: Accept) -> TcpTransport:
        """Connect.  Raises ``ConnectRefused`` if resolving or connecting fails."""
        host, port = split_address(address)
        sock = trio.socket.socket(
            trio.socket.AF_INET6 if ":" in host else trio.socket.AF_INET, trio.socket.SOCK_STREAM
        )
        try:
            await sock.connect((host, port))
        except OSError as error:
            sock.close()
            raise ConnectRefused(error.errno or 0, _why_refused(error)) from error
        except BaseException:
            sock.close()
            raise
        plain = socket.socket(fileno=sock.detach())
        plain.setblocking(False)
        return self._open(plain, accept)

    def _open(self, sock: socket.socket, accept: Accept) -> TcpTransport:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = TcpTransport(sock, self._nursery)
        transport.endpoint = accept(transport)
        if self._own_task_count < OWN_TASK_SOCKETS_MAX or not epoll_is_supported():
            self._own_task_count += 1
            self._nursery.start_soon(self._read_in_own_task, transport)
        else:
            self._ready = self._ready or EpollReader(self._nursery)
            transport.share(self._ready)
        return transport

    async def _read_in_own_task(self, transport: TcpTransport) -> None:
        try:
            await transport.read()
        finally:
            self._own_task_count -= 1


class TcpTransport:
    """One socket.

    A send that fails ends the stream, but the endpoint's ``closed`` is called later, by a task:
    code that sends to many peers must not handle the end of one of them inside ``send``.
    """

    endpoint: Endpoint
    values = None  # the far end may be in another process

    def __init__(self, sock: socket.socket, nursery: TaskNursery) -> None:
        self.local = join_address(sock.getsockname())
        try:
            self.remote = join_address(sock.getpeername())
        except OSError:
            self.remote = "0.0.0.0:0"  # the peer closed before it was accepted
        self._sock = sock
        self._nursery = nursery
        self._ready: EpollReader | None = None  # reads it, if it has no task of its own
        self._unsent = bytearray()
        self._drained: trio.Event | None = None
        self._ended = False  # the socket is closed
        self._reason: str | None = None  # why a send failed
        self._close_was_reported = False

    def send(self, data: bytes) -> None:
        """Pass *data* to the kernel; keep the rest that the kernel does not take, in order."""
        if self._ended:
            return
        if self._unsent:
            self._unsent += data
            return
        sent = self._try_send(data)
        if sent < len(data) and not self._ended:
            self._unsent += data[sent:]
            self._drained = trio.Event()
            self._nursery.start_soon(self._write)

    def unsent_bytes(self) -> int:
        """The number of bytes that the kernel has not taken yet."""
        return len(self._unsent)

    def close(self) -> None:
        """Close the socket; unsent bytes are dropped."""
        self._end("closed here")

    def share(self, ready: EpollReader) -> None:
        """Let *ready* read this socket; it has no reader task of its own then."""
        self._ready = ready
        ready.add(self)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def readable(self) -> None:
        """Feed the bytes that have arrived; stop reading while too much is unsent."""
        if data := self._receive():
            self.endpoint.feed(data)
        if self._ready is not None and len(self._unsent) > UNSENT_BYTES_MAX:
            self._ready.remove(self)  # until all is sent

    def stopped(self) -> None:
        """The reader has ended: end the stream."""
        self._end("closed here")

    async def read(self) -> None:
        """Feed the endpoint until the stream ends; pause while too much is unsent."""
        try:
            while not self._ended:
                await trio.lowlevel.wait_readable(self._sock)
                self.readable()
                if len(self._unsent) > UNSENT_BYTES_MAX and self._drained is not None:
                    await self._drained.wait()
        except trio.ClosedResourceError:
            return
        finally:
            self._end("closed here")

    def _receive(self) -> bytes:
        """The bytes that have arrived; empty if there are none, or at the end."""
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            self._end(_reason(error))
            return b""
        if not data:
            self._end("eof")
        return data

    async def _write(self) -> None:
        try:
            while self._unsent and not self._ended:
                await trio.lowlevel.wait_writable(self._sock)
                if (sent := self._try_send(self._unsent)) > 0:
                    del self._unsent[:sent]
                    if self._unsent:
                        self.endpoint.drained()
        except trio.ClosedResourceError:
            self._end("closed here")
        finally:
            if self._drained is not None:
                self._drained.set()
                self._drained = None
        if not self._ended:
            if self._ready is not None:
                self._ready.add(self)
            self.endpoint.writable()

    def _try_send(self, data: bytes | bytearray) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._reason = _reason(error)
            self._close_socket()  # which wakes the reader task, if it has one
            if self._ready is not None:
                self._nursery.start_soon(self._end_later)
            return 0

    async def _end_later(self) -> None:
        self._end("closed here")

    def _end(self, reason: str) -> None:
        self._close_socket()
        if not self._close_was_reported:
            self._close_was_reported = True
            self.endpoint.closed(self._reason or reason)

    def _close_socket(self) -> None:
        if not self._ended:
            self._ended = True
            self._unsent.clear()
            if self._ready is not None:
                self._ready.remove(self)
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()


def _reason(error: OSError) -> str:
    return "reset" if isinstance(error, ConnectionError) else (error.strerror or str(error))


def _why_refused(error: OSError) -> str:
    """The reason, without the address: callers add that."""
    if isinstance(error, socket.gaierror):
        return "the name of the host cannot be resolved"
    return os.strerror(error.errno).lower() if error.errno else str(error)


# Accepting ----------------------------------------------------------------------------


FILES_KEPT_MAX = 32  # reserved; a quarter of the limit, if that is less
FREE_FILES_MIN = 8  # before it accepts again: with 1 there would be a flood of facts
ACCEPT_RETRY_S = 0.1
CONNECTIONS = "connections"


class TcpListener:
    """An open listening socket."""

    def __init__(
        self,
        sock: socket.socket,
        accept: Accept,
        opened: Callable[[socket.socket, Accept], Transport],
        note: Note,
    ) -> None:
        self.address = join_address(sock.getsockname())
        self._sock = sock
        self._accept = accept
        self._open_transport = opened
        self._note = note
        self._files_max = files_for_peers(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    async def run(self) -> None:
        """Accept until it is closed."""
        try:
            while self._sock.fileno() >= 0:  # it may be closed before this task runs
                await trio.lowlevel.wait_readable(self._sock)
                if not self._accept_all():
                    await self._wait_for_free_files()
        except trio.ClosedResourceError:
            return
        finally:
            self.close()

    def close(self) -> None:
        """Stop accepting; open streams stay."""
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    def _accept_all(self) -> bool:
        """Accept all waiting peers; False if that failed, or no more files may be opened."""
        while True:
            try:
                sock, _ = self._sock.accept()
            except BlockingIOError:
                return True
            except ConnectionAbortedError:
                continue
            except OSError:
                return False
            # Descriptors are given out from the lowest free one: this is how many are open.
            is_last = sock.fileno() >= self._files_max - 1
            sock.setblocking(False)
            self._open_transport(sock, self._accept)
            if is_last:
                return False

    async def _wait_for_free_files(self) -> None:
        """Wait with pauses: a busy loop on accept would slow down the connected peers."""
        began_s = trio.current_time()
        if has_room := self._has_free_files():  # accept failed for another reason
            await trio.sleep(ACCEPT_RETRY_S)
            return
        self._note(OpenFilesRanOut(CONNECTIONS))
        while not has_room:
            await trio.sleep(ACCEPT_RETRY_S)
            has_room = self._has_free_files()
        lacking_for_ms = round((trio.current_time() - began_s) * 1000)
        self._note(OpenFilesFreed(CONNECTIONS, lacking_for_ms))

    def _has_free_files(self) -> bool:
        if self._sock.fileno() < 0:
            raise trio.ClosedResourceError
        tried: list[int] = []
        try:
            while len(tried) < FREE_FILES_MIN:
                tried.append(os.dup(self._sock.fileno()))
        except OSError:
            return False
        finally:
            for descriptor in tried:
                os.close(descriptor)
        return tried[-1] < self._files_max


def files_for_peers(files_max: int) -> int:
    """How many of *files_max* (-1: no limit) may be open while peers are accepted."""
    if files_max == resource.RLIM_INFINITY:
        return 1 << 30
    return files_max - min(FILES_KEPT_MAX, files_max // 4)


# Binding ------------------------------------------------------------------------------


def with_free_ports(addresses: Sequence[str]) -> list[str]:
    """*addresses* with a different free port for each port 0.

    Nothing reserves the ports: another program may take one before it is used.
    Raises as ``bound_socket``.
    """
    sockets = [bound_socket(address, if_unbound=True) for address in addresses]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return [f"{split_address(a)[0]}:{port}" for a, port in zip(addresses, ports, strict=True)]


def bound_socket(address: str, *, if_unbound: bool = False) -> socket.socket:
    """A non-blocking socket at *address* that does not listen yet; port 0 is any free one.

    A given port may be bound by another socket that does not listen, such as a proxy port that
    refuses: only one of the two can listen later.  With *if_unbound* that is in use, too, and so
    is a port whose last connections closed less than a minute ago.

    Raises ``AddressInUse``, or ``OSError`` if this host does not have the address.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, not if_unbound)
    sock.setblocking(False)
    try:
        sock.bind((host, port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for its next process
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(error.errno, f"{address} is in use") from error
        reason = str(error.strerror or error).lower()
        raise OSError(error.errno, f"cannot listen on {address}: {reason}") from error
    return sock
