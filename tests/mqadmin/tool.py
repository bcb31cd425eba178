"""The official ``mqadmin`` of one release: one JVM that runs command after command."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.real_cluster import fetched_jars
from tests.sdk.toolchains import PartMissing, built_classes
from tests.support.paths import TESTS

HERE = TESTS / "mqadmin"
COMMAND_S_MAX = 60.0
LOGBACK = "<configuration/>"


class AdminTool:
    """Raises ``PartMissing`` if there is no Java here, or the jars cannot be fetched."""

    def __init__(self, release: str, scratch: Path) -> None:
        missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
        if missing:
            raise PartMissing(f"no {' and no '.join(missing)} on this machine")
        try:
            jars = fetched_jars(release)
        except subprocess.CalledProcessError as failed:
            raise PartMissing(f"the jars of {release} could not be fetched: {failed}") from failed
        classes = built_classes(f"mqadmin-{release}", HERE / "java", jars)
        (scratch / "conf").mkdir(parents=True, exist_ok=True)
        (scratch / "conf" / "logback_tools.xml").write_text(LOGBACK)
        self._buffer = b""
        self._process = subprocess.Popen(
            [
                "java",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Xmx256m",
                f"-Duser.home={scratch}",
                "-Duser.timezone=UTC",
                f"-Drocketmq.client.logRoot={scratch}",
                "-cp",
                f"{classes}:{jars}/*",
                "Admin",
            ],
            cwd=scratch,
            env=dict(os.environ, ROCKETMQ_HOME=str(scratch), HOME=str(scratch), TZ="UTC"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, arguments: Sequence[str]) -> str:
        """Run a command; return its standard output and standard error as one text."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(arguments).encode() + b"\n")
        self._process.stdin.flush()
        deadline_s = time.monotonic() + COMMAND_S_MAX
        while b"\n" not in self._buffer:
            self._receive(arguments, deadline_s)
        length, _, self._buffer = self._buffer.partition(b"\n")
        while len(self._buffer) < int(length):
            self._receive(arguments, deadline_s)
        text, self._buffer = self._buffer[: int(length)], self._buffer[int(length) :]
        return text.decode(errors="replace")

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _receive(self, arguments: Sequence[str], deadline_s: float) -> None:
        assert self._process.stdout is not None
        left_s = deadline_s - time.monotonic()
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, left_s))
        assert ready, f"no answer within {COMMAND_S_MAX} s: mqadmin {' '.join(arguments)}"
        data = os.read(self._process.stdout.fileno(), 1 << 16)
        assert data, f"the JVM ended: mqadmin {' '.join(arguments)}"
        self._buffer += data
