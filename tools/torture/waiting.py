"""Times that do not grow when other programs use the machine.

What a limit says of a server must not depend on what else the machine does.  Linux counts for how
long a thread was ready to run and had no CPU (``schedstat``); a wait without that of the server
and of the one that waits for it is the server's doing.  On a quiet machine both are the same.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil


class Server(NamedTuple):
    """Where a server listens, and its process."""

    address: str
    pid: int


class ServerClock:
    """Stands still while the server's main thread, or the thread that made this, has no CPU."""

    def __init__(self, pid: int) -> None:
        me = threading.get_native_id()
        self._files = (Path(f"/proc/{pid}/schedstat"), Path(f"/proc/self/task/{me}/schedstat"))

    def now_s(self) -> float:
        """Only differences mean something."""
        return time.perf_counter() - sum(map(_without_cpu_s, self._files))

    def since_s(self, began_s: float) -> float:
        """From a reading until now; waits that overlap are counted twice, so 0 at least."""
        return max(0.0, self.now_s() - began_s)


class MachineShare:
    """Which part of the machine this process and its children could have, from now on."""

    def __init__(self) -> None:
        self._total_s, self._busy_s = _machine_s()
        self._ours_s = _ours_s()

    def left(self) -> float:
        """1 if no other program used a CPU."""
        total_s, busy_s = _machine_s()
        others_s = busy_s - self._busy_s - (_ours_s() - self._ours_s)
        return 1 - max(0.0, others_s) / max(total_s - self._total_s, 0.01)


def _without_cpu_s(file: Path) -> float:
    try:
        return int(file.read_text().split()[1]) / 1e9
    except OSError:  # it has ended, or this is not Linux
        return 0.0


def _machine_s() -> tuple[float, float]:
    """All CPUs together: the time that passed, and that in which they were busy."""
    times = psutil.cpu_times()
    total_s = sum(times) - getattr(times, "guest", 0) - getattr(times, "guest_nice", 0)
    return total_s, total_s - times.idle - getattr(times, "iowait", 0)


def _ours_s() -> float:
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))
