"""A progress bar on standard error, for work that takes longer than ``FIRST_S``.

The working code draws it, at most every ``EVERY_S``; it is removed at the end.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

FIRST_S = 0.5  # shorter work has no bar
EVERY_S = 0.1


class DelayedProgressBar(ABC):
    """``with … as progress``; each subclass defines the columns of its bar."""

    def __init__(self, *, is_shown: bool) -> None:
        self._stack = ExitStack()
        self._began_s = time.monotonic()
        self._next_s = self._began_s + FIRST_S if is_shown else float("inf")
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @abstractmethod
    def columns(self) -> list[ProgressColumn]:
        """The columns of the bar; called once, before the first draw."""

    def is_time(self) -> bool:
        """True if a draw is due."""
        return time.monotonic() >= self._next_s

    def passed_s(self) -> float:
        """Seconds since the bar was made; never 0."""
        return max(time.monotonic() - self._began_s, 0.001)

    def draw(self, text: str, done: int, total: int | None) -> None:
        """Draw that *done* of *total* is done; a *total* of None means unknown."""
        self._next_s = time.monotonic() + EVERY_S
        bar, task = self._started(total)
        bar.update(task, completed=done, description=text, refresh=True)

    def _started(self, total: int | None) -> tuple[Progress, TaskID]:
        if self._bar is None or self._task is None:
            from rich.progress import Progress  # noqa: PLC0415  # only for long work

            self._bar = Progress(
                *self.columns(),
                console=Console(stderr=True),
                transient=True,
                auto_refresh=False,
            )
            self._task = self._bar.add_task("", total=total)
            self._stack.enter_context(self._bar)
        return self._bar, self._task
