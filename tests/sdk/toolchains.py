"""The official clients, fetched from their registries once and kept under ``.cache``.

They are optional on a developer's machine and required in CI: a missing tool, or a
registry that cannot be reached, skips the tests and gives the reason, unless REQUIRE_PARTS=1.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from benchmarks.clusters import ROOT
from tests.support.paths import TESTS

HERE = TESTS / "sdk"
CACHE = ROOT / ".cache" / "sdk"
FETCH_S_MAX = 600

T = TypeVar("T")


class PartMissing(Exception):
    """A part that a test needs is not on this machine and could not be fetched."""


def found_or_skipped(fetch: Callable[[], T]) -> T:
    """The result of *fetch*; if a part is missing, skip the test, or fail with REQUIRE_PARTS=1."""
    try:
        return fetch()
    except PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))


def java_command(namesrv: str, scratch: Path, version: str = "4.9.8") -> list[str]:
    """Starts the Java client's process; its logs and local offsets are stored in *scratch*."""
    need("java", "javac", "mvn")
    pom = HERE / "java" / "pom.xml"
    jars = java_jars(f"java-client-{version}", pom, rocketmq_version=version)
    classes = built_classes(f"java-actor-{version}", HERE / "java", jars)
    return [
        "java",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx256m",
        f"-Drocketmq.client.localOffsetStoreDir={scratch}",
        f"-Drocketmq.client.logRoot={scratch}",
        "-Drocketmq.client.rebalance.lockInterval=1000",  # 1 s, not 20 s
        "-cp",
        f"{classes}:{jars}/*",
        "Actor",
        namesrv,
    ]


def node_command(namesrv: str) -> list[str]:
    """Starts the Node client's process, with the environment of ``node_environment``."""
    need("node", "npm")
    return ["node", str(HERE / "node" / "actor.js"), namesrv]


def node_environment() -> dict[str, str]:
    folder = node_packages("node-client", HERE / "node" / "package.json")
    return {**os.environ, "NODE_PATH": str(folder / "node_modules")}


def node_packages(name: str, package: Path) -> Path:
    """The folder with the installed dependencies of *package*, a package.json."""
    need("node", "npm")
    return _fetched(name, [package], lambda folder: _install(package, folder))


def go_command(namesrv: str) -> list[str]:
    """Starts the Go client's process, with the environment of ``go_environment``."""
    return [str(go_program("go-client", HERE / "go")), namesrv]


def go_program(name: str, folder: Path) -> Path:
    """The program of the Go files and go.mod in *folder*, built."""
    need("go")
    sources = [folder / "go.mod", *sorted(folder.glob("*.go"))]
    return _fetched(name, sources, lambda built: _build_go(sources, built)) / "program"


def go_environment(scratch: Path) -> dict[str, str]:
    """Offsets of broadcast groups are stored in *scratch*; the client logs only errors."""
    return {**os.environ, "HOME": str(scratch), "ROCKETMQ_GO_LOG_LEVEL": "error"}


def java_jars(name: str, pom: Path, **properties: str) -> Path:
    """The folder with the dependencies of *pom*, given Maven *properties* (``_`` is a dot)."""
    need("mvn")
    given = [f"-D{key.replace('_', '.')}={value}" for key, value in properties.items()]
    return _fetched(name, [pom], lambda folder: _copy_jars(pom, folder, given))


def python_packages(name: str, requirements: Path) -> Path:
    """The folder with the packages of *requirements*, for PYTHONPATH."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return _fetched(
        name,
        [requirements],
        lambda folder: _run([*pip, "--target", str(folder), "-r", str(requirements)]),
    )


def built_classes(name: str, sources: Path, jars: Path) -> Path:
    """The classes of the Java files in *sources*, compiled against *jars*."""
    files = sorted(sources.glob("*.java"))
    return _fetched(name, files, lambda folder: _compile(files, jars, folder))


def need(*tools: str) -> None:
    """Raises ``PartMissing`` when one of these programs is not on this machine."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise PartMissing(f"no {' and no '.join(missing)} on this machine")


def _fetched(name: str, sources: Sequence[Path], fill: Callable[[Path], None]) -> Path:
    """The folder that *fill* made from *sources*; filled again when they have changed."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    folder = CACHE / f"{name}-{digest}"
    with _alone(name):
        if not folder.exists():
            growing = CACHE / f"{name}-growing"
            shutil.rmtree(growing, ignore_errors=True)
            growing.mkdir(parents=True)
            fill(growing)
            growing.rename(folder)
    return folder


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Lets one test process fetch at a time; the others wait."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _copy_jars(pom: Path, folder: Path, properties: Sequence[str]) -> None:
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    _run(["mvn", "-q", "-B", "-f", str(pom), *properties, *goal])


def _compile(files: Sequence[Path], jars: Path, folder: Path) -> None:
    flags = ["-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(folder)]
    _run(["javac", *flags, *map(str, files)])


def _install(package: Path, folder: Path) -> None:
    shutil.copy(package, folder)
    flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    _run(["npm", "install", *flags, "--prefix", str(folder)])


def _build_go(sources: Sequence[Path], folder: Path) -> None:
    for source in sources:
        shutil.copy(source, folder)
    _run(["go", "build", "-C", str(folder), "-mod=mod", "-o", "program", "."])


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(
            command,
            check=True,
            timeout=FETCH_S_MAX,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.CalledProcessError as failed:
        text = failed.stdout.decode(errors="replace")[-500:]
        raise PartMissing(f"{command[0]} could not fetch or build: {text}") from failed
    except subprocess.TimeoutExpired as late:
        raise PartMissing(f"{command[0]} took more than {FETCH_S_MAX} s") from late
