"""Runs one plan in a world of real time: a plan of a minute takes a minute.

Nodes use TCP, embedded or as processes, and clients are processes (``client_processes``).  The
journals of nodes, of clients and of the run itself are files of one folder, which are read during
the run.  At its end they are merged into one journal, which is cut at the end of the run and
judged as in any world.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import msgspec
import trio

from rocketmq_emulator.admin.calls import Admin, admin_over_tcp
from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import entries_in
from rocketmq_emulator.cluster.faults.real_time_faults import SystemClock
from rocketmq_emulator.facts import RunEnded
from rocketmq_emulator.facts.journal import WORLD_NODE, Entry
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.spawning import stop_fork_server
from rocketmq_emulator.processes.stopping import calling_on_stop
from rocketmq_emulator.scenarios.plan.result import code_version, result_of, started
from rocketmq_emulator.scenarios.running.client_processes import (
    ClientDied,
    ClientProcesses,
    world_of,
)
from rocketmq_emulator.scenarios.running.client_specs import MemberSpec, ProducerSpec
from rocketmq_emulator.scenarios.running.environment import RunEnvironment
from rocketmq_emulator.scenarios.running.runner import PlanRunner, waiting_summary
from rocketmq_emulator.scenarios.running.virtual_run import LimitExceeded, text_of

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.worlds.real_world import RealWorld
    from rocketmq_emulator.processes.spawning import ForkClient
    from rocketmq_emulator.scenarios.plan.plan import Plan
    from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
    from rocketmq_emulator.scenarios.running.client_specs import AnyClientSpec


POLL_INTERVAL_S = 0.05


class RunStopped(Exception):
    """SIGTERM has ended the run: the process that ordered the run stops it so."""


def finished_real_run(order: RunOrder, forker: ForkClient) -> tuple[RunResult, list[Entry]]:
    """Run and judge the plan of *order*; returns the row and the journal.

    Any error during the run is a row with the verdict ``error``.
    """
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rmqemu-run-") as folder:
        run = RealRun(order, Path(folder), forker)
        run.run()
    entries = run.journal()
    result = result_of(
        order.plan,
        run.began,
        run.ended,
        judge(entries),
        run_s=(entries[-1].mono_us - entries[0].mono_us) / 1_000_000,
        took_s=time.perf_counter() - began_s,
    )
    return result, entries


class RealRun:
    """One run; ``began`` is the first fact of its journal, ``ended`` the last."""

    def __init__(self, order: RunOrder, folder: Path, forker: ForkClient) -> None:
        self.began = started(order.plan, order.seed, order.world, code_version())
        self.ended = RunEnded("error", "it has not begun")
        self._unrest = ""
        self._order = order
        self._limits = order.plan.limits
        self._forker = forker
        self._folder = folder
        self._following = JournalFollower(folder)
        self._entries: list[Entry] = []

    def run(self) -> None:
        """Run until the end, also after an error: then ``ended`` has the reason.

        On return no node and no client of the run is running.
        """
        order = self._order
        with ExitStack() as closing:
            closing.callback(self._following.close)
            closing.callback(stop_fork_server)  # that of nodes, if it was started
            closing.callback(self._forker.close)
            clients = ClientProcesses(self._forker, self._folder)
            world = world_of(order.plan, order.world, self._folder, clients)
            environment = RealEnvironment(order.plan, world, clients, closing)
            closing.callback(clients.kill_all)
            environment.note(self.began)
            try:
                trio.run(self._run_until_signal, environment)
            except RunStopped:
                self._close(environment, "interrupted", "a signal ended it")
            except LimitExceeded as error:
                self._close(environment, "limit", str(error))
            except ClientDied as error:
                self._close(environment, "error", str(error))
            except Exception as error:  # noqa: BLE001  # any defect, of a program or ours, is a row
                self._close(environment, "error", text_of(error))
            else:
                self._close(environment, "finished", self._unrest)
            clients.kill_all()

    def journal(self) -> list[Entry]:
        """All entries by time, up to the end of the run."""
        entries = by_time(self._entries)
        ends = [
            at
            for at, entry in enumerate(entries)
            if entry.node == WORLD_NODE and isinstance(entry.fact, RunEnded)
        ]
        return entries[: ends[0] + 1]

    async def _run_until_signal(self, environment: RealEnvironment) -> None:
        told = trio.Event()
        loop = trio.lowlevel.current_trio_token()
        with calling_on_stop(lambda: loop.run_sync_soon(told.set)):
            async with cancelling_nursery() as nursery:
                nursery.start_soon(self._live, environment, nursery.cancel_scope)
                await told.wait()
                raise RunStopped

    async def _live(self, environment: RealEnvironment, scope: trio.CancelScope) -> None:
        runner = PlanRunner(environment, self._order.seed)
        async with cancelling_nursery() as nursery:
            nursery.start_soon(self._follow, environment, runner)
            await runner.run()
            self._unrest = runner.unrest
            scope.cancel()

    async def _follow(self, environment: RealEnvironment, runner: PlanRunner) -> None:
        """Read new entries; end the run if a node or client ended by itself, or at a limit."""
        began_s = trio.current_time()
        while True:
            self._read(environment)
            environment.check()
            passed_s = trio.current_time() - began_s
            limit = ""
            if len(self._entries) >= self._limits.facts_max:
                limit = f"{self._limits.facts_max:,} facts (limits.facts_max)"
            elif passed_s >= self._limits.virtual_s_max:
                limit = f"{self._limits.virtual_s_max:g} s (limits.virtual_s_max)"
            if limit:
                waits = waiting_summary(environment, runner)
                raise LimitExceeded(f"it passed {limit} at {passed_s:.0f} s. {waits}")
            await trio.sleep(POLL_INTERVAL_S)

    def _read(self, environment: RealEnvironment) -> None:
        for entry in self._following.read():
            self._entries.append(entry)
            environment.watch.take(entry)

    def _close(
        self,
        environment: RealEnvironment,
        reason: Literal["finished", "limit", "error", "interrupted"],
        detail: str,
    ) -> None:
        self.ended = RunEnded(reason, detail)
        environment.note(self.ended)
        self._read(environment)


# Nodes on TCP, clients as processes ---------------------------------------------------


class RealEnvironment(RunEnvironment):
    """A world of real time and its client processes; *closing* ends the world."""

    def __init__(
        self, plan: Plan, world: RealWorld, clients: ClientProcesses, closing: ExitStack
    ) -> None:
        super().__init__(plan, world)
        self._cluster = world
        self._clients = clients
        self._closing = closing
        self._clock = SystemClock()

    def mono_us(self) -> int:
        return self._clock.mono_us()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def start_cluster(self) -> None:
        # in a thread: a world of real time blocks until its nodes are ready
        await trio.to_thread.run_sync(self._closing.enter_context, self._cluster)

    def admin(self) -> AbstractAsyncContextManager[Admin]:
        return admin_over_tcp(self._cluster.namesrv)

    async def start_client(self, part: AnyClientSpec) -> None:
        """Start a client process; its instance name is its name, by which proxies know it."""
        self._clients.enter(_with_name(part))

    def client_has_ended(self, name: str) -> bool:
        return not self._clients.is_running(name)

    def open_work(self) -> dict[str, str]:
        """Always empty: the clients are other processes."""
        return {}

    def check(self) -> None:
        """Raises the error of a client or node that ended by itself."""
        self._clients.check()
        for died in self._cluster.deaths():
            raise died


def _with_name(part: AnyClientSpec) -> AnyClientSpec:
    """*part* whose client has its name as instance name, unless the plan sets another."""
    own = {"instance_name": part.name}
    match part:
        case MemberSpec(consumers=plan):
            named = msgspec.structs.replace(plan, settings=own | plan.settings)
            return msgspec.structs.replace(part, consumers=named)
        case ProducerSpec(load=load):
            load = msgspec.structs.replace(load, settings=own | load.settings)
            return msgspec.structs.replace(part, load=load)
        case _:
            return part


# Journals in files that grow ----------------------------------------------------------


class JournalFollower:
    """Reads the journals of *folder* as they grow; files may be added later.  ``close`` it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, IO[bytes]] = {}
        self._partial_lines: dict[Path, bytes] = {}  # a line whose end is not written yet

    def read(self) -> list[Entry]:
        """The entries written since the last call, by time.  Raises ``BadJournal``.

        Entries that two nodes wrote at the same moment may be in two calls, in the wrong order.
        """
        return by_time(
            entry
            for path in sorted(self._folder.glob("*.jsonl"))
            for entry in entries_in(self._lines(path), str(path))
        )

    def close(self) -> None:
        """Close the journals' files."""
        for file in self._files.values():
            file.close()

    def _lines(self, path: Path) -> list[bytes]:
        if path not in self._files:
            self._files[path] = path.open("rb")
        data = self._partial_lines.pop(path, b"") + self._files[path].read()
        *lines, self._partial_lines[path] = data.split(b"\n")
        return lines


def by_time(entries: Iterator[Entry] | list[Entry]) -> list[Entry]:
    """*entries* in one order: by monotonic time, then by node and number."""
    return sorted(entries, key=lambda entry: (entry.mono_us, entry.node, entry.seq))
