"""Nodes as operating-system processes, from the outside: how one is started, and started early.

A node that waits for its config on standard input can be started before anybody knows
what for.  So a command that is about to want a cluster starts its nodes first, and reads
its own arguments while they load.  Nothing of ours is imported here: that would come first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, NamedTuple


class Spawned(NamedTuple):
    """A process that loads its role, and the file its standard error goes to."""

    popen: subprocess.Popen[bytes]
    errors: IO[bytes]


_waiting: dict[str, list[Spawned]] = {}  # by role: started early, not yet wanted


def node_command(role: str, config: str, journal: str = "", log: str = "") -> list[str]:
    """What to execute for one role; it never looks for code in the current folder.

    *config* and *log* are JSON: the role's config struct, and ``LogSettings`` if not default.
    """
    options = ["--journal", journal] if journal else []
    options += ["--log", log] if log else []
    return [sys.executable, "-P", "-m", "emulator.node", role, config, *options]


def node_environment() -> dict[str, str]:
    """Ours, with this very copy of the code first in the path, wherever we stand."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


def spawn(role: str, journal: str = "", log: str = "") -> Spawned:
    """A node that waits for its config; one that was started early if it will do."""
    if not journal and not log and _waiting.get(role):
        return _waiting[role].pop()
    return _started(role, journal, log)


def start_early(roles: list[str]) -> None:
    """Let nodes load.  Those that nobody claims end with ``end_unclaimed`` or this process."""
    for role in roles:
        _waiting.setdefault(role, []).append(_started(role))


def end_unclaimed() -> None:
    """End the rest: a node whose standard input ends before its config came exits."""
    while _waiting:
        _, nodes = _waiting.popitem()
        for popen, errors in nodes:
            popen.communicate(b"")
            errors.close()


def _started(role: str, journal: str = "", log: str = "") -> Spawned:
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as the node does
    popen = subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
        [*node_command(role, "-", journal, log), "--with-parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=node_environment(),
        process_group=0,  # Ctrl-C in a terminal is for the parent, who stops us in order
    )
    return Spawned(popen, errors)
