"""One node as an operating-system process, seen from its parent: configured, ready, ended.

A node writes a line of JSON to standard output when it is ready, and before that the progress
of reading a large store.  The last lines of a dead node are on its standard error.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from rocketmq_emulator.cluster.node_view import NodeCondition, NodeState, is_stopped_by_signal
from rocketmq_emulator.cluster.world import NotReady
from rocketmq_emulator.facts.logs import WARNINGS, LogSettings
from rocketmq_emulator.processes.spawning import spawn
from rocketmq_emulator.processes.starting import NodeProgress, NodeStart, left_out_in
from rocketmq_emulator.protocol.error_families import NobodyAnswered, public

if TYPE_CHECKING:
    from rocketmq_emulator.processes.roles import RoleConfig

Ending: TypeAlias = Literal["stop", "kill"]
OnProgress: TypeAlias = Callable[[str, NodeProgress], object]  # a node's name, its progress

ENDING_SIGNALS: Mapping[Ending, tuple[signal.Signals, ...]] = {
    "stop": (signal.SIGTERM, signal.SIGCONT),
    "kill": (signal.SIGKILL,),
}
PAUSE_S_MAX, PAUSE_POLL_S = 1.0, 0.001
READ_BYTES = 64 * 1024
ERROR_BYTES_MAX = 64 * 1024
LAST_LINES = 5
EXPECTED_CODES = (1, 2)  # of a node that wrote its error in one line


@public
class NodeDied(NobodyAnswered):
    """A node ended that should run; ``last_lines`` are the last of its standard error."""

    def __init__(self, name: str, code: int, last_lines: Sequence[str]) -> None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        is_explained = len(last_lines) == 1 and code in EXPECTED_CODES
        self.first_line = last_lines[0] if is_explained else f"{name} {how}"
        super().__init__("\n".join([self.first_line, *([] if is_explained else last_lines)]))
        self.name = name
        self.code = code
        self.last_lines = tuple(last_lines)


class NodeProcess:
    """A process that waits for its config, then serves, then ends.

    ``address`` is where it listens, once it is ready.  ``requested_end`` is set if its end was
    requested, so that it is not a failure.  Several threads may use one.
    """

    def __init__(
        self,
        role: str,
        name: str,
        journal: str = "",
        log: LogSettings = WARNINGS,
        skew_ms: int = 0,
    ) -> None:
        self.name = name
        self.role = role
        self.address = ""
        self.config: RoleConfig | None = None
        self.requested_end: Ending | None = None
        self.facts_left_out = 0  # of its journal, as far as it is known
        self.is_reported = False  # whether its death was returned by ``deaths``
        self._errors_read_to = 0
        self._files = threading.Lock()
        self.popen, self._errors = spawn(
            role, journal, "" if log == WARNINGS else msgspec.json.encode(log).decode(), skew_ms
        )

    @property
    def pid(self) -> int:
        """The process id, also after it has ended."""
        return self.popen.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; a paused process (SIGSTOP) runs."""
        return self.popen.poll() is None

    @property
    def is_end_requested(self) -> bool:
        """Whether its end was requested."""
        return self.requested_end is not None

    @property
    def condition(self) -> NodeCondition:
        """Whether it runs, is paused or has ended, and its exit code; by whatever cause."""
        if (code := self.popen.poll()) is None:
            state: NodeState = "running" if self.address else "starting"
            return NodeCondition("paused" if is_stopped_by_signal(self.pid) else state, self.pid)
        return NodeCondition(
            "stopped" if not code or self.requested_end == "stop" else "dead", None, code
        )

    def configure(self, config: RoleConfig) -> None:
        """Write its name and config to its standard input; a wait reports a node that has died."""
        self.config = config
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(b"%b %b\n" % (self.name.encode(), msgspec.json.encode(config)))
            self.popen.stdin.flush()
        except BrokenPipeError:
            self.popen.wait()

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.is_running:
            self.popen.send_signal(number)

    def end(self, how: Ending) -> None:
        """Send the ending signals once, if it runs: a second SIGTERM would end it at once."""
        if self.is_running and self.requested_end != how:
            self.requested_end = how
            for number in ENDING_SIGNALS[how]:
                self.signal(number)

    def pause(self) -> None:
        """Send SIGSTOP; done when the process is stopped."""
        self.signal(signal.SIGSTOP)
        until_s = time.monotonic() + PAUSE_S_MAX
        while is_stopped_by_signal(self.pid) is False and time.monotonic() < until_s:
            time.sleep(PAUSE_POLL_S)

    def resume(self) -> None:
        """Send SIGCONT."""
        self.signal(signal.SIGCONT)

    def read_facts_left_out(self) -> int:
        """How many facts a full disk left out of its journal: 1 at the first, all at its end."""
        assert self.popen.stdout is not None
        with self._files:
            if self.address and not self.popen.stdout.closed:
                os.set_blocking(self.popen.stdout.fileno(), False)
                with contextlib.suppress(BlockingIOError):
                    data = os.read(self.popen.stdout.fileno(), READ_BYTES)
                    self.facts_left_out = max(self.facts_left_out, left_out_in(data))
        return self.facts_left_out

    def log_lines(self) -> list[str]:
        """The lines it wrote to standard error since the last call."""
        with self._files:
            if self._errors.closed:
                return []
            # pread: the node, which writes to the file, shares its position.
            data = os.pread(self._errors.fileno(), ERROR_BYTES_MAX, self._errors_read_to)
            self._errors_read_to += len(data)
        return data.decode(errors="replace").splitlines()

    def last_lines(self) -> list[str]:
        """Its last lines on standard error, also after it has ended."""
        with self._files:
            return self._read_last_lines()

    def wait_ended(self, until_s: float) -> None:
        """Wait for its end until *until_s* of the monotonic clock, then kill it."""
        try:
            self.popen.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.read_facts_left_out()
        with self._files:
            self._read_last_lines()  # once more, before the file is closed
            for file in (self.popen.stdin, self.popen.stdout, self._errors):
                assert file is not None
                file.close()

    def _read_last_lines(self) -> list[str]:
        if not self._errors.closed:
            start = max(0, os.fstat(self._errors.fileno()).st_size - ERROR_BYTES_MAX)
            data = os.pread(self._errors.fileno(), ERROR_BYTES_MAX, start)
            self._last_lines = data.decode(errors="replace").splitlines()[-LAST_LINES:]
        return self._last_lines


def wait_all_ready(
    nodes: Sequence[NodeProcess], silence_s_max: float, on_progress: OnProgress
) -> None:
    """Wait until every node has written its address.  Raises ``NodeDied`` and ``NotReady``.

    *on_progress* is called with the name and the progress of a node that reads a large store.
    """
    began_s = time.monotonic()
    starts = {node.name: NodeStart(node.name, began_s, silence_s_max) for node in nodes}
    with selectors.DefaultSelector() as selector:
        for node in nodes:
            assert node.popen.stdout is not None
            selector.register(node.popen.stdout, selectors.EVENT_READ, node)
        while starts:
            silent_at_s = min(start.silent_at_s for start in starts.values())
            ready = selector.select(max(0.0, silent_at_s - time.monotonic()))
            if not ready and time.monotonic() >= silent_at_s:
                late = [start for start in starts.values() if start.silent_at_s <= silent_at_s]
                raise NotReady(silence_s_max, map(str, late))
            for key, _ in ready:
                node, start = key.data, starts[key.data.name]
                for progress in start.feed(_read_stdout(node), time.monotonic()):
                    on_progress(node.name, progress)
                if start.address:
                    node.facts_left_out = start.facts_left_out
                    node.address = start.address
                    del starts[node.name]
                    selector.unregister(key.fileobj)


def _read_stdout(node: NodeProcess) -> bytes:
    assert node.popen.stdout is not None
    if data := os.read(node.popen.stdout.fileno(), READ_BYTES):
        return data
    raise NodeDied(node.name, node.popen.wait(), node.last_lines())
