"""A cluster of operating-system processes, one per node.

All nodes are started at once and load their code at the same time; each gets its config
as a line on standard input as soon as it is known: a broker's when the NameServers listen.
So no port is guessed, and no node waits longer than needed.  The pipe stays open: when the
parent dies, in whatever way, its nodes end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

import msgspec

from rocketmq_emulator.cluster.node_view import NodeCondition
from rocketmq_emulator.cluster.spec import checked_spec
from rocketmq_emulator.cluster.world import START_S_MAX, STOP_S_MAX, ClusterEnded, undone_by
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.facts.logs import WARNINGS, LogSettings
from rocketmq_emulator.processes.node_process import (
    Ending,
    NodeDied,
    NodeProcess,
    OnProgress,
    wait_all_ready,
)

if TYPE_CHECKING:
    from types import TracebackType

    from rocketmq_emulator.cluster.spec import ClusterFields, ClusterSpec
    from rocketmq_emulator.processes.roles import RoleConfig


class ProcessCluster(RealWorld):
    """A cluster of processes that runs inside ``with ProcessCluster(spec) as cluster:``.

    Give a whole *spec*, or single fields of ``ClusterSpec`` by name; settings may have
    RocketMQ's names.
    Raises ``NodeDied`` and ``NotReady``.  *journal* is a folder: one file of facts per node.
    *log* selects the lines that the nodes write to standard error.  *control* is the port of
    a control address, 0 means any.  *with_links* puts a proxy in front of each node, for faults
    of links.  *on_progress* is called while a node reads a large store.  With *strict* the block
    ends with ``MisusesFound`` if clients made likely mistakes.  ``ready_s`` is the duration of the
    start in seconds.
    """

    kind = "processes"
    keeps_memory = False

    def __init__(
        self,
        spec: ClusterSpec | None = None,
        *,
        journal: str = "",
        log: LogSettings = WARNINGS,
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
        self._journal = journal
        self._log = log
        self._on_progress = on_progress or _ignore_progress
        self._nodes: dict[str, NodeProcess] = {}  # the latest process of each node
        self._configs: dict[str, RoleConfig] = {}  # of ready nodes, with bound addresses
        self._left_out: Counter[str] = Counter()  # by node, of its earlier processes
        self._late_skews: set[str] = set()  # nodes whose clock is set when they are resumed
        self._is_over = False

    def __enter__(self) -> Self:
        began_s = time.monotonic()
        self._is_over = False
        try:
            self._open_links()
            self.start()
            self._open_wanted_control()
        except BaseException:
            self._close_control()
            self.stop()
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
            self._check_if_strict(kind)
        finally:
            self._close_control()
            self._faults.close()
            self._is_over = True
            self.stop()
            self._close_links()

    # Its nodes ------------------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, str]:
        """The address of every node that was ready once, ``host:port`` by name."""
        return {name: config.listen_address for name, config in self._configs.items()}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by node name."""
        return {name: node.pid for name, node in self._nodes.items()}

    def is_running(self, name: str) -> bool:
        return name in self._nodes and self._nodes[name].is_running

    def check_alive(self) -> None:
        """Raises ``NodeDied`` for a node that ended and was not stopped."""
        for node in self._dead():
            raise _death_of(node)

    def deaths(self) -> list[NodeDied]:
        """Nodes that ended by a signal or by an error of their own; each is reported once."""
        new = [node for node in self._dead() if not node.is_reported]
        for node in new:
            node.is_reported = True
        return [_death_of(node) for node in new]

    def log_lines(self) -> list[str]:
        """New log lines of nodes that run: warnings, or those that *log* selects."""
        return [
            line
            for node in [*self._nodes.values()]
            if not node.is_end_requested
            for line in node.log_lines()
        ]

    def _nodes_left_out(self) -> dict[str, int]:
        nodes = [*self._nodes.items()]
        return {name: self._left_out[name] + node.read_facts_left_out() for name, node in nodes}

    # Verbs ----------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Start all processes at once: brokers load while the NameServers get ready.

        Slaves load meanwhile, too, but begin when the masters are registered: then their own
        first registration is answered with their master.
        """
        with self._locked(wanted := self._named(*names)):
            down = [name for name in wanted if not self.is_running(name)]
            self._start(down)
            self._faults.started(down)

    def _start(self, down: list[str]) -> None:
        if self._journal:
            Path(self._journal).mkdir(parents=True, exist_ok=True)
        servers = [name for name in down if name in self.spec.name_server_names]
        controllers = [name for name in down if name in self.spec.controller_names]
        masters = [name for name in down if name in self.spec.master_names]
        slaves = [name for name in down if name in self.spec.slave_names]
        for name in servers:
            self._spawn("nameserver", name).configure(self._config(name))
        for name in controllers:
            self._spawn("controller", name).configure(self._config(name))
        for name in (*masters, *slaves):
            self._spawn("broker", name)
        self._wait_ready([*servers, *controllers])
        self._announce_control(servers)
        for names in (masters, slaves):
            for name in names:
                self._nodes[name].configure(self._config(name))
            self._wait_ready(names)

    def stop(self, *names: str) -> None:
        """Send SIGTERM to the brokers, then to the NameServers."""
        chosen = self._named(*names)
        for server in self._of(name for name in self.spec.name_server_names if name in chosen):
            server.resume()  # brokers unregister there
        for group in reversed(self.spec.start_groups):
            self._end([name for name in group if name in chosen], "stop")

    def kill(self, name: str) -> None:
        """Send SIGKILL; done when the process is dead."""
        names = self._named(name)
        self._faults.note_verb("kill", [each for each in names if self.is_running(each)])
        self._end(names, "kill")

    def pause(self, name: str) -> AbstractContextManager[None]:
        """Send SIGSTOP."""
        with self._locked(names := self._named(name)):
            running = [each for each in names if self._condition(each).state == "running"]
            for node in self._of(names):
                node.pause()
            self._faults.note_verb("pause", running)
        return undone_by(self.resume, name) if running else nullcontext()

    def resume(self, name: str) -> None:
        """Send SIGCONT, and set the clock error that the node missed while it was paused."""
        with self._locked(names := self._named(name)):
            self._faults.note_verb("resume", [each for each in names if self.is_paused(each)])
            for node in self._of(names):
                node.resume()
            if name in self._late_skews and self.is_running(name):
                self._set_clock(name)
            self._faults.resumed(name)

    def skew_clock(self, name: str, ms: int) -> AbstractContextManager[None]:
        """Send the error to a running node; to a paused one when it is resumed.

        Raises ``ReplyRuleRefused`` if the node does not allow it.
        """
        before_ms = self._skews_ms.get(name, 0)
        for known in self._named(name):
            with self._locked([known]):
                self._skews_ms[known] = ms
                try:
                    self._set_clock(known)
                except Exception:
                    self._skews_ms[known] = before_ms  # nothing was changed
                    raise
        return undone_by(self.skew_clock, name, before_ms)

    def _reset_clocks(self) -> None:
        self._skews_ms.clear()  # for later starts: a reset node corrects its own clock

    # Inside ---------------------------------------------------------------------------

    def _set_clock(self, name: str) -> None:
        if self.is_paused(name):
            self._late_skews.add(name)
            return
        self._late_skews.discard(name)
        if self.is_running(name):
            from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

            self.call_server(name, reply_rules.set_clock_skew(*self._clock_of(name)))

    def _clock_of(self, name: str) -> tuple[int, int, int]:
        """The fields of a ``ClockError``, whose module is loaded only for a wrong clock."""
        skew_ms, fault = self._skews_ms.get(name, 0), self._clock_faults.get(name)
        if fault is None:
            return skew_ms, 0, 0
        return skew_ms + fault.skew_ms, fault.drift_ppm, fault.since_ms

    def _condition(self, name: str) -> NodeCondition:
        node = self._nodes.get(name)
        return node.condition if node is not None else NodeCondition("stopped")

    def _dead(self) -> list[NodeProcess]:
        nodes = [*self._nodes.values()]
        return [node for node in nodes if not node.is_running and not node.is_end_requested]

    def _end(self, names: Sequence[str], how: Ending) -> None:
        """End these nodes; a start of them in another thread fails at once instead of waiting."""
        for node in self._of(names):
            node.end(how)
        until_s = time.monotonic() + STOP_S_MAX
        with self._locked(names):
            for node in self._of(names):
                node.end(how)  # a restart may have begun a new process meanwhile
            for node in self._of(names):
                node.wait_ended(until_s)
                self._node_is_down(node.name)

    def _spawn(self, role: str, name: str) -> NodeProcess:
        if self._is_over:
            raise ClusterEnded("the cluster has ended")
        if (dead := self._nodes.get(name)) is not None:
            dead.wait_ended(time.monotonic())  # if it died by itself, its files are still open
            self._left_out[name] += dead.facts_left_out
        journal = str(Path(self._journal) / f"{name}.jsonl") if self._journal else ""
        skew_ms = self._clock_of(name)[0]  # a drift is set once it runs
        self._late_skews.discard(name)
        node = self._nodes[name] = NodeProcess(role, name, journal, self._log, skew_ms)
        return node

    def _wait_ready(self, names: list[str]) -> None:
        nodes = self._of(names)
        wait_all_ready(nodes, START_S_MAX, self._on_progress)
        for node in nodes:
            assert node.config is not None
            config = msgspec.structs.replace(node.config, listen_address=node.address)
            self._configs[node.name] = config
            self._node_is_up(node.name)

    def _config(self, name: str) -> RoleConfig:
        """The config of its last run, or the spec's; a broker's needs ready NameServers."""
        if name in self._configs:
            return self._as_advertised(name, self._configs[name])
        if name in self.spec.name_server_names:
            return self._behind_proxies(name, self.spec.name_server_config(name))
        if name in self.spec.controller_names:
            return self.spec.controller_config(name, self._controllers_of_group())
        config = self.spec.broker_config(name, self._name_servers, self._controllers)
        return self._as_advertised(name, self._behind_proxies(name, config))

    def _of(self, names: Iterable[str]) -> list[NodeProcess]:
        return [self._nodes[name] for name in names if name in self._nodes]


def _death_of(node: NodeProcess) -> NodeDied:
    return NodeDied(node.name, node.popen.wait(), node.last_lines())


def _ignore_progress(_name: str, _progress: object) -> None:
    """The default *on_progress*; progress renews the timeout without it."""
