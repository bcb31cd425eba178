"""A proxy port: the ``host:port`` at which one source reaches one node, until the cluster ends.

It is open, or refuses connections as the address of a dead process, or is silent as a machine
behind a partition: clients wait until they time out.  The port stays bound in all three states.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import trio

from rocketmq_emulator.cluster.links.endpoints import Names
from rocketmq_emulator.cluster.links.shaping import SHUT, PortState, port_state
from rocketmq_emulator.cluster.links.streams import LINGER_0, ProxiedStream, ProxyContext
from rocketmq_emulator.net.tcp import bound_socket
from rocketmq_emulator.text.values import join_address, split_address

if TYPE_CHECKING:
    from collections.abc import Callable

BACKLOG = 1024
CONNECT_S_MAX = 3.0
LOOK_AGAIN_S = 0.1


class ProxyPort:
    """Forwards connections to *sock*, which is bound, to a node.

    *names* are those of source and target.  The second port of a node is closed together with
    the first: only that is counted.
    """

    def __init__(
        self,
        sock: socket.socket,
        names: tuple[Names, Names],
        *,
        learns_names: bool,
        is_second: bool = False,
    ) -> None:
        self.names = names
        self.node_address = ""  # where the node listens, while it is up
        self.streams: dict[ProxiedStream, None] = {}
        self._learns_names = learns_names
        self._is_second = is_second
        self._sock = sock
        self.address = join_address(self._sock.getsockname())
        self._state: PortState = "refusing"
        self._filler: socket.socket | None = None  # fills the backlog while silent
        self._accepting: trio.CancelScope | None = None

    def set_state(self, context: ProxyContext) -> None:
        """Enter the state that follows from the faults that hold and whether the node is up."""
        state, causes = port_state(
            context.rules.values(), *self.names, is_up=bool(self.node_address)
        )
        if state == self._state:
            return
        for rule in () if self._is_second else causes:
            rule.tally.add(SHUT)
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        _CHANGES[state](self)
        self._state = state
        if state == "open":
            self._accepting = trio.CancelScope()
            context.nursery.start_soon(self._accept, context, self._accepting)

    def close(self) -> None:
        """Close the port; ``TcpLinks`` closes the streams."""
        self._end_filler()
        self._sock.close()

    # Its three states -----------------------------------------------------------------

    def _open(self) -> None:
        self._end_filler()
        self._sock.listen(BACKLOG)

    def _refuse(self) -> None:
        """Bind without listening: the kernel then refuses connections."""
        self._end_filler()
        self._sock.close()
        self._sock = bound_socket(self.address)

    def _drop_connects(self) -> None:
        """Fill the backlog with our own connection: the kernel then ignores all others."""
        self._sock.listen(0)
        self._filler = socket.socket(self._sock.family)
        self._filler.setblocking(False)
        with contextlib.suppress(OSError):
            self._filler.connect(self._sock.getsockname())

    def _end_filler(self) -> None:
        """Close the connection that fills the backlog; waiting clients can then be accepted."""
        if self._filler is not None:
            _reset(self._filler)
            self._filler = None

    # Connections ----------------------------------------------------------------------

    async def _accept(self, context: ProxyContext, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await trio.lowlevel.wait_readable(self._sock)
                while True:
                    try:
                        near, _ = self._sock.accept()
                    except BlockingIOError:
                        break
                    except ConnectionAbortedError:
                        continue
                    except OSError:
                        await trio.sleep(LOOK_AGAIN_S)  # no file descriptors left
                        break
                    if _has_left(near):  # as the connection that filled the backlog
                        near.close()
                        continue
                    near.setblocking(False)
                    context.nursery.start_soon(self._connect_to_node, context, near)

    async def _connect_to_node(self, context: ProxyContext, near: socket.socket) -> None:
        """Connect to the node.  If the node refuses, reset the client's connection."""
        try:
            with trio.fail_after(CONNECT_S_MAX):
                far = await _connected(self.node_address)
        except (OSError, trio.TooSlowError):
            _reset(near)
            return
        except BaseException:
            near.close()
            raise
        if self._state == "refusing":  # a fault began meanwhile
            _reset(near)
            _reset(far)
            return
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = ProxiedStream(
            context, near, far, self.names, self._forget, learns_names=self._learns_names
        )
        if not stream.is_over:
            self.streams[stream] = None

    def _forget(self, stream: ProxiedStream) -> None:
        self.streams.pop(stream, None)


_CHANGES: dict[PortState, Callable[[ProxyPort], None]] = {
    "open": ProxyPort._open,  # noqa: SLF001  # the class's own table
    "refusing": ProxyPort._refuse,  # noqa: SLF001
    "silent": ProxyPort._drop_connects,  # noqa: SLF001
}


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
    sock.close()


def _has_left(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return True
    return False


async def _connected(address: str) -> socket.socket:
    if not address:
        raise ConnectionRefusedError
    host, port = split_address(address)
    sock = trio.socket.socket(trio.socket.AF_INET6 if ":" in host else trio.socket.AF_INET)
    try:
        await sock.connect((host, port))
    except BaseException:
        sock.close()
        raise
    plain = socket.socket(fileno=sock.detach())
    plain.setblocking(False)
    return plain
