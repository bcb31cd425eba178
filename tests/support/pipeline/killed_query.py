"""A streaming query whose processes are killed with kill -9 when its checkpoint gets a new file.

Spark writes ``offsets/N`` when batch N is planned and ``commits/N`` when it is done; between the
two its rows are read and written.  So a test can kill in the middle of a batch on purpose.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.paths import SUPPORT

PROGRAM = SUPPORT / "pipeline" / "streaming_query.py"
LOOK_S = 0.01
LIFE_S_MAX = 240.0  # of one process on a busy machine; a quiet one needs 10


class KilledQuery:
    """A query from *topic* into ``folder/sink``; one process after the other runs it."""

    def __init__(self, namesrv: str, topic: str, folder: Path) -> None:
        self._arguments = [namesrv, topic, str(folder)]
        self._folder = folder
        self.kills = 0

    def killed_when(self, moment: str, meanwhile: Callable[[], None] | None = None) -> None:
        """Start the query; kill it when a file is added to the folder *moment*.

        This is a folder of the checkpoint, or "rows" for the sink.  *meanwhile* is called when
        a batch has been planned.
        """
        planned, done = self._files("offsets"), self._files(moment)
        process = self._start("forever")
        try:
            self._wait(process, lambda: bool(self._files("offsets") - planned) or not meanwhile)
            if meanwhile is not None:
                meanwhile()
            self._wait(process, lambda: bool(self._files(moment) - done))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode == -signal.SIGKILL
        self.kills += 1

    def at_the_end(self) -> dict[str, Any]:
        """Run the query until it has read all messages; return what it prints of its sink."""
        process = self._start("to_the_end", stdout=subprocess.PIPE)
        try:
            out, _ = process.communicate(timeout=LIFE_S_MAX)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0
        found: dict[str, Any] = json.loads(out)
        return found

    def batches_done(self) -> int:
        """The number of finished batches of all processes together."""
        return len(self._files("commits"))

    def _start(self, how: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(PROGRAM), *self._arguments, how]
        return subprocess.Popen(
            command, start_new_session=True, stdout=stdout, stderr=subprocess.DEVNULL
        )

    def _files(self, kind: str) -> set[str]:
        folder = self._folder / ("sink" if kind == "rows" else f"checkpoint/{kind}")
        pattern = "*.parquet" if kind == "rows" else "[0-9]*"
        return {path.name for path in folder.glob(pattern)}

    def _wait(self, process: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> None:
        until_s = time.monotonic() + LIFE_S_MAX
        while not is_so():
            assert process.poll() is None, "the query ended before it was killed"
            assert time.monotonic() < until_s, f"no new file within {LIFE_S_MAX} s"
            time.sleep(LOOK_S)
