"""What a node writes to standard output while it starts, and how long its parent waits.

Lines of JSON: how far it has read the store that it found, then where it listens.  Each renews
the wait, so a node that reads a large log is waited for as long as it makes progress, and one
that writes nothing is not.  ``ready_s`` in the last line counts from the start of the process,
before any of its code was loaded, because that is when the user began to wait.  A process that
is replaced (``execve``) keeps its beginning.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NamedTuple, Self

from rocketmq_emulator.facts import LogRecovering, TimersRecovering


class NodeProgress(NamedTuple):
    """*done* of *total* bytes of the ``log``, or messages of the ``timers``, have been read."""

    what: str
    done: int
    total: int

    @property
    def percent(self) -> int:
        """0 to 100."""
        return 100 * self.done // max(1, self.total)

    def line(self) -> str:
        """As a node writes it."""
        return json.dumps({"recovering": self.what, "done": self.done, "total": self.total})

    @classmethod
    def of(cls, fact: LogRecovering | TimersRecovering) -> Self:
        """What a node notes while it reads its store."""
        if isinstance(fact, LogRecovering):
            return cls("log", fact.done_bytes, fact.total_bytes)
        return cls("timers", fact.done_count, fact.total_count)


class NodeStart:
    """The start of one node, seen from outside.

    ``address`` is where it listens, once it has said so.  ``silent_at_s``: if nothing comes by
    then it is waited for no longer.  Times are of one clock, in seconds.
    """

    def __init__(self, name: str, now_s: float, silence_s_max: float) -> None:
        self.name = name
        self.address = ""
        self.silent_at_s = now_s + silence_s_max
        self._silence_s_max = silence_s_max
        self._progress: NodeProgress | None = None
        self._rest = b""

    def feed(self, data: bytes, now_s: float) -> list[NodeProgress]:
        """Take what it wrote; the progress that this was."""
        self.silent_at_s = now_s + self._silence_s_max
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in map(json.loads, lines):
            if "recovering" in line:
                self._progress = NodeProgress(line["recovering"], line["done"], line["total"])
                found.append(self._progress)
            else:
                self.address = line["address"]
        return found

    def __str__(self) -> str:
        if self._progress is None:
            return self.name
        return f"{self.name} (at {self._progress.percent} % of its {self._progress.what})"


# Since when this process runs ---------------------------------------------------------


_LOADED_S = time.monotonic()
_START_FIELD = 19  # starttime, counted from behind the name of the program: proc(5)


def process_age_s() -> float:
    """Seconds, exact to a hundredth; where no ``/proc`` tells, since this module was loaded."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began_s = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic() - _LOADED_S
