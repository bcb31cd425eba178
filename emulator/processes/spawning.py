"""Starts nodes as operating-system processes.

On Linux nodes are forked by a process that has loaded their code, the fork server.  A command
that needs a cluster starts that process first, and parses its own arguments while it loads.  A
forked node is not our child: its pidfd shows its end, and its parent writes its exit code to a
file.

Commands load this module first, so it imports only fast modules of the standard library.  The
other end of the socket is ``fork_server``.
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
    """The fork server has ended; no node was started."""


class ForkedNode:
    """A forked node, with the members of ``subprocess.Popen`` that are used here."""

    def __init__(self, pid: int, pidfd: int, exit_code: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb")
        self._pidfd = pidfd
        self._exit_code = exit_code
        self._lock = threading.Lock()  # for the files that are closed at its end

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus the signal that ended it.  Raises ``TimeoutExpired``."""
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            pidfd = os.dup(self._pidfd)  # our copy: another thread may close the original
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
                self.returncode = int(text) if text else -signal.SIGKILL  # its parent has ended
                os.close(self._exit_code)
                os.close(self._pidfd)
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send the signal, unless the node has ended."""
        if self.poll() is None:
            with self._lock, contextlib.suppress(ProcessLookupError):
                if self.returncode is None:
                    signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkClient:
    """The client of a fork server, which has the other end of the socket *requests*.

    *wait* returns when the fork server has ended.
    """

    def __init__(self, requests: socket.socket, wait: Callable[[], object]) -> None:
        self.owner = os.getpid()
        self._requests = requests
        self._wait = wait
        self._lock = threading.Lock()

    def fork(self, arguments: Sequence[str], errors: IO[bytes]) -> ForkedNode:
        """Fork a node with *arguments*; its standard error is *errors*.  Raises ``NoForks``."""
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
        """End the fork server; its nodes run until their standard input closes."""
        self._requests.close()
        self._wait()

    def _asked(self, text: bytes, files: Sequence[int]) -> tuple[int, int]:
        with self._lock:
            socket.send_fds(self._requests, [text], files)
            reply, received, _, _ = socket.recv_fds(self._requests, REPLY_BYTES_MAX, 1)
        if not reply:
            raise ConnectionResetError("the fork server has ended")
        return int(reply), received[0]


class NodeForkClient(ForkClient):
    """Starts a fork server, which loads its code while the caller goes on.

    *module* is its main module: that of nodes, or another one that runs a ``ForkServer``.
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
    """A process that loads its role, and the file of its standard error."""

    popen: subprocess.Popen[bytes] | ForkedNode
    errors: IO[bytes]


_forkers: list[NodeForkClient] = []  # at most one, started for the first node


def node_command(
    role: str, config: str, journal: str = "", log: str = "", controller: str = ""
) -> list[str]:
    """The command line of one role; it never imports code from the current folder.

    *config*, *log* and *controller* are JSON: the role's config struct, ``LogSettings`` if not
    default, and the config of a controller in the same process.
    """
    beside = ["--controller", controller] if controller else []
    return [*NODE, *_arguments(role, config, journal, log), *beside]


def node_environment() -> dict[str, str]:
    """Our environment, with the folder of this code first in PYTHONPATH."""
    root = str(Path(__file__).absolute().parents[2])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


def spawn(role: str, journal: str = "", log: str = "", skew_ms: int = 0) -> Spawned:
    """Start a node that waits for its config: forked if possible, else by a new interpreter."""
    arguments = [*_arguments(role, "-", journal, log), "--with-parent"]
    arguments += ["--skew-ms", str(skew_ms)] if skew_ms else []
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the node
    if CAN_FORK:
        start_fork_server()
        try:
            return Spawned(_forkers[0].fork(arguments, errors), errors)
        except NoForks:
            stop_fork_server()  # the next node starts a new one
    return Spawned(_loading(arguments, errors), errors)


def start_fork_server() -> None:
    """Start the fork server, if there is none and nodes can be forked."""
    if _forkers and _forkers[0].owner != os.getpid():
        _forkers.clear()  # this process is a fork: the fork server is its parent's
    if CAN_FORK and not _forkers:
        _forkers.append(NodeForkClient(node_environment()))


@atexit.register
def stop_fork_server() -> None:
    """End the fork server; the nodes that it forked go on."""
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
        process_group=0,  # Ctrl-C in a terminal is for the parent, which stops the node in order
    )
