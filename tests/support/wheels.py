"""Builds of the project's wheel and sdist, as for a package index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def built(kind: str, folder: Path, home: str = "") -> Path:
    """The one file that hatchling builds into *folder*: a "wheel" or an "sdist".

    *home* is the project's address in its metadata.
    """
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        kind,
        "-d",
        folder,
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PROJECT_HOME": home},
        capture_output=True,
        check=False,
        text=True,
    )
    if "No module named hatchling" in done.stderr and os.environ.get("REQUIRE_PARTS") != "1":
        pytest.skip("hatchling is not installed")
    assert done.returncode == 0, done.stderr
    (file,) = folder.iterdir()
    return file
