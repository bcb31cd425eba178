"""One process that has loaded every role, and forks a node whenever it is asked for one.

A node forked is ready in some 20 ms, where one that loads its code needs half a second of a
processor; and what was loaded is in memory once.  It has no thread and runs no trio, so
that a fork is whole.  Each request comes over a socket with the files that become the
node's standard input, output and error, and one to which its exit code is written.  When
the socket ends this process ends, and nodes end with their own standard input.

``ForkServer`` is the part that knows no nodes: other processes are forked by it, too.
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
FILES = 4  # standard input, output, error; where the exit code goes


def main() -> None:
    """Serve the socket whose number is the first argument."""
    for role in CONFIG_OF_ROLE:
        import_role(role)
    gc.collect()
    gc.freeze()  # else the first collection of every node would copy all of it
    ForkServer(socket.socket(fileno=int(sys.argv[1])), node.main).run()


class ForkRequest(msgspec.Struct):
    """A process's command line, and the folder it stands in."""

    arguments: list[str]
    folder: str


class ForkServer:
    """Processes forked here that have not ended; each runs *become*, which returns its exit code.

    *kills* those that are left when nobody asks any more; else they end by themselves.
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
        """Fork and reap until nobody asks any more."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._requests:
                    self._reap(key.fd, *key.data)
                elif not self._fork():
                    self._kill_all()
                    return

    def _fork(self) -> bool:
        """Fork one node, and answer with its id and a file that names it; False at the end."""
        try:
            text, files, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, FILES)
        except ConnectionResetError:  # who asked ended before it read the last answer
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
        except BrokenPipeError:  # who asked has died, and the node sees that as well
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
        """Be that process from here on; never returns."""
        os.setpgid(0, 0)  # Ctrl-C in a terminal is for who started us
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
        except BaseException:  # noqa: BLE001  # whatever it is, this is the end of the process
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


if __name__ == "__main__":
    main()
