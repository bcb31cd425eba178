"""The clients of a run in real time, seen from the run: started, ended and paused by name.

A client that was stopped or killed plays its part again when it is started; its journal goes
on in the same file.  Signals do the work: SIGTERM, SIGKILL, SIGSTOP.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

import msgspec

from emulator.cluster.forking import ForkedNode, Forker
from emulator.cluster.node_view import is_standing_still
from emulator.cluster.world import STOP_S_MAX
from scenarios.running.client_forks import ClientOrder
from scenarios.running.parts import AnyPart

PAUSE_S_MAX, PAUSE_POLL_S = 1.0, 0.001
ERROR_TEXT_MAX = 2_000  # characters at the end of what a client wrote before it died


class ClientDied(Exception):
    """A client ended that nobody ended; the text has what it wrote last."""


class ClientProcesses:
    """Those of one run.  Each writes its journal to a file in *folder*."""

    def __init__(self, forker: Forker, folder: Path) -> None:
        self._forker = forker
        self._folder = folder
        self._parts: dict[str, AnyPart] = {}
        self._lives: dict[str, _Life] = {}  # the last one of each

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that have entered, in that order."""
        return tuple(self._lives)

    def enter(self, part: AnyPart) -> None:
        """A client that there was not before.  Raises ``NoForks``."""
        self._parts[part.name] = part
        self.start(part.name)

    def start(self, name: str) -> None:
        """Unless it runs."""
        if name not in self._lives or not self._lives[name].is_running:
            journal = str(self._folder / f"{name}.jsonl")
            self._lives[name] = _Life(self._forker, ClientOrder(self._parts[name], journal))

    def stop(self, name: str) -> None:
        """It leaves its blocks in order; what hangs is killed."""
        self._lives[name].end(signal.SIGTERM, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """At once; done when it is dead."""
        self._lives[name].end(signal.SIGKILL)

    def kill_all(self) -> None:
        """The run is over."""
        for name in self._lives:
            self.kill(name)

    def pause(self, name: str) -> None:
        """SIGSTOP; done when it stands still."""
        process = self._lives[name].process
        process.send_signal(signal.SIGSTOP)
        until_s = time.monotonic() + PAUSE_S_MAX
        while is_standing_still(process.pid) is False and time.monotonic() < until_s:
            time.sleep(PAUSE_POLL_S)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._lives[name].process.send_signal(signal.SIGCONT)

    def is_running(self, name: str) -> bool:
        """Is there a process, paused or not?"""
        return name in self._lives and self._lives[name].is_running

    def is_paused(self, name: str) -> bool:
        """Does its process stand still?"""
        return self.is_running(name) and bool(is_standing_still(self._lives[name].process.pid))

    def check(self) -> None:
        """Raises ``ClientDied`` for one that failed."""
        for name, life in self._lives.items():
            if not life.is_running and not life.is_meant_to_end and life.process.poll():
                raise ClientDied(f"the client {name} has died: {life.last_words()}")


class _Life:
    """From one start of a client to its end."""

    def __init__(self, forker: Forker, order: ClientOrder) -> None:
        self.is_meant_to_end = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # lives as it does
        self.process: ForkedNode = forker.fork([], self._errors)
        self.process.stdout.close()  # what a program of the scenario prints goes nowhere
        with self.process.stdin as file, contextlib.suppress(BrokenPipeError):
            file.write(msgspec.json.encode(order))

    @property
    def is_running(self) -> bool:
        """Has it not ended yet?"""
        return self.process.poll() is None

    def end(self, *signals: int) -> None:
        """By these signals, and by SIGKILL when they do not help."""
        self.is_meant_to_end = True
        for number in signals:
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def last_words(self) -> str:
        """What it wrote to its standard error, the end of it."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - ERROR_TEXT_MAX))
        return self._errors.read().decode(errors="replace").strip() or "it wrote nothing"
