"""Nodes as operating-system processes, from the outside: how one is started.

Where it can be done (Linux) nodes are forked by a process that has loaded their code.  A command
that is about to want a cluster starts that process first, and reads its own arguments while it
loads.  A forked node is no child of ours: its end is read off a file that names the process
(pidfd), and its exit code off one that its parent writes.

This is loaded before anything else: only the standard library, and nothing slow.  The other end
of the socket is ``fork_server``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

CAN_FORK = hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")  # Linux
REPLY_BYTES_MAX = 64


class NoForks(Exception):
    """The process that forks is gone; nothing was started."""


class ForkedNode:
    """A node as ``subprocess.Popen`` would show it, as far as we use that."""

    def __init__(self, pid: int, pidfd: int, exit_code: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb")
        self._pidfd = pidfd
        self._exit_code = exit_code
        self._lock = threading.Lock()  # of what is closed at its end

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus the signal that ended it.  Raises ``TimeoutExpired``."""
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            pidfd = os.dup(self._pidfd)  # ours, while another thread may close that one
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        try:
            if not ended.poll(None if timeout is None else timeout * 1_000):
                raise subprocess.TimeoutExpired("node", timeout or 0.0)
        finally:
            os.close(pidfd)
        with self._lock:
            if self.returncode is None:
                text = os.read(self._exit_code, REPLY_BYTES_MAX)
                self.returncode = int(text) if text else -signal.SIGKILL  # nobody is left to say
                os.close(self._exit_code)
                os.close(self._pidfd)
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            with self._lock, contextlib.suppress(ProcessLookupError):
                if self.returncode is None:
                    signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkClient:
    """A process that forks others, which serves the other end of the socket *requests*.

    *wait* returns when that process has ended.
    """

    def __init__(self, requests: socket.socket, wait: Callable[[], object]) -> None:
        self.owner = os.getpid()
        self._requests = requests
        self._wait = wait
        self._lock = threading.Lock()

    def fork(self, arguments: Sequence[str], errors: IO[bytes]) -> ForkedNode:
        """A node with *arguments*, which writes to *errors*.  Raises ``NoForks``."""
        text = json.dumps({"arguments": [*arguments], "folder": os.getcwd()}).encode()  # noqa: PTH109  # pathlib is not loaded for this
        stdin_read, stdin_write = os.pipe()
        stdout_read, stdout_write = os.pipe()
        code_read, code_write = os.pipe()
        theirs = (stdin_read, stdout_write, errors.fileno(), code_write)
        try:
            pid, pidfd = self._asked(text, theirs)
        except OSError as error:
            for file in (stdin_write, stdout_read, code_read):
                os.close(file)
            raise NoForks from error
        finally:
            for file in (stdin_read, stdout_write, code_write):
                os.close(file)
        return ForkedNode(pid, pidfd, code_read, stdin_write, stdout_read)

    def close(self) -> None:
        """Let it end; its nodes go on as long as their standard input does."""
        self._requests.close()
        self._wait()

    def _asked(self, text: bytes, files: Sequence[int]) -> tuple[int, int]:
        with self._lock:
            socket.send_fds(self._requests, [text], files)
            reply, received, _, _ = socket.recv_fds(self._requests, REPLY_BYTES_MAX, 1)
        if not reply:
            raise ConnectionResetError("it has ended")
        return int(reply), received[0]


class NodeForkClient(ForkClient):
    """The process that forks, started now; it loads while we go on.

    *module* is what it runs: nodes', or another one that serves with ``processes.fork_server``.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        module: str = "rocketmq_emulator.processes.fork_server",
    ) -> None:
        requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                process_group=0,
            )
        super().__init__(requests, self._process.wait)


# Nodes --------------------------------------------------------------------------------


NODE = (sys.executable, "-P", "-m", "rocketmq_emulator.processes.node")


class Spawned(NamedTuple):
    """A process that loads its role, and the file its standard error goes to."""

    popen: subprocess.Popen[bytes] | ForkedNode
    errors: IO[bytes]


_forkers: list[NodeForkClient] = []  # at most one, started when the first node is wanted


def node_command(role: str, config: str, journal: str = "", log: str = "") -> list[str]:
    """What to execute for one role; it never looks for code in the current folder.

    *config* and *log* are JSON: the role's config struct, and ``LogSettings`` if not default.
    """
    return [*NODE, *_arguments(role, config, journal, log)]


def node_environment() -> dict[str, str]:
    """Ours, with this very copy of the code first in the path, wherever we stand."""
    root = str(Path(__file__).absolute().parents[2])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


def spawn(role: str, journal: str = "", log: str = "", skew_ms: int = 0) -> Spawned:
    """A node that waits for its config: forked where that can be done, else loading its code."""
    arguments = [*_arguments(role, "-", journal, log), "--with-parent"]
    arguments += ["--skew-ms", str(skew_ms)] if skew_ms else []
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as the node does
    if CAN_FORK:
        start_fork_server()
        try:
            return Spawned(_forkers[0].fork(arguments, errors), errors)
        except NoForks:
            stop_fork_server()  # the next node finds a new one
    return Spawned(_loading(arguments, errors), errors)


def start_fork_server() -> None:
    """Let the process load that forks nodes, where nodes can be forked."""
    if _forkers and _forkers[0].owner != os.getpid():
        _forkers.clear()  # we are a fork ourselves: it is somebody else's
    if CAN_FORK and not _forkers:
        _forkers.append(NodeForkClient(node_environment()))


@atexit.register
def stop_fork_server() -> None:
    """End that process; the nodes that it forked go on."""
    while _forkers:
        forker = _forkers.pop()
        if forker.owner == os.getpid():
            forker.close()


def _arguments(role: str, config: str, journal: str, log: str) -> list[str]:
    options = ["--journal", journal] if journal else []
    options += ["--log", log] if log else []
    return [role, config, *options]


def _loading(arguments: list[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
        [*NODE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=node_environment(),
        process_group=0,  # Ctrl-C in a terminal is for the parent, who stops us in order
    )
