"""The lines that a node writes to standard output while it starts, and its parent's timeout.

Lines of JSON: the progress of reading its store, then its address; later, how many facts a full
disk has left out of its journal.  Each line renews the timeout,
so the parent waits for a node that reads a large log as long as it makes progress, but not for a
node that writes nothing.  ``ready_s`` in the last line counts from the start of the process,
before its code was loaded, because the user waits from then on.  A process that is replaced
(``execve``) keeps its start time.
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
        """The progress, from 0 to 100."""
        return 100 * self.done // max(1, self.total)

    def line(self) -> str:
        """The line of JSON that a node writes."""
        return json.dumps({"recovering": self.what, "done": self.done, "total": self.total})

    @classmethod
    def of(cls, fact: LogRecovering | TimersRecovering) -> Self:
        """The progress in a fact that a node notes while it reads its store."""
        if isinstance(fact, LogRecovering):
            return cls("log", fact.done_bytes, fact.total_bytes)
        return cls("timers", fact.done_count, fact.total_count)


class NodeStart:
    """The start of one node, seen from outside.

    ``address`` is where it listens, once it has written it; ``facts_left_out`` is more than 0 if
    its journal is on a full disk.  ``silent_at_s`` is the time at which
    the parent gives up, if no line arrives before.  Times are in seconds of one clock.
    """

    def __init__(self, name: str, now_s: float, silence_s_max: float) -> None:
        self.name = name
        self.address = ""
        self.facts_left_out = 0
        self.silent_at_s = now_s + silence_s_max
        self._silence_s_max = silence_s_max
        self._progress: NodeProgress | None = None
        self._rest = b""

    def feed(self, data: bytes, now_s: float) -> list[NodeProgress]:
        """Take bytes that it wrote; returns the progress in them."""
        self.silent_at_s = now_s + self._silence_s_max
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in map(json.loads, lines):
            if "recovering" in line:
                self._progress = NodeProgress(line["recovering"], line["done"], line["total"])
                found.append(self._progress)
            elif LEFT_OUT in line:
                self.facts_left_out = line[LEFT_OUT]
            else:
                self.address = line["address"]
        return found

    def __str__(self) -> str:
        if self._progress is None:
            return self.name
        return f"{self.name} (at {self._progress.percent} % of its {self._progress.what})"


LEFT_OUT = "facts_left_out"


def left_out_line(count: int) -> str:
    """The line of a node whose journal lacks *count* facts: at the first, and at its end."""
    return json.dumps({LEFT_OUT: count})


def left_out_in(data: bytes) -> int:
    """The last count in lines that a ready node wrote; 0 without one."""
    lines = data.splitlines()
    return int(json.loads(lines[-1])[LEFT_OUT]) if lines else 0


# Age of this process ------------------------------------------------------------------


_LOADED_S = time.monotonic()
_START_FIELD = 19  # starttime, counted from the field after the program's name: proc(5)


def process_age_s() -> float:
    """Seconds since the start, to 0.01 s; without ``/proc`` since this module was loaded."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began_s = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic() - _LOADED_S
