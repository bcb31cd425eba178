"""The clients of a run in real time: each a process, started, ended and paused by name.

They are forked from a process that has loaded everything; the run forks that one itself, before
it has a thread.  It keeps nothing of the run but a socket: when that ends, it and all clients that
are left end, too, however the run ended.

A client that was stopped or killed begins again when it is started; its journal goes on in the
same file.  Signals do the work: SIGTERM, SIGKILL, SIGSTOP.  In worlds with clients the verbs for
nodes take their names, too: so faults of clients begin and end as those of nodes do.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

import msgspec
import trio

from rocketmq_emulator.client import ClientProcess
from rocketmq_emulator.client.consumer.group.offsets import OffsetFolder
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.cluster.fault_values import LinkFault
from rocketmq_emulator.cluster.node_view import is_stopped_by_signal
from rocketmq_emulator.cluster.world import STOP_S_MAX
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.disk.line_file import LineFile
from rocketmq_emulator.facts import all_facts
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.processes.fork_server import ForkServer
from rocketmq_emulator.processes.spawning import ForkClient, ForkedNode
from rocketmq_emulator.processes.stopping import calling_on_stop
from rocketmq_emulator.protocol.error_families import NobodyAnswered
from rocketmq_emulator.scenarios.running.client_runner import run_client
from rocketmq_emulator.scenarios.running.client_specs import AnyClientSpec
from rocketmq_emulator.scenarios.running.environment import cluster_spec_of
from rocketmq_emulator.scenarios.running.virtual_run import FACTS_ON_DEMAND

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.world import WorldKind
    from rocketmq_emulator.scenarios.plan.plan import Plan


PAUSE_S_MAX, PAUSE_POLL_S = 1.0, 0.001
ERROR_TEXT_MAX = 2_000  # characters at the end of what a client wrote before it died


class ClientDied(NobodyAnswered):
    """A client ended that nobody ended; the text has what it wrote last."""


class ClientProcesses:
    """Those of one run.  Each writes its journal to a file in *folder*."""

    def __init__(self, forker: ForkClient, folder: Path) -> None:
        self._forker = forker
        self._folder = folder
        self._parts: dict[str, AnyClientSpec] = {}
        self._client_runs: dict[str, _ClientRun] = {}  # the last one of each

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that have entered, in that order."""
        return tuple(self._client_runs)

    def enter(self, part: AnyClientSpec) -> None:
        """A client that there was not before.  Raises ``NoForks``."""
        self._parts[part.name] = part
        self.start(part.name)

    def start(self, name: str) -> None:
        """Unless it runs."""
        if name not in self._client_runs or not self._client_runs[name].is_running:
            journal = str(self._folder / f"{name}.jsonl")
            self._client_runs[name] = _ClientRun(
                self._forker, ClientOrder(self._parts[name], journal)
            )

    def stop(self, name: str) -> None:
        """It leaves its blocks in order; what hangs is killed."""
        self._client_runs[name].end(signal.SIGTERM, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """At once; done when it is dead."""
        self._client_runs[name].end(signal.SIGKILL)

    def kill_all(self) -> None:
        """The run is over."""
        for name in self._client_runs:
            self.kill(name)

    def pause(self, name: str) -> None:
        """SIGSTOP; done when it stands still."""
        process = self._client_runs[name].process
        process.send_signal(signal.SIGSTOP)
        until_s = time.monotonic() + PAUSE_S_MAX
        while is_stopped_by_signal(process.pid) is False and time.monotonic() < until_s:
            time.sleep(PAUSE_POLL_S)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._client_runs[name].process.send_signal(signal.SIGCONT)

    def is_running(self, name: str) -> bool:
        """Is there a process, paused or not?"""
        return name in self._client_runs and self._client_runs[name].is_running

    def is_paused(self, name: str) -> bool:
        """Does its process stand still?"""
        return self.is_running(name) and bool(
            is_stopped_by_signal(self._client_runs[name].process.pid)
        )

    def check(self) -> None:
        """Raises ``ClientDied`` for one that failed."""
        for name, client_run in self._client_runs.items():
            if (
                not client_run.is_running
                and not client_run.is_end_requested
                and client_run.process.poll()
            ):
                raise ClientDied(f"the client {name} has died: {client_run.stderr_tail()}")


class _ClientRun:
    """From one start of a client to its end."""

    def __init__(self, forker: ForkClient, order: ClientOrder) -> None:
        self.is_end_requested = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # lives as it does
        self.process: ForkedNode = forker.fork([], self._errors)
        self.process.stdout.close()  # what a program of the scenario prints goes nowhere
        with self.process.stdin as file, contextlib.suppress(BrokenPipeError):
            file.write(msgspec.json.encode(order))

    @property
    def is_running(self) -> bool:
        """Has it not ended yet?"""
        return self.process.poll() is None

    def end(self, *signals: int) -> None:
        """By these signals, and by SIGKILL when they do not help."""
        self.is_end_requested = True
        for number in signals:
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def stderr_tail(self) -> str:
        """What it wrote to its standard error, the end of it."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - ERROR_TEXT_MAX))
        return self._errors.read().decode(errors="replace").strip() or "it wrote nothing"


# In the process that forks, and in a client's own -------------------------------------


FIRST_FILE = 3  # after standard input, output and error
FILES_MAX = 4_096  # more than a run has open when it has just begun


class ClientOrder(msgspec.Struct, frozen=True):
    """What one client plays, and the file its journal goes to."""

    part: AnyClientSpec
    journal: str


def client_forker() -> ForkClient:
    """The process that forks clients.  To be called while this one has no thread."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _serve(theirs)
    theirs.close()
    return ForkClient(ours, lambda: os.waitpid(pid, 0))


def run_client_process() -> int:
    """One order, from standard input, until it is over or a signal ends it in order."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ClientOrder)
    trio.run(_run_ordered_client, order)
    return 0


def _serve(requests: socket.socket) -> NoReturn:
    try:
        os.closerange(FIRST_FILE, requests.fileno())
        os.closerange(requests.fileno() + 1, FILES_MAX)
        ForkServer(requests, run_client_process, kills=True).run()
    finally:
        os._exit(0)  # what the run has open is the run's to close


async def _run_ordered_client(order: ClientOrder) -> None:
    part = order.part
    clock = WallClock.of_this_machine()
    journal = Journal(part.name, clock, LineFile(order.journal).append)
    journal.enable_on_demand([kind for kind in all_facts() if kind.__name__ in FACTS_ON_DEMAND])
    files = Path(order.journal).with_suffix("")  # relative folders are gone with the run
    ending = trio.Event()
    loop = trio.lowlevel.current_trio_token()
    with calling_on_stop(lambda: loop.run_sync_soon(ending.set)):
        async with ClientProcess(
            clock=clock,
            rng=random.Random(f"{part.seed}/{part.name}/{clock.mono_us()}"),
            note=journal.note,
            wants=journal.wants,
            default_namesrv="",
            open_folder=lambda folder: OffsetFolder(files / folder),
        ) as process:
            await run_client(part, process, lambda _in_flight: None, ending)


# Worlds whose verbs take names of clients, too ----------------------------------------


class WorldWithClients(RealWorld):
    """Stands before a world of real time; ``clients`` is given to it before it starts."""

    clients: ClientProcesses

    @property
    def client_names(self) -> tuple[str, ...]:
        """Of those that have entered."""
        return self.clients.names

    def is_running(self, name: str) -> bool:
        """Is there a process, paused or not?"""
        if name in self.client_names:
            return self.clients.is_running(name)
        return super().is_running(name)  # type: ignore[safe-super]  # the world behind has it

    def is_paused(self, name: str) -> bool:
        """Does its process stand still?"""
        if name in self.client_names:
            return self.clients.is_paused(name)
        return super().is_paused(name)

    def start(self, *names: str) -> None:
        """Nodes are ready when it returns; clients have begun to play on."""
        clients = [name for name in names if name in self.client_names]
        if nodes := [name for name in names if name not in clients]:
            super().start(*nodes)  # type: ignore[safe-super]
        elif not names:
            super().start()  # type: ignore[safe-super]
        for name in clients:
            self.clients.start(name)
        self._faults.started(clients)

    def stop(self, *names: str) -> None:
        """Clients first; with no name only the nodes."""
        for name in names:
            if name in self.client_names:
                self.clients.stop(name)
        nodes = [name for name in names if name not in self.client_names]
        if nodes or not names:
            super().stop(*nodes)  # type: ignore[safe-super]

    def kill(self, name: str) -> None:
        """At once."""
        if name in self.client_names:
            self._faults.note_killed([name] if self.clients.is_running(name) else [])
            self.clients.kill(name)
        else:
            super().kill(name)  # type: ignore[safe-super]

    def pause(self, name: str) -> None:
        """It stands still."""
        if name in self.client_names:
            self.clients.pause(name)
        else:
            super().pause(name)  # type: ignore[safe-super]

    def resume(self, name: str) -> None:
        """It goes on."""
        if name in self.client_names:
            self.clients.resume(name)
        else:
            super().resume(name)  # type: ignore[safe-super]


class EmbeddedWithClients(WorldWithClients, EmbeddedCluster):
    """Nodes in a thread of this process, clients as processes."""


class ProcessesWithClients(WorldWithClients, ProcessCluster):
    """Nodes and clients as processes."""


def world_of(plan: Plan, kind: WorldKind, folder: Path, clients: ClientProcesses) -> RealWorld:
    """The cluster of *plan*, not started; it stands behind proxies if a fault needs them.

    Journals go to *folder*.  Processes have a store there: what a broker stored is there after
    it was killed, as in the other worlds.
    """
    spec = cluster_spec_of(plan)
    has_links = any(isinstance(step.does, LinkFault) for step in plan.timeline)
    world: WorldWithClients
    if kind == "embedded":
        world = EmbeddedWithClients(spec, journal=str(folder), with_links=has_links)
    else:
        spec = msgspec.structs.replace(spec, store=str(folder / "store"))
        world = ProcessesWithClients(spec, journal=str(folder), with_links=has_links)
    world.clients = clients
    return world
