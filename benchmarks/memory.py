"""Resident memory of processes, as the system counts it: shared pages count for each."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

MB = 1_000_000


def resident_mb(pids: Iterable[int]) -> float:
    return sum(int(psutil.Process(pid).memory_info().rss) for pid in pids) / MB
