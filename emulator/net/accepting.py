"""Accepting connections over TCP, as long as this process may open more files.

Some descriptors are kept for the store and for connections of our own: when those for peers
are used up, whoever is connected is served, and new ones wait in the kernel's backlog until
others have closed.  A fact names the limit, once.
"""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable

import trio

from emulator.addresses import join_address
from emulator.facts import Note, OpenFilesFreed, OpenFilesRanOut
from emulator.net.transport import Accept, Transport

FILES_KEPT_MAX = 32  # a quarter, where fewer than four times as many may be open
ROOM_FILES = (
    8  # so many must be free before it accepts again: one a time would be a flood of facts
)
LOOK_AGAIN_S = 0.1
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
        self._opened = opened
        self._note = note
        self._files_max = files_for_peers(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    async def run(self) -> None:
        """Accept until it is closed."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._sock)
                if not self._take_all():
                    await self._wait_for_room()
        except trio.ClosedResourceError:
            return
        finally:
            self.close()

    def close(self) -> None:
        """Stop accepting; open streams stay."""
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    def _take_all(self) -> bool:
        """Accept who waits; False if that failed, or there is no room for more."""
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
            self._opened(sock, self._accept)
            if is_last:
                return False

    async def _wait_for_room(self) -> None:
        """Look again now and then: spinning on accept would take the time of who is connected."""
        began_s = trio.current_time()
        if has_room := self._has_room():  # accept failed for another reason
            await trio.sleep(LOOK_AGAIN_S)
            return
        self._note(OpenFilesRanOut(CONNECTIONS))
        while not has_room:
            await trio.sleep(LOOK_AGAIN_S)
            has_room = self._has_room()
        lacking_for_ms = round((trio.current_time() - began_s) * 1000)
        self._note(OpenFilesFreed(CONNECTIONS, lacking_for_ms))

    def _has_room(self) -> bool:
        if self._sock.fileno() < 0:
            raise trio.ClosedResourceError
        tried: list[int] = []
        try:
            while len(tried) < ROOM_FILES:
                tried.append(os.dup(self._sock.fileno()))
        except OSError:
            return False
        finally:
            for descriptor in tried:
                os.close(descriptor)
        return tried[-1] < self._files_max


def files_for_peers(files_max: int) -> int:
    """How many of *files_max* (-1: no limit) may be open when another peer is accepted."""
    if files_max == resource.RLIM_INFINITY:
        return 1 << 30
    return files_max - min(FILES_KEPT_MAX, files_max // 4)
