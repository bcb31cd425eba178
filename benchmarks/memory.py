"""Resident memory of processes (RSS): shared pages are counted for each process."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

MB = 1_000_000


def resident_mb(pids: Iterable[int]) -> float:
    return sum(int(psutil.Process(pid).memory_info().rss) for pid in pids) / MB
