"""A port in front of another one, as a container engine maps it: no client needs the other."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any, cast

from rocketmq_emulator.text.values import split_address

READ_BYTES = 64 * 1024
WAITING_CONNECTIONS_MAX = 128


class _Server(socketserver.ThreadingTCPServer):
    request_queue_size = WAITING_CONNECTIONS_MAX
    daemon_threads = True
    block_on_close = False


class MappedPort:
    """Forwards the connections to ``address``, any free port, to *target*; counts them."""

    def __init__(self, target: str) -> None:
        self.connection_count = 0
        self._target = split_address(target)
        self._open: list[socket.socket] = []
        handler = cast("Any", self._forward)  # a function that is called as the class would be
        self._server = _Server(("127.0.0.1", 0), handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.01)

    def close(self) -> None:
        """Refuse new connections, and end those that are open."""
        self._server.shutdown()
        self._server.server_close()
        for line in self._open:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _forward(self, client: socket.socket, _address: object, _server: object) -> None:
        with contextlib.suppress(OSError), socket.create_connection(self._target) as inside:
            self.connection_count += 1
            self._open += (client, inside)
            back = threading.Thread(target=_copy, args=(inside, client), daemon=True)
            back.start()
            _copy(client, inside)
            back.join()


@contextlib.contextmanager
def mapped(target: str) -> Iterator[MappedPort]:
    """A port in front of *target*, ``host:port``, until the block ends."""
    port = MappedPort(target)
    thread = threading.Thread(target=port.serve, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        port.close()
        thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(READ_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
