"""A whole cluster in one thread of this process, with a synchronous interface.

    with EmbeddedCluster(brokers=2) as cluster:
        use(cluster.namesrv)

The thread has its own ``trio.run`` and listens on TCP loopback, so any client can connect, from
this process or another.  Importing this module loads all code of the roles, so that a cluster
starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

import trio

import rocketmq_emulator.broker.service
import rocketmq_emulator.controller.service
import rocketmq_emulator.nameserver.service  # noqa: F401  # loaded now, so that starting takes no time
from rocketmq_emulator.clocks.clock import ClockError
from rocketmq_emulator.cluster.node_view import NodeCondition
from rocketmq_emulator.cluster.spec import checked_spec
from rocketmq_emulator.cluster.world import (
    START_S_MAX,
    STOP_S_MAX,
    ClusterEnded,
    NotReady,
    NotStarted,
    undone_by,
)
from rocketmq_emulator.cluster.worlds.embedded_node import EmbeddedNode
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.disk.line_file import LineFile
from rocketmq_emulator.facts import LogRecovering, ReplyRuleApplied, TimersRecovering
from rocketmq_emulator.facts.logs import LogSettings, log_to, log_to_application
from rocketmq_emulator.processes.node_process import NodeDied
from rocketmq_emulator.processes.process_errors import first_error
from rocketmq_emulator.processes.starting import NodeProgress

if TYPE_CHECKING:
    from types import TracebackType

    from rocketmq_emulator.cluster.spec import ClusterFields, ClusterSpec
    from rocketmq_emulator.facts.journal import Entry, Journal
    from rocketmq_emulator.processes.node_process import OnProgress
    from rocketmq_emulator.processes.roles import RoleConfig


class EmbeddedCluster(RealWorld):
    """A cluster that runs inside its ``with``.  ``__enter__`` raises the error of its start.

    Give a whole *spec*, or single fields of ``ClusterSpec`` by name; settings may have
    RocketMQ's names.
    *journal* is a folder: one file of facts per node.  With *log* its nodes' lines are kept for
    ``log_lines``; without, they go to the program's logger ``rocketmq_emulator``.  *control* is
    the port of a control address, 0 means any.  *with_links* puts a proxy in front of each node,
    for faults of links.  *on_progress* is called, in the cluster's thread, while a node reads a
    large store.  With *strict* the block ends with ``MisusesFound`` if clients made likely
    mistakes.  ``ready_s`` is the duration of the start in seconds.  Data that a node stored in
    memory outlasts its restarts.
    """

    kind = "embedded"
    keeps_memory = True

    def __init__(
        self,
        spec: ClusterSpec | None = None,
        *,
        journal: str = "",
        log: LogSettings | None = None,
        control: int | None = None,
        with_links: bool = False,
        on_progress: OnProgress | None = None,
        strict: bool = False,
        **fields: Unpack[ClusterFields],
    ) -> None:
        super().__init__(
            checked_spec(spec, fields),
            control,
            journal=journal,
            with_links=with_links,
            strict=strict,
        )
        self._on_progress = on_progress
        self._journal = journal
        self._log = log
        self._log_texts: list[str] = []
        self._start_scope = trio.CancelScope()  # of the last start
        self._files = contextlib.ExitStack()
        self._nodes: dict[str, EmbeddedNode] = {}
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stopping = trio.Event()
        self._runs = threading.Event()  # set when the loop runs, or has ended
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rocketmq", daemon=True)

    def __enter__(self) -> Self:
        began_s = time.monotonic()
        if self._thread.ident is not None:
            raise ClusterEnded("a cluster starts once: make another one, Cluster(…)")
        self._thread.start()
        try:
            self._wait_for_loop()
            self._open_links()
            self.start()
            self._open_wanted_control()
        except BaseException:
            self._close_control()
            self._end()
            self._close_links()
            raise
        self.ready_s = time.monotonic() - began_s
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._failure is None:
                self._check_if_strict(kind)
        finally:
            self._close_all()

    def _close_all(self) -> None:
        self._close_control()
        self._faults.close()
        try:
            if self._failure is None:
                self.stop()
        finally:
            self._end()
            self._close_links()

    # Its nodes ------------------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, str]:
        """The address of every node that was ready once, ``host:port`` by name."""
        return {name: node.address for name, node in self._nodes.items() if node.address}

    def is_running(self, name: str) -> bool:
        return name in self._nodes and self._nodes[name].is_running

    @property
    def pids(self) -> dict[str, int]:
        """The id of the one process, for every node."""
        return dict.fromkeys(self.node_names, os.getpid())

    def _nodes_left_out(self) -> dict[str, int]:
        return {name: node.facts_left_out for name, node in self._nodes.items()}

    def check_alive(self) -> None:
        """Raises the error that ended the cluster, if one did."""
        if self._failure is not None:
            raise self._failure

    def deaths(self) -> list[NodeDied]:
        """Always empty: a failed node ends the whole cluster.  Raises the error that ended it."""
        self.check_alive()
        return []

    def log_lines(self) -> list[str]:
        """New lines of the nodes' logs; empty without *log*."""
        texts, self._log_texts[:] = list(self._log_texts), []
        return "".join(texts).splitlines()

    # Verbs ----------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Start the nodes that do not run: NameServers, then brokers, those of a role at once."""
        with self._locked(wanted := self._named(*names)):
            down = [name for name in wanted if not self.is_running(name)]
            self._run_in_loop(self._start, down)
            self._announce_control(name for name in down if name in self.spec.name_server_names)
            self._faults.started(down)

    def stop(self, *names: str) -> None:
        """Stop each node in order; cancel its scope if it has not ended after 8 s."""
        self._run_in_loop(self._stop, [n for n in self._named(*names) if self.is_running(n)])

    def kill(self, name: str) -> None:
        """Cancel its scope; writes while its code unwinds do not reach its disk."""
        alive = [each for each in self._named(name) if self._is_alive(each)]
        self._faults.note_verb("kill", alive)
        self._run_in_loop(self._kill, alive)

    def pause(self, name: str) -> AbstractContextManager[None]:
        with self._locked(names := self._named(name)):
            running = [n for n in names if self.is_running(n) and not self.is_paused(n)]
            self._run_in_loop(self._pause, running)
            self._faults.note_verb("pause", running)
        return undone_by(self.resume, name) if running else contextlib.nullcontext()

    def resume(self, name: str) -> None:
        with self._locked(names := self._named(name)):
            self._faults.note_verb("resume", [n for n in names if self.is_paused(n)])
            self._run_in_loop(self._resume, [n for n in names if self.is_running(n)])
            self._faults.resumed(name)

    def skew_clock(self, name: str, ms: int) -> AbstractContextManager[None]:
        before_ms = self._skews_ms.get(name, 0)
        for known in self._named(name):
            self._skews_ms[known] = ms
            self._set_clock(known)
        return undone_by(self.skew_clock, name, before_ms)

    def _set_clock(self, name: str) -> None:
        if name in self._nodes:
            error = ClockError(self._skews_ms.get(name, 0))
            error = error.plus(self._clock_faults.get(name, ClockError()))
            self._nodes[name].set_clock(error)

    def _reset_clocks(self) -> None:
        for name in list(self._skews_ms):
            self.skew_clock(name, 0)
        self._skews_ms.clear()

    # In the thread --------------------------------------------------------------------

    def _run(self) -> None:
        with self._files:
            try:
                trio.run(self._run_until_closed)
            except BaseException as error:  # noqa: BLE001  # raised in the caller's thread
                self._failure = first_error(error)
            self._runs.set()

    async def _run_until_closed(self) -> None:
        """Runs the nodes; one that fails after its start ends the cluster."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            self._runs.set()
            try:
                await self._stopping.wait()
            finally:
                for node in self._nodes.values():
                    node.resume()  # a paused node would not notice that it is cancelled
            nursery.cancel_scope.cancel()

    async def _start(self, names: list[str]) -> None:
        with trio.move_on_after(START_S_MAX) as self._start_scope:
            for group in self.spec.start_groups:
                async with trio.open_nursery() as starting:
                    for name in group:
                        if name in names:
                            starting.start_soon(self._start_node, name)
        if self._start_scope.cancelled_caught:
            raise NotReady(START_S_MAX, [name for name in names if not self.is_running(name)])

    async def _start_node(self, name: str) -> None:
        assert self._nursery is not None
        if name not in self._nodes:
            config = self._config(name)
            node = EmbeddedNode(name, config, self._journal_file(name, config), self._attach_log)
            self._nodes[name] = node
            self._set_clock(name)
        node = self._nodes[name]
        node.config = self._as_advertised(name, node.config)
        try:
            await self._nursery.start(node.serve)
            self._node_is_up(name)
        except RuntimeError as error:
            if self._is_alive(name):
                raise
            # Another thread ended the node before it was ready.
            raise NodeDied(name, -signal.SIGKILL, ()) from error

    async def _stop(self, names: list[str]) -> None:
        for name in names:
            self._nodes[name].resume()
        for group in reversed(self.spec.start_groups):
            async with trio.open_nursery() as stopping:
                for name in group:
                    if name in names:
                        stopping.start_soon(self._nodes[name].stop, STOP_S_MAX)
        for name in names:
            self._node_is_down(name)

    async def _kill(self, names: list[str]) -> None:
        for name in names:
            await self._nodes[name].kill()
            self._node_is_down(name)

    async def _pause(self, names: list[str]) -> None:
        for name in names:
            self._nodes[name].pause()

    async def _resume(self, names: list[str]) -> None:
        for name in names:
            self._nodes[name].resume()

    # Inside ---------------------------------------------------------------------------

    def _condition(self, name: str) -> NodeCondition:
        node = self._nodes.get(name)
        if node is None or not node.is_alive:
            was_killed = node is not None and node.was_killed
            return NodeCondition("dead" if was_killed else "stopped")
        if node.is_paused:
            return NodeCondition("paused", os.getpid())
        return NodeCondition("running" if node.is_running else "starting", os.getpid())

    def _is_alive(self, name: str) -> bool:
        return name in self._nodes and self._nodes[name].is_alive

    def _wait_for_loop(self) -> None:
        if not self._runs.wait(START_S_MAX):
            raise NotReady(START_S_MAX, self.node_names)
        self.check_alive()

    def _run_in_loop(
        self, action: Callable[[list[str]], Awaitable[None]], names: list[str]
    ) -> None:
        """Run *action* for *names*, if any.  Raises its error, or that of the cluster."""
        if not names:
            return
        if self._token is None:
            raise NotStarted("the cluster does not run")
        try:
            if trio.lowlevel.in_trio_run():  # the caller is async, as a test can be
                self._run_from_helper_thread(action, names)
            else:
                trio.from_thread.run(action, names, trio_token=self._token)
        except trio.RunFinishedError:
            self._thread.join(STOP_S_MAX)
            self.check_alive()
            raise ClusterEnded("the cluster has ended") from None
        except BaseExceptionGroup as group:
            raise first_error(group) from group

    def _run_from_helper_thread(
        self, action: Callable[[list[str]], Awaitable[None]], names: list[str]
    ) -> None:
        """Blocks the caller's loop meanwhile, as any synchronous call in it does."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                trio.from_thread.run(action, names, trio_token=self._token)
            except BaseException as error:  # noqa: BLE001  # raised in the caller's thread
                raised.append(error)

        between = threading.Thread(target=run, name="rocketmq-call", daemon=True)
        between.start()
        between.join()
        if raised:
            raise raised[0]

    def _end(self) -> None:
        """End the thread and all nodes that still run."""
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._stopping.set)
        self._thread.join(STOP_S_MAX)

    def _config(self, name: str) -> RoleConfig:
        if name in self.spec.name_server_names:
            return self._behind_proxies(name, self.spec.name_server_config(name))
        if name in self.spec.controller_names:
            return self.spec.controller_config(name, self._controllers_of_group())
        config = self.spec.broker_config(name, self._name_servers, self._controllers)
        return self._behind_proxies(name, config)

    def _note_progress(self, entry: Entry) -> None:
        """Renew the start's timeout: a node that reads a large store makes progress."""
        self._start_scope.deadline = trio.current_time() + START_S_MAX
        assert isinstance(entry.fact, LogRecovering | TimersRecovering)
        if self._on_progress is not None:
            self._on_progress(entry.node, NodeProgress.of(entry.fact))

    def _attach_log(self, journal: Journal) -> None:
        journal.listen(self._faults.rule_applied, (ReplyRuleApplied,))
        journal.listen(self._note_progress, (LogRecovering, TimersRecovering))
        if self._log is None:
            log_to_application(journal)
        else:
            log_to(journal, self._log_texts.append, self._log)

    def _journal_file(self, name: str, config: RoleConfig) -> LineFile | None:
        if not self._journal:
            return None
        folder = Path(self._journal)
        folder.mkdir(parents=True, exist_ok=True)
        file = LineFile(
            folder / f"{name}.jsonl",
            bytes_max=config.journal_bytes_max,
            files_max=config.journal_files_max,
        )
        self._files.callback(file.close)
        return file
