"""One node in the thread of an embedded cluster: its runs, and the state that outlasts them.

A killed node is cancelled, and Python unwinds it: ``finally`` blocks run that a ``kill -9``
would not have run.  So each run has its own view of the disk and its own journal; both are
detached first, and writes of the unwinding code are dropped.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from rocketmq_emulator.clocks.clock import ClockError, WallClock
from rocketmq_emulator.cluster.worlds.pausable_tasks import PausableNursery, PausableTasks
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts.journal import Journal, JournalFile
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.processes.roles import RoleConfig, serve_role

if TYPE_CHECKING:
    from rocketmq_emulator.disk.files import RunSoon
    from rocketmq_emulator.disk.port import Disk, OnFlushed, Segment, Space


class DetachableDisk:
    """One run's view of a node's disk; after ``detach`` it changes nothing."""

    def __init__(self, disk: Disk) -> None:
        self.needs_flush = disk.needs_flush
        self._disk = disk
        self._is_detached = False

    def detach(self) -> None:
        """Drop all later writes, instead of passing them to the disk."""
        self._is_detached = True

    def space(self) -> Space | None:
        """As ``Disk.space``."""
        return self._disk.space()

    def segments(self) -> list[int]:
        """As ``Disk.segments``."""
        return self._disk.segments()

    def unexpected_files(self) -> list[tuple[str, str]]:
        """As ``Disk.unexpected_files``."""
        return self._disk.unexpected_files()

    def open_segment(self, base: int, size: int) -> Segment:
        """As ``Disk.open_segment``."""
        return self._disk.open_segment(base, size)

    def remove_segment(self, base: int) -> None:
        """As ``Disk.remove_segment``, while attached."""
        if not self._is_detached:
            self._disk.remove_segment(base)

    def read(self, name: str) -> bytes | None:
        """As ``Disk.read``."""
        return self._disk.read(name)

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """As ``Disk.replace``, while attached."""
        if not self._is_detached:
            self._disk.replace(name, data, flushed=flushed)

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """As ``Disk.append``, while attached."""
        if not self._is_detached:
            self._disk.append(name, data, flushed=flushed)

    def flush(self, upto: int, on_done: OnFlushed) -> None:
        """As ``Disk.flush``, while attached; once detached, ``on_done`` is not called."""

        def report(result: int | OSError) -> None:
            if not self._is_detached:
                on_done(result)

        if not self._is_detached:
            self._disk.flush(upto, report)

    def cut(self, position: int) -> None:
        """As ``Disk.cut``, while attached."""
        if not self._is_detached:
            self._disk.cut(position)

    def close(self) -> None:
        """As ``Disk.close``."""
        self._disk.close()


class NodeRun:
    """One run of a node, from a start to its end."""

    def __init__(
        self, disk: Disk, flush_reports: FlushReports, journal: Journal, scope: trio.CancelScope
    ) -> None:
        self.disk = DetachableDisk(disk)
        self.flush_reports = flush_reports
        self.journal = journal
        self.scope = scope
        self.tasks = PausableTasks()
        self.stop = trio.Event()
        self.ended = trio.Event()


class FlushReports:
    """Reports of the flushing thread to a node, held while the node is paused."""

    def __init__(self, soon: RunSoon) -> None:
        self._soon = soon
        self._is_paused = False
        self._held: list[Callable[[], object]] = []

    def deliver(self, action: Callable[[], object]) -> None:
        """Call *action* in the loop, once the node is not paused; from any thread."""
        self._soon(lambda: self._held.append(action) if self._is_paused else action())

    def pause(self) -> None:
        """Hold all later reports."""
        self._is_paused = True

    def resume(self) -> None:
        """Deliver the held reports now, in their order."""
        self._is_paused = False
        held, self._held = self._held, []
        for action in held:
            action()


class Readiness(trio.TaskStatus[str]):
    """Passes a node's address to the node first, then to the caller that starts it."""

    def __init__(
        self, on_ready: Callable[[str], object], task_status: trio.TaskStatus[str]
    ) -> None:
        self._on_ready = on_ready
        self._task_status = task_status

    def started(self, value: str) -> None:
        """Report that the node listens at *value*."""
        self._on_ready(value)
        self._task_status.started(value)


class EmbeddedNode:
    """A role with its config.  *file* takes journal lines; *log* attaches a log to a journal.

    Its address, its clock error and, without a store, its memory disk outlast its runs.
    """

    def __init__(
        self,
        name: str,
        config: RoleConfig,
        file: JournalFile | None,
        log: Callable[[Journal], None],
    ) -> None:
        self.name = name
        self.address = ""  # empty until it was ready once
        self.config = config  # of the present run, or the next
        self._file = file
        self._log = log
        self._memory = MemoryDisk()
        self._clock: WallClock | None = None
        self._clock_error = ClockError()
        self._node_run: NodeRun | None = None
        self._is_ready = False
        self.was_killed = False  # the last run
        self._left_out = 0  # of the journals of runs that have ended

    @property
    def facts_left_out(self) -> int:
        """How many facts a full disk left out of its journal, in all its runs."""
        life = self._node_run
        return self._left_out + (life.journal.left_out if life is not None else 0)

    @property
    def is_running(self) -> bool:
        """Whether it is ready and has not ended."""
        return self._is_ready

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._node_run is not None and self._node_run.tasks.is_paused

    @property
    def is_alive(self) -> bool:
        """Whether it has begun and not ended; it may not be ready yet."""
        return self._node_run is not None

    async def serve(self, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """One run, until ``stop`` or ``kill``; *task_status* gets its address when it is ready."""
        self.was_killed = False
        if self.address:
            self.config = msgspec.structs.replace(self.config, listen_address=self.address)
        with contextlib.ExitStack() as closing:
            disk: Disk = self._memory
            flush_reports = FlushReports(trio.lowlevel.current_trio_token().run_sync_soon)
            if self.config.store:
                files = FileDisk(self.config.store, flush_reports.deliver)
                disk = closing.enter_context(contextlib.closing(files))
            clock = self._clock = WallClock.of_this_machine()
            clock.error = self._clock_error
            journal = Journal.to_file(self.name, clock, self._file)
            self._log(journal)
            # One nursery, none nested in it: a start takes few milliseconds, and each counts.
            async with trio.open_nursery() as nursery:
                life = self._node_run = NodeRun(disk, flush_reports, journal, nursery.cancel_scope)
                closing.callback(self._end, life)
                serve = partial(
                    serve_role,
                    self.config,
                    network=TcpNetwork(PausableNursery(nursery, life.tasks), journal.note),
                    disk=life.disk,
                    clock=clock,
                    rng=random.Random(),
                    journal=journal,
                    stop=life.stop,
                    open_nursery=life.tasks.open_nursery,
                    task_status=Readiness(self._ready, task_status),
                )
                await life.tasks.run(serve)
                nursery.cancel_scope.cancel()

    async def stop(self, within_s: float) -> None:
        """Request an orderly end, and kill the node if it has not ended after *within_s*."""
        if self._node_run is None:
            return
        self.resume()
        self._node_run.stop.set()
        with trio.move_on_after(within_s):
            await self._node_run.ended.wait()
        await self.kill()

    async def kill(self) -> None:
        """Cancel it and close its sockets, after its disk and its journal were detached."""
        if (life := self._node_run) is None:
            return
        self.was_killed = not life.stop.is_set()
        life.journal.close()
        life.disk.detach()
        life.scope.cancel()
        self.resume()
        await life.ended.wait()

    def pause(self) -> None:
        """Stop running its tasks; sockets stay open, deadlines pass, its clock goes on."""
        if self._node_run is not None:
            self._node_run.flush_reports.pause()
            self._node_run.tasks.pause()

    def resume(self) -> None:
        """Run its tasks again; they then handle all that arrived meanwhile."""
        if self._node_run is not None:
            self._node_run.flush_reports.resume()
            self._node_run.tasks.resume()

    def set_clock(self, error: ClockError) -> None:
        """Set the error of its wall clock, for this run and later ones."""
        self._clock_error = error
        if self._clock is not None:
            self._clock.error = error

    def _ready(self, address: str) -> None:
        self.address = address
        self._is_ready = True

    def _end(self, life: NodeRun) -> None:
        life.journal.close()
        self._left_out += life.journal.left_out
        self._node_run = None
        self._is_ready = False
        life.ended.set()
