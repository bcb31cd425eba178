"""One process that has loaded every role, and forks a node for each request.

A forked node is ready in some 20 ms; a node that loads its code needs half a second of a
processor.  The loaded code is in memory once.  The process has no threads and does not run
trio, so a fork is a complete copy.  Each request arrives over a socket, with the files that
become the node's standard input, output and error, and one to which its exit code is written.
When the socket closes this process ends; nodes end with their own standard input.

``ForkServer`` does not depend on nodes: it can fork other processes too.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable

import msgspec

from rocketmq_emulator.processes import node
from rocketmq_emulator.processes.roles import CONFIG_OF_ROLE, import_role

REQUEST_BYTES_MAX = 64 * 1024
FILES = 4  # standard input, output, error; the file for the exit code


def main() -> None:
    """Serve the socket whose file descriptor is the first argument."""
    for role in CONFIG_OF_ROLE:
        import_role(role)
    gc.collect()
    gc.freeze()  # else the first collection in every node would copy all these objects
    ForkServer(socket.socket(fileno=int(sys.argv[1])), node.main).run()


class ForkRequest(msgspec.Struct):
    """The arguments and the working folder of a process to fork."""

    arguments: list[str]
    folder: str


class ForkServer:
    """Forks processes on request; each runs *become*, which returns its exit code.

    *kills*: when the socket closes, kill the processes that still run; else they end themselves.
    """

    def __init__(
        self, requests: socket.socket, become: Callable[[], int], *, kills: bool = False
    ) -> None:
        self._requests = requests
        self._become = become
        self._kills = kills
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)

    def run(self) -> None:
        """Fork and reap until the client closes the socket."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._requests:
                    self._reap(key.fd, *key.data)
                elif not self._fork():
                    self._kill_all()
                    return

    def _fork(self) -> bool:
        """Fork one process; answer with its id and its pidfd.  False when the socket is closed."""
        try:
            text, files, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, FILES)
        except ConnectionResetError:  # the client ended before it read the last answer
            return False
        if not text:
            return False
        request = msgspec.json.decode(text, type=ForkRequest)
        pid = os.fork()
        if pid == 0:
            self._run_forked(request, files)
        *standard, exit_code = files
        for file in standard:
            os.close(file)
        pidfd = os.pidfd_open(pid)
        self._selector.register(pidfd, selectors.EVENT_READ, (pid, exit_code))
        try:
            socket.send_fds(self._requests, [b"%d" % pid], [pidfd])
        except BrokenPipeError:  # the client has died; the node notices it too
            return False
        return True

    def _reap(self, pidfd: int, pid: int, exit_code: int) -> None:
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(pidfd)
        os.write(exit_code, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(exit_code)
        os.close(pidfd)

    def _kill_all(self) -> None:
        for key in [*self._selector.get_map().values()] if self._kills else []:
            if key.data is not None:
                signal.pidfd_send_signal(key.fd, signal.SIGKILL)

    def _run_forked(self, request: ForkRequest, files: list[int]) -> None:
        """Run as the forked process; never returns."""
        os.setpgid(0, 0)  # Ctrl-C in a terminal is for the client
        nodes = [key for key in self._selector.get_map().values() if key.data]
        others = [file for key in nodes for file in (key.fd, key.data[1])]
        self._selector.close()
        self._requests.close()
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
        for file in (*files, *others):
            os.close(file)
        os.chdir(request.folder)
        sys.argv[1:] = request.arguments
        code = node.FAILED
        try:
            code = self._become()
        except BaseException:  # noqa: BLE001  # any error ends the process
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


if __name__ == "__main__":
    main()
