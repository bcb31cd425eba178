"""A cluster of operating-system processes, one a node.

All nodes are started at once and load their code at the same time; each gets its config
as a line on standard input when that can be known: the brokers' as soon as the
NameServers have said where they listen.  So no port is guessed, and nothing waits that
need not.  That pipe stays open: when the parent dies, however it dies, its nodes end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from emulator.cluster.readiness import NodeDied, wait_all_ready
from emulator.cluster.spawning import dismiss, spawn

if TYPE_CHECKING:
    from types import TracebackType

    from emulator.cluster.roles import RoleConfig
    from emulator.cluster.spec import ClusterSpec

START_S_MAX = 30.0
STOP_S_MAX = 8.0
LAST_LINES = 5
ERROR_BYTES_MAX = 64 * 1024


class NodeProcess:
    """One node: a process that waits for its config, then serves, then ends."""

    def __init__(self, role: str, name: str, journal: str = "") -> None:
        self.name = name
        self.role = role
        self.address = ""
        self.config: RoleConfig | None = None
        self.is_meant_to_end = False
        self._heard_to = 0
        self.popen, self._errors = spawn(role, journal)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_running(self) -> bool:
        return self.popen.poll() is None

    def configure(self, config: RoleConfig) -> None:
        """Let it go on; one that has died already is found out when it is waited for."""
        self.config = config
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(msgspec.json.encode(config) + b"\n")
            self.popen.stdin.flush()
        except BrokenPipeError:
            self.popen.wait()

    def signal(self, number: int) -> None:
        if self.is_running:
            self.popen.send_signal(number)

    def complaints(self) -> list[str]:
        """What it said on standard error since this was asked last."""
        # pread, for the position in the file is shared with the node that writes there.
        data = os.pread(self._errors.fileno(), ERROR_BYTES_MAX, self._heard_to)
        self._heard_to += len(data)
        return data.decode(errors="replace").splitlines()

    def last_lines(self) -> list[str]:
        """What it said last on standard error, also after it has ended."""
        if not self._errors.closed:
            start = max(0, os.fstat(self._errors.fileno()).st_size - ERROR_BYTES_MAX)
            data = os.pread(self._errors.fileno(), ERROR_BYTES_MAX, start)
            self._last_lines = data.decode(errors="replace").splitlines()[-LAST_LINES:]
        return self._last_lines

    def wait_ended(self, until_s: float) -> None:
        """Wait for its end, and bring it about when time is up."""
        try:
            self.popen.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.last_lines()  # read once more, since the file goes
        for file in (self.popen.stdin, self.popen.stdout, self._errors):
            assert file is not None
            file.close()


class ProcessCluster:
    """``with ProcessCluster(spec) as cluster:`` all of it is ready inside, and gone after.

    Raises ``NodeDied`` and ``NotReady``.  *journal* is a folder: one file of facts a node.
    """

    def __init__(self, spec: ClusterSpec, *, journal: str = "") -> None:
        spec.check()
        self.spec = spec
        self.ready_s = 0.0
        self._journal = journal
        self._nodes: dict[str, NodeProcess] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # Life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start every node; they load while the caller does something else."""
        self._began_s = time.monotonic()
        if self._journal:
            Path(self._journal).mkdir(parents=True, exist_ok=True)
        for name in self.spec.name_server_names:
            self._start("nameserver", name).configure(self.spec.name_server_config(name))
        for name in self.spec.broker_names:
            self._start("broker", name)
        dismiss()

    def wait_ready(self) -> None:
        """Until every broker is in the route and accepts."""
        wait_all_ready(self._of(self.spec.name_server_names), START_S_MAX)
        brokers = self._of(self.spec.broker_names)
        for broker in brokers:
            broker.configure(self.spec.broker_config(broker.name, self._namesrv))
        wait_all_ready(brokers, START_S_MAX)
        self.ready_s = time.monotonic() - self._began_s

    def stop(self) -> None:
        """Ask the brokers, then the NameServers; insist after a while."""
        for names in (self.spec.broker_names, self.spec.name_server_names):
            nodes = self._of(names)
            for node in nodes:
                node.is_meant_to_end = True
                node.signal(signal.SIGCONT)
                node.signal(signal.SIGTERM)
            until_s = time.monotonic() + STOP_S_MAX
            for node in nodes:
                node.wait_ended(until_s)

    # What it is -----------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        return ";".join(self._namesrv)

    @property
    def brokers(self) -> dict[str, str]:
        return {node.name: node.address for node in self._of(self.spec.broker_names)}

    @property
    def pids(self) -> dict[str, int]:
        return {name: node.pid for name, node in self._nodes.items()}

    def check_alive(self) -> None:
        """Raises ``NodeDied`` for one that ended and was not asked to."""
        for node in self._nodes.values():
            if not node.is_running and not node.is_meant_to_end:
                raise NodeDied(node.name, node.popen.returncode, node.last_lines())

    def complaints(self) -> list[str]:
        """New lines of nodes that run and have something to say, a full disk for example."""
        return [
            line
            for node in self._nodes.values()
            if not node.is_meant_to_end
            for line in node.complaints()
        ]

    # What can be done to it -----------------------------------------------------------

    def kill(self, name: str) -> None:
        """SIGKILL; returns when it is dead."""
        node = self._nodes[name]
        node.is_meant_to_end = True
        node.signal(signal.SIGKILL)
        node.wait_ended(time.monotonic() + STOP_S_MAX)

    def pause(self, name: str) -> None:
        self._nodes[name].signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._nodes[name].signal(signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Kill it if it runs; start it where it listened before, on its store."""
        old = self._nodes[name]
        self.kill(name)
        assert old.config is not None, f"{name} was never ready"
        config = msgspec.structs.replace(old.config, listen_address=old.address)
        node = self._start(old.role, name)
        node.configure(config)
        wait_all_ready([node], START_S_MAX)

    def _start(self, role: str, name: str) -> NodeProcess:
        journal = str(Path(self._journal) / f"{name}.jsonl") if self._journal else ""
        node = self._nodes[name] = NodeProcess(role, name, journal)
        return node

    def _of(self, names: Iterable[str]) -> list[NodeProcess]:
        return [self._nodes[name] for name in names if name in self._nodes]

    @property
    def _namesrv(self) -> tuple[str, ...]:
        return tuple(node.address for node in self._of(self.spec.name_server_names))
