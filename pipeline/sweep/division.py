"""How many rows a task gets, and how many tasks a Spark job.

Small tasks show progress, lose little when one fails, and leave no core idle for long at the
end.  Large tasks save time of the driver: each task costs it some milliseconds, and there is one
driver for all cores.  So a task should take about ``TASK_S_AIM``: less near the end, more with
hundreds of cores.  Jobs are started in waves, so that the run times of one wave size the tasks
of the next; two waves run at once, so that no core is idle at the end of one.
"""

from __future__ import annotations

from statistics import fmean

TASK_S_AIM = 3.0
CORES_A_SECOND = 100  # … or one second per so many cores, where one driver serves hundreds
TASK_ROWS_MAX = 20_000
WAVE_TASKS_A_CORE = 4  # with 2, cores would wait for the slowest task of a wave
WAVES_AT_ONCE = 2
LAST_TASKS_A_CORE = 3  # of the remaining rows, so that all cores end at about the same time
RUN_S_AT_FIRST = TASK_S_AIM  # no run time is known yet: one row per task
LATEST_RUNS = 256


def tasks_of_wave(left: int, cores: int, run_s: float) -> list[int]:
    """The row count of each task of the next wave; *left* rows take *run_s* each on *cores*."""
    aim_s = max(TASK_S_AIM, cores / CORES_A_SECOND)
    wanted = max(1, round(aim_s / max(run_s, 1e-6)))
    even = max(1, left // (cores * LAST_TASKS_A_CORE))
    size = min(wanted, even, TASK_ROWS_MAX)
    sizes: list[int] = []
    while left > 0 and len(sizes) < cores * WAVE_TASKS_A_CORE:
        sizes.append(min(size, left))
        left -= sizes[-1]
    return sizes


class RunTimes:
    """The mean time of the latest runs, which sizes the next tasks."""

    def __init__(self) -> None:
        self._latest: list[float] = []

    def add(self, took_s: float) -> None:
        """Adds the time of one run."""
        self._latest.append(took_s)
        if len(self._latest) > 2 * LATEST_RUNS:
            del self._latest[:LATEST_RUNS]

    @property
    def mean_s(self) -> float:
        """The mean time of a run; before the first, ``RUN_S_AT_FIRST``."""
        return fmean(self._latest[-LATEST_RUNS:]) if self._latest else RUN_S_AT_FIRST
