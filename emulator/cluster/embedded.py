"""A whole cluster in one thread of this process, behind a plain synchronous face.

    with EmbeddedCluster(ClusterSpec()) as cluster:
        use(cluster.namesrv)

The thread has a ``trio.run`` of its own and TCP on loopback, so any client may come, from
this process or another.  Everything is loaded when this module is: a cluster is then up in
milliseconds.  What needs an operating-system process (kill -9, SIGSTOP) is not to be had.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
import trio

import emulator.broker.service
import emulator.nameserver.service  # noqa: F401  # loaded now, so that starting takes no time
from emulator.clock import WallClock
from emulator.cluster.outspoken import OutspokenJournal
from emulator.cluster.roles import RoleConfig, serve_role
from emulator.cluster.troubles import the_one
from emulator.disk.files import FileDisk
from emulator.disk.line_file import LineFile
from emulator.disk.memory import MemoryDisk
from emulator.disk.port import Disk
from emulator.net.tcp import TcpNetwork

if TYPE_CHECKING:
    from types import TracebackType

    from emulator.cluster.spec import ClusterSpec

START_S_MAX, STOP_S_MAX = 30.0, 8.0


class EmbeddedNode:
    """One role in the cluster's thread.  In memory, its disk outlives its restarts."""

    def __init__(
        self,
        name: str,
        write: Callable[[bytes], object] | None,
        say: Callable[[str], object],
    ) -> None:
        self.name = name
        self.address = ""
        self.config: RoleConfig | None = None
        self._write = write
        self._say = say
        self._memory = MemoryDisk()
        self._stop = trio.Event()
        self._ended = trio.Event()

    async def serve(
        self, config: RoleConfig, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
    ) -> None:
        self.config = config
        self._stop, self._ended = trio.Event(), trio.Event()
        clock = WallClock.of_this_machine()
        with contextlib.ExitStack() as closing:
            closing.callback(self._ended.set)
            disk: Disk = self._memory
            if config.store:
                disk = closing.enter_context(contextlib.closing(FileDisk(config.store)))
            async with trio.open_nursery() as network_nursery:
                await serve_role(
                    config,
                    network=TcpNetwork(network_nursery),
                    disk=disk,
                    clock=clock,
                    rng=random.Random(),
                    journal=OutspokenJournal(self.name, clock, self._write, self._say),
                    stop=self._stop,
                    task_status=task_status,
                )
                network_nursery.cancel_scope.cancel()

    async def wait_stopped(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._stop.set()
        with trio.move_on_after(STOP_S_MAX):
            await self._ended.wait()


class EmbeddedCluster:
    """Ready inside the ``with``, gone after it.  Raises what stood in the way of its start."""

    def __init__(self, spec: ClusterSpec, *, journal: str = "") -> None:
        spec.check()
        self.spec = spec
        self.ready_s = 0.0
        self._journal = journal
        self._nodes: dict[str, EmbeddedNode] = {}
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stopping = trio.Event()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._files = contextlib.ExitStack()
        self._said: list[str] = []
        self._thread = threading.Thread(target=self._run, name="rocketmq", daemon=True)

    def __enter__(self) -> Self:
        began_s = time.monotonic()
        self._thread.start()
        self._started.wait(START_S_MAX)
        if self._failure is not None:
            raise self._failure
        self.ready_s = time.monotonic() - began_s
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.is_alive() and self._token is not None:
            self._token.run_sync_soon(self._stopping.set)
        self._thread.join(2 * STOP_S_MAX)

    @property
    def namesrv(self) -> str:
        return ";".join(self._namesrv)

    @property
    def brokers(self) -> dict[str, str]:
        return {name: self._nodes[name].address for name in self.spec.broker_names}

    def check_alive(self) -> None:
        """Raises what ended the cluster, if anything did."""
        if self._failure is not None:
            raise self._failure

    def complaints(self) -> list[str]:
        """New lines of nodes that have something to say, a full disk for example."""
        said, self._said[:] = list(self._said), []
        return said

    def stop_node(self, name: str) -> None:
        """An orderly end: it says goodbye."""
        self._do(self._nodes[name].wait_stopped)

    def restart(self, name: str) -> None:
        """Stop it if it runs; start it where it was, with what it stored."""
        self._do(self._restart, name)

    # In the thread --------------------------------------------------------------------

    def _run(self) -> None:
        with contextlib.ExitStack() as self._files:
            try:
                trio.run(self._live)
            except BaseException as error:  # noqa: BLE001  # carried to whoever started us
                self._failure = the_one(error)
            self._started.set()

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for name in self.spec.name_server_names:
                await self._start(name, self.spec.name_server_config(name))
            async with trio.open_nursery() as starting:
                for name in self.spec.broker_names:
                    config = self.spec.broker_config(name, self._namesrv)
                    starting.start_soon(self._start, name, config)
            self._started.set()
            await self._stopping.wait()
            for name in (*self.spec.broker_names, *self.spec.name_server_names):
                await self._nodes[name].wait_stopped()
            nursery.cancel_scope.cancel()

    async def _start(self, name: str, config: RoleConfig) -> None:
        assert self._nursery is not None
        node = self._nodes.setdefault(
            name, EmbeddedNode(name, self._appender(name), self._said.append)
        )
        node.address = await self._nursery.start(node.serve, config)

    async def _restart(self, name: str) -> None:
        node = self._nodes[name]
        await node.wait_stopped()
        assert node.config is not None
        await self._start(name, msgspec.structs.replace(node.config, listen_address=node.address))

    def _do(self, action: Callable[..., Awaitable[None]], *arguments: object) -> None:
        trio.from_thread.run(action, *arguments, trio_token=self._token)

    def _appender(self, name: str) -> Callable[[bytes], object] | None:
        if not self._journal:
            return None
        folder = Path(self._journal)
        folder.mkdir(parents=True, exist_ok=True)
        file = LineFile(folder / f"{name}.jsonl")
        self._files.callback(file.close)
        return file.append

    @property
    def _namesrv(self) -> tuple[str, ...]:
        return tuple(self._nodes[name].address for name in self.spec.name_server_names)
