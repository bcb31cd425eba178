"""The clients of a run in real time: each is a process, started, stopped and paused by name.

They are forked by a fork server that has loaded every module; the run forks the server before it
has a second thread.  The server shares only a socket with the run: when the socket closes, the
server and all remaining clients end, too, however the run ended.

A client that was stopped or killed can be started again; its journal continues in the same file.
Signals control clients: SIGTERM, SIGKILL, SIGSTOP.  In worlds with clients the verbs for nodes
accept names of clients, too: so faults of clients begin and end as those of nodes do.
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
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

import msgspec
import trio

from rocketmq_emulator.client import ClientProcess
from rocketmq_emulator.client.consumer.group.offsets import OffsetFolder
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.cluster.fault_values import Lag, LinkFault
from rocketmq_emulator.cluster.node_view import is_stopped_by_signal
from rocketmq_emulator.cluster.world import STOP_S_MAX, undone_by
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
ERROR_TEXT_MAX = 2_000  # bytes of a dead client's standard error, from its end


class ClientDied(NobodyAnswered):
    """A client process ended by itself; the text has the end of its standard error."""


class ClientProcesses:
    """The client processes of one run.  Each writes its journal to a file in *folder*."""

    def __init__(self, forker: ForkClient, folder: Path) -> None:
        self._forker = forker
        self._folder = folder
        self._parts: dict[str, AnyClientSpec] = {}
        self._client_runs: dict[str, _ClientRun] = {}  # the last run of each client

    @property
    def names(self) -> tuple[str, ...]:
        """All clients that were started, in the order of their first start."""
        return tuple(self._client_runs)

    def enter(self, part: AnyClientSpec) -> None:
        """Start a new client from its spec.  Raises ``NoForks``."""
        self._parts[part.name] = part
        self.start(part.name)

    def start(self, name: str) -> None:
        """Start a known client unless it runs.  Raises ``NoForks``."""
        if name not in self._client_runs or not self._client_runs[name].is_running:
            journal = str(self._folder / f"{name}.jsonl")
            self._client_runs[name] = _ClientRun(
                self._forker, ClientOrder(self._parts[name], journal)
            )

    def stop(self, name: str) -> None:
        """Close a client in order; kill it if it hangs."""
        self._client_runs[name].end(signal.SIGTERM, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Send SIGKILL; on return the process has ended."""
        self._client_runs[name].end(signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill every client; the run calls this at its end."""
        for name in self._client_runs:
            self.kill(name)

    def pause(self, name: str) -> None:
        """Send SIGSTOP; return when the process is stopped, or after ``PAUSE_S_MAX``."""
        process = self._client_runs[name].process
        process.send_signal(signal.SIGSTOP)
        until_s = time.monotonic() + PAUSE_S_MAX
        while is_stopped_by_signal(process.pid) is False and time.monotonic() < until_s:
            time.sleep(PAUSE_POLL_S)

    def resume(self, name: str) -> None:
        """Send SIGCONT."""
        self._client_runs[name].process.send_signal(signal.SIGCONT)

    def is_running(self, name: str) -> bool:
        """Whether the client has a process, paused or not."""
        return name in self._client_runs and self._client_runs[name].is_running

    def is_paused(self, name: str) -> bool:
        """Whether the client's process is stopped by SIGSTOP."""
        return self.is_running(name) and bool(
            is_stopped_by_signal(self._client_runs[name].process.pid)
        )

    def check(self) -> None:
        """Raises ``ClientDied`` if a client has failed by itself."""
        for name, client_run in self._client_runs.items():
            if (
                not client_run.is_running
                and not client_run.is_end_requested
                and client_run.process.poll()
            ):
                raise ClientDied(f"the client {name} has died: {client_run.stderr_tail()}")


class _ClientRun:
    """One process of a client, from its start to its end."""

    def __init__(self, forker: ForkClient, order: ClientOrder) -> None:
        self.is_end_requested = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this run
        self.process: ForkedNode = forker.fork([], self._errors)
        self.process.stdout.close()  # output of a scenario's program is dropped
        with self.process.stdin as file, contextlib.suppress(BrokenPipeError):
            file.write(msgspec.json.encode(order))

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def end(self, *signals: int) -> None:
        """Send *signals*; send SIGKILL if the process has not ended after ``STOP_S_MAX``."""
        self.is_end_requested = True
        for number in signals:
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def stderr_tail(self) -> str:
        """The end of the process's standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - ERROR_TEXT_MAX))
        return self._errors.read().decode(errors="replace").strip() or "it wrote nothing"


# In the fork server, and in a client's process ----------------------------------------


FIRST_FILE = 3  # after standard input, output and error
FILES_MAX = 4_096  # more than the open files of a run that has just begun


class ClientOrder(msgspec.Struct, frozen=True):
    """The spec of one client, and the path of its journal."""

    part: AnyClientSpec
    journal: str


def client_forker() -> ForkClient:
    """Start the fork server of clients.  Call it before this process has a second thread."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _serve(theirs)
    theirs.close()
    return ForkClient(ours, lambda: os.waitpid(pid, 0))


def run_client_process() -> int:
    """Run the ``ClientOrder`` on standard input until it ends, or SIGTERM stops it in order."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ClientOrder)
    trio.run(_run_ordered_client, order)
    return 0


def _serve(requests: socket.socket) -> NoReturn:
    try:
        os.closerange(FIRST_FILE, requests.fileno())
        os.closerange(requests.fileno() + 1, FILES_MAX)
        ForkServer(requests, run_client_process, kills=True).run()
    finally:
        os._exit(0)  # without cleanup: the open files are the run's


async def _run_ordered_client(order: ClientOrder) -> None:
    part = order.part
    clock = WallClock.of_this_machine()
    journal = Journal.to_file(part.name, clock, LineFile(order.journal))
    journal.enable_on_demand([kind for kind in all_facts() if kind.__name__ in FACTS_ON_DEMAND])
    files = Path(order.journal).with_suffix("")  # relative folders are removed with the run's
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
            lists_topics=False,
        ) as process:
            await run_client(part, process, lambda _in_flight: None, ending)


# Worlds whose verbs accept names of clients, too --------------------------------------


class WorldWithClients(RealWorld):
    """A base class in front of a world of real time; set ``clients`` before it starts."""

    clients: ClientProcesses

    @property
    def client_names(self) -> tuple[str, ...]:
        return self.clients.names

    def is_running(self, name: str) -> bool:
        if name in self.client_names:
            return self.clients.is_running(name)
        return super().is_running(name)  # type: ignore[safe-super]  # the next class has it

    def is_paused(self, name: str) -> bool:
        if name in self.client_names:
            return self.clients.is_paused(name)
        return super().is_paused(name)

    def start(self, *names: str) -> None:
        """Start nodes, then clients; on return nodes are ready, clients may still be starting."""
        clients = [name for name in names if name in self.client_names]
        if nodes := [name for name in names if name not in clients]:
            super().start(*nodes)  # type: ignore[safe-super]
        elif not names:
            super().start()  # type: ignore[safe-super]
        for name in clients:
            self.clients.start(name)
        self._faults.started(clients)

    def stop(self, *names: str) -> None:
        """Stop clients, then nodes; without names all nodes and no client."""
        for name in names:
            if name in self.client_names:
                self.clients.stop(name)
        nodes = [name for name in names if name not in self.client_names]
        if nodes or not names:
            super().stop(*nodes)  # type: ignore[safe-super]

    def kill(self, name: str) -> None:
        if name in self.client_names:
            self._faults.note_verb("kill", [name] if self.clients.is_running(name) else [])
            self.clients.kill(name)
        else:
            super().kill(name)  # type: ignore[safe-super]

    def pause(self, name: str) -> AbstractContextManager[None]:
        if name not in self.client_names:
            return super().pause(name)  # type: ignore[safe-super]
        was_paused = self.is_paused(name)
        self.clients.pause(name)
        self._faults.note_verb("pause", [] if was_paused else [name])
        return nullcontext() if was_paused else undone_by(self.resume, name)

    def resume(self, name: str) -> None:
        if name in self.client_names:
            self._faults.note_verb("resume", [name] if self.is_paused(name) else [])
            self.clients.resume(name)
        else:
            super().resume(name)  # type: ignore[safe-super]


class EmbeddedWithClients(WorldWithClients, EmbeddedCluster):
    """Nodes in a thread of this process, clients as processes."""


class ProcessesWithClients(WorldWithClients, ProcessCluster):
    """Nodes and clients as processes."""


def world_of(plan: Plan, kind: WorldKind, folder: Path, clients: ClientProcesses) -> RealWorld:
    """The cluster of *plan*, not started; its nodes are behind proxies if the plan needs them.

    Journals are written to *folder*.  Brokers that are processes have their stores there: their
    messages are still stored after a kill, as in the other worlds.
    """
    spec = cluster_spec_of(plan)
    has_links = any(isinstance(step.does, LinkFault | Lag) for step in plan.timeline)
    world: WorldWithClients
    if kind == "embedded":
        world = EmbeddedWithClients(spec, journal=str(folder), with_links=has_links)
    else:
        spec = msgspec.structs.replace(spec, store=str(folder / "store"))
        world = ProcessesWithClients(spec, journal=str(folder), with_links=has_links)
    world.clients = clients
    return world
