"""A headless Chromium for tests: fetched once from the package registry, and used by all tests."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import msgspec

from tests.sdk import toolchains
from tests.support.paths import TESTS

HERE = TESTS / "browser"


class Browser:
    """The browser's process; see driver.mjs for its commands."""

    def __init__(self) -> None:
        folder = toolchains.node_packages("report-browser", HERE / "package.json")
        unpacked = folder / "unpacked"  # Chromium, and its temporary files
        unpacked.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            ["node", str(HERE / "driver.mjs"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(unpacked)},
        )
        self.version: str = self._answer()["value"]

    def tell(self, act: str, what: Any, **options: Any) -> Any:
        """Run a command of driver.mjs; fails if the page reported an error or used the network."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode({act: what, **options}) + b"\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert "error" not in answer, answer["error"]
        assert answer["complaints"] == []
        assert answer["requests"] == []
        return answer["value"]

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the browser has ended"
        found: dict[str, Any] = msgspec.json.decode(line)
        return found
