"""Times that do not grow when other programs use the machine.

A limit is about the server, so it must not depend on other programs.  Linux counts how long a
thread was ready to run and had no CPU (``schedstat``).  A wait is measured without that time of
the server and of the thread that waits for it; on an idle machine nothing is subtracted.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil


class Server(NamedTuple):
    """A server's address and process id."""

    address: str
    pid: int


class ServerClock:
    """A clock that stops while the server's main thread or its creator's thread has no CPU."""

    def __init__(self, pid: int) -> None:
        self._threads = (pid, threading.get_native_id())

    def now_s(self) -> float:
        """Seconds since an unknown moment, for ``since_s``."""
        return time.perf_counter() - sum(map(without_cpu_s, self._threads))

    def since_s(self, began_s: float) -> float:
        """Seconds since the reading *began_s* of ``now_s``, at least 0.

        If both threads wait for a CPU at the same time, that time is subtracted twice.
        """
        return max(0.0, self.now_s() - began_s)


class MachineShare:
    """The share of the CPU time that other programs left for this process and its children."""

    def __init__(self) -> None:
        self._total_s, self._busy_s = _machine_s()
        self._ours_s = _ours_s()

    def left(self) -> float:
        """The share since this object was created; 1 if no other program used a CPU."""
        total_s, busy_s = _machine_s()
        others_s = busy_s - self._busy_s - (_ours_s() - self._ours_s)
        return 1 - max(0.0, others_s) / max(total_s - self._total_s, 0.01)


def without_cpu_s(thread: int) -> float:
    """How long *thread* (a process id: its main thread) was ready to run and had no CPU."""
    try:
        return int(Path(f"/proc/{thread}/schedstat").read_text().split()[1]) / 1e9
    except OSError:  # the thread has ended, or the system is not Linux
        return 0.0


def _machine_s() -> tuple[float, float]:
    """The total time and the busy time, summed over all CPUs."""
    times = psutil.cpu_times()
    total_s = sum(times) - getattr(times, "guest", 0) - getattr(times, "guest_nice", 0)
    return total_s, total_s - times.idle - getattr(times, "iowait", 0)


def _ours_s() -> float:
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))
