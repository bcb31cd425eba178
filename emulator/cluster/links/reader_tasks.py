"""Where there is no epoll, a task reads each socket: as ``ReadySockets``, and slower."""

from __future__ import annotations

import trio

from emulator.net.ready_sockets import Readable


class ReaderTasks:
    """Reads sockets in tasks of *nursery*."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: dict[Readable, trio.CancelScope] = {}

    def add(self, socket: Readable) -> None:
        """Read it from now on, if it is not read already."""
        if socket not in self._scopes:
            self._scopes[socket] = trio.CancelScope()
            self._nursery.start_soon(self._read, socket, self._scopes[socket])

    def remove(self, socket: Readable) -> None:
        """Read it no more; to be called before it is closed."""
        if (scope := self._scopes.pop(socket, None)) is not None:
            scope.cancel()

    async def _read(self, socket: Readable, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await trio.lowlevel.wait_readable(socket.fileno())
                socket.readable()
                if self._scopes.get(socket) is not scope:
                    return
