"""Nodes as operating-system processes, from the outside: how one is started.

Where it can be done nodes are forked by a process that has loaded their code.  A command
that is about to want a cluster starts that process first, and reads its own arguments
while it loads.  So nothing slow is imported here.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

from emulator.cluster.forking import CAN_FORK, ForkedNode, NodeForker, NoForks

NODE = (sys.executable, "-P", "-m", "emulator.node")


class Spawned(NamedTuple):
    """A process that loads its role, and the file its standard error goes to."""

    popen: subprocess.Popen[bytes] | ForkedNode
    errors: IO[bytes]


_forkers: list[NodeForker] = []  # at most one, started when the first node is wanted


def node_command(role: str, config: str, journal: str = "", log: str = "") -> list[str]:
    """What to execute for one role; it never looks for code in the current folder.

    *config* and *log* are JSON: the role's config struct, and ``LogSettings`` if not default.
    """
    return [*NODE, *_arguments(role, config, journal, log)]


def node_environment() -> dict[str, str]:
    """Ours, with this very copy of the code first in the path, wherever we stand."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


def spawn(role: str, journal: str = "", log: str = "", skew_ms: int = 0) -> Spawned:
    """A node that waits for its config: forked where that can be done, else loading its code."""
    arguments = [*_arguments(role, "-", journal, log), "--with-parent"]
    arguments += ["--skew-ms", str(skew_ms)] if skew_ms else []
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as the node does
    if CAN_FORK:
        start_early()
        try:
            return Spawned(_forkers[0].fork(arguments, errors), errors)
        except NoForks:
            end_forker()  # the next node finds a new one
    return Spawned(_loading(arguments, errors), errors)


def start_early() -> None:
    """Let the process load that forks nodes, where nodes can be forked."""
    if _forkers and _forkers[0].owner != os.getpid():
        _forkers.clear()  # we are a fork ourselves: it is somebody else's
    if CAN_FORK and not _forkers:
        _forkers.append(NodeForker(node_environment()))


@atexit.register
def end_forker() -> None:
    """End that process; the nodes that it forked go on."""
    while _forkers:
        forker = _forkers.pop()
        if forker.owner == os.getpid():
            forker.close()


def _arguments(role: str, config: str, journal: str, log: str) -> list[str]:
    options = ["--journal", journal] if journal else []
    options += ["--log", log] if log else []
    return [role, config, *options]


def _loading(arguments: list[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
        [*NODE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=node_environment(),
        process_group=0,  # Ctrl-C in a terminal is for the parent, who stops us in order
    )
