"""A link that hides the ends of connections: the server behind it sees clients only fall silent.

So it is when a machine loses its power, or when its network is cut while its process ends.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

CHUNK_BYTES = 1 << 16


@contextlib.contextmanager
def hidden_ends(server: str) -> Iterator[str]:
    """The address of a link to *server*, on loopback; connections to it end with the link."""
    host, port = server.rsplit(":", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:

        def accept() -> None:
            with contextlib.suppress(OSError):  # the listener was closed
                while True:
                    client = stack.enter_context(listener.accept()[0])
                    behind = stack.enter_context(socket.create_connection((host, int(port))))
                    for each in ((client, behind), (behind, client)):
                        threading.Thread(target=_pass_on, args=each, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until *source* ends, of which *target* is not told."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
