"""How many rows a task gets, and how many tasks a job of Spark.

Small tasks: progress is seen, little is lost with one, and at the end no core waits long for
another.  Large ones: each costs the driver some milliseconds, and there is one driver for all
cores.  So a task is to take about ``TASK_S_AIM``, less when the end is near, more when there are
hundreds of cores.  Jobs come in
waves, so that what is learned of run times counts for the next; two waves are under way at once,
so that no core waits at the end of one.
"""

from __future__ import annotations

from statistics import fmean

TASK_S_AIM = 3.0
CORES_A_SECOND = 100  # … or a second for so many cores, where one driver serves hundreds
TASK_ROWS_MAX = 20_000
WAVE_TASKS_A_CORE = 4  # with 2, cores would wait for the slowest task of a wave
WAVES_AT_ONCE = 2
LAST_TASKS_A_CORE = 3  # of what is left, so that the end is even
RUN_S_AT_FIRST = TASK_S_AIM  # nothing is known: a row a task
LATEST_RUNS = 256


def tasks_of_wave(left: int, cores: int, run_s: float) -> list[int]:
    """Rows of each task of the next wave, when *left* rows take *run_s* each on *cores*."""
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
        """Of one run."""
        self._latest.append(took_s)
        if len(self._latest) > 2 * LATEST_RUNS:
            del self._latest[:LATEST_RUNS]

    @property
    def mean_s(self) -> float:
        """Of one run; before the first: such that a task has one row."""
        return fmean(self._latest[-LATEST_RUNS:]) if self._latest else RUN_S_AT_FIRST
