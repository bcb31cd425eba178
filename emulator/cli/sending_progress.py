"""A bar for sends that take longer than a moment, on standard error.

It is drawn by whoever sends, a few times a second, and leaves nothing behind.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

FIRST_S = 0.5  # what ends sooner needs no bar
EVERY_S = 0.1


class SendingProgress:
    """``with SendingProgress(total) as progress``; a total of 0 is not known."""

    def __init__(self, total: int, *, is_shown: bool) -> None:
        self._total = total or None
        self._stack = ExitStack()
        self._began_s = time.monotonic()
        self._next_s = self._began_s + FIRST_S if is_shown else float("inf")
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, sent: int) -> None:
        """Draw, if it is time to."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        of = f" of {self._total:,}" if self._total else ""
        speed = sent / max(now_s - self._began_s, 0.001)
        bar, task = self._started()
        text = f"sent {sent:,}{of}, {speed:,.0f}/s"
        bar.update(task, completed=sent, description=text, refresh=True)

    def _started(self) -> tuple[Progress, TaskID]:
        if self._bar is None or self._task is None:
            from rich import progress  # noqa: PLC0415  # only for what takes long

            columns = [progress.BarColumn()] if self._total else []
            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                *columns,
                console=Console(stderr=True),
                transient=True,
                auto_refresh=False,
            )
            self._task = self._bar.add_task("", total=self._total)
            self._stack.enter_context(self._bar)
        return self._bar, self._task
