"""The control address: a listener, on loopback unless asked otherwise, with its own thread.

The port is bound at once, so that the address can be announced before it is used.  The thread
loads trio and h11 only when the first client connects, and that client waits for it: a cluster
whose control address is not used does not load them.  A request is answered in a worker thread,
because the verbs of a world block.

The address is in the NameServers' KV config (namespace ``RMQEMU``, key ``control``), where tools
find it.  A NameServer without a store loses it when it ends, so it is written again when that
NameServer has started.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.net.blocking_calls import call_blocking
from rocketmq_emulator.net.transport import AddressInUse
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand

if TYPE_CHECKING:
    import trio

    from rocketmq_emulator.cluster.control.controlled import ControlledCluster


# In the KV config of the NameServers --------------------------------------------------


NAMESPACE, KEY = "RMQEMU", "control"  # RocketMQ itself does not use this namespace

FIND_MS_MAX = 1_000  # a command waits for it


def announce(namesrv: str, address: str) -> None:
    """Write *address* to the NameServer at *namesrv*; no error if it does not answer."""
    fields = {"namespace": NAMESPACE, "key": KEY, "value": address}
    request = RemotingCommand(code=RequestCode.PUT_KV_CONFIG, opaque=1, ext=_ext(fields))
    with contextlib.suppress(OSError):
        call_blocking(namesrv, request)


def find_announced(namesrv: str) -> str | None:
    """The control address that the NameServer at *namesrv* knows, ``host:port``.

    Raises ``OSError`` if the NameServer does not answer.
    """
    fields = {"namespace": NAMESPACE, "key": KEY}
    request = RemotingCommand(code=RequestCode.GET_KV_CONFIG, opaque=1, ext=_ext(fields))
    reply = call_blocking(namesrv, request, FIND_MS_MAX)
    if reply.code != ResponseCode.SUCCESS:
        return None
    return reply.fields().get("value")


def _ext(fields: dict[str, str]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(fields))


# The listener -------------------------------------------------------------------------


HOST, ALL_ADDRESSES = "127.0.0.1", "0.0.0.0"
BACKLOG = 64
END_S_MAX = 5.0


class ControlServer:
    """Serves *world* once constructed; ``address`` is ``host:port``.  Raises ``AddressInUse``.

    *host* is an IPv4 address of this machine; 0.0.0.0 is all of them, as a container needs whose
    ports are mapped.  ``address`` then is the one on loopback.
    """

    def __init__(self, world: ControlledCluster, port: int, host: str = HOST) -> None:
        self._world = world
        self._socket = _bound(port, host)
        reached = HOST if host == ALL_ADDRESSES else host
        self.address = f"{reached}:{self._socket.getsockname()[1]}"
        self._lock = threading.Lock()
        self._is_closed = False
        self._ending: tuple[trio.lowlevel.TrioToken, trio.CancelScope] | None = None
        self._woken, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL of the address."""
        return f"http://{self.address}"

    def announce(self, namesrvs: Iterable[str]) -> None:
        """Write the address to these NameServers, ``host:port``, as far as they answer."""
        for namesrv in namesrvs:
            announce(namesrv, self.address)

    def close(self) -> None:
        """Stop answering; a verb that a request has begun goes on in the world."""
        with self._lock:
            self._is_closed = True
            self._waker.close()
            if self._ending is not None:
                token, scope = self._ending
                token.run_sync_soon(scope.cancel)
        self._thread.join(END_S_MAX)

    def _run(self) -> None:
        with self._socket, self._woken:
            self._wait_for_client()
            if not self._is_closed:
                self._serve()

    def _wait_for_client(self) -> None:
        """Wait for the first client, or for ``close``."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            selector.select()

    def _serve(self) -> None:
        import trio  # noqa: PLC0415  # see above

        from rocketmq_emulator.cluster.control.serving import serve_control  # noqa: PLC0415  # the same

        async def main() -> None:
            with trio.CancelScope() as scope:
                with self._lock:
                    if self._is_closed:
                        return
                    self._ending = trio.lowlevel.current_trio_token(), scope
                await serve_control(self._world, self._socket)
            with self._lock:
                self._ending = None

        trio.run(main)


def _bound(port: int, host: str) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(error.errno, f"{host}:{port} is in use") from error
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    return listener
