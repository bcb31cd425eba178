"""Nodes forked by a process that has loaded everything, seen from who wants them.

A forked node is no child of ours: its end is read off a file that names the process, and
its exit code off one that its parent writes.  Nothing of ours is imported here, since this
is used before anything else is loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO

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


class Forker:
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


class NodeForker(Forker):
    """The process that forks, started now; it loads while we go on.

    *module* is what it runs: nodes', or another one that serves with ``emulator.node_forks``.
    """

    def __init__(
        self, environment: Mapping[str, str], module: str = "emulator.node_forks"
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
