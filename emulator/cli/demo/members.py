"""The demo's producer and consumers as processes: started, read, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import msgspec
import trio

from emulator.cli.demo.ledger import MemberEntry, read_entry
from emulator.cli.demo.member import MemberConfig
from emulator.cluster.node_process import NodeDied
from emulator.cluster.spawning import node_environment

READ_BYTES = 64 * 1024
STOP_S_MAX = 8.0
LAST_LINES = 5
KILLED = "killed"


class MemberProcess:
    """One client.  ``state`` is what the screen shows."""

    def __init__(self, config: MemberConfig) -> None:
        self.name = config.name
        self.state = "running"
        self.ended = trio.Event()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as we do
        self.popen = subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
            [
                *(sys.executable, "-P", "-m", "emulator.cli.demo.member"),
                msgspec.json.encode(config).decode(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=node_environment(),
            process_group=0,
        )

    async def read(self, on_entry: Callable[[MemberEntry], None]) -> None:
        """Give every line to *on_entry*, also those a killed one left.  Raises ``NodeDied``."""
        assert self.popen.stdout is not None
        rest = b""
        async with trio.lowlevel.FdStream(os.dup(self.popen.stdout.fileno())) as stream:
            async for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    on_entry(read_entry(line))
        code = await trio.to_thread.run_sync(self.popen.wait)
        if self.state == "running":
            self.state = "done" if code == 0 else "died"
        self.ended.set()
        if self.state == "died":
            raise NodeDied(self.name, code, self._last_lines())

    def kill(self) -> None:
        """SIGKILL; its end is seen by ``read``."""
        self.state = KILLED
        self.popen.send_signal(signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """SIGTERM, unless it has ended."""
        if self.popen.poll() is None:
            self.state = "stopped"
            self.popen.terminate()

    def wait_ended(self, until_s: float) -> None:
        """Wait for its end until *until_s* of the monotonic clock, then kill it."""
        try:
            self.popen.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for file in (self.popen.stdin, self.popen.stdout, self._errors):
            assert file is not None
            file.close()

    def _last_lines(self) -> list[str]:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").splitlines()[-LAST_LINES:]


def stop_all(members: list[MemberProcess]) -> None:
    """Ask all of them to stop, and wait until they have."""
    for member in members:
        member.ask_to_stop()
    until_s = time.monotonic() + STOP_S_MAX
    for member in members:
        member.wait_ended(until_s)
