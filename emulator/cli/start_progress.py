"""How far the nodes of ``up`` are with the stores that they found, on standard error.

A bar a node in a terminal, else a line for every tenth.  A cluster without a large store
shows nothing, and loads nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from emulator.cluster.starting import NodeProgress

Key = tuple[str, str]  # the node, and what it reads
STEP_PERCENT = 10


class StartProgress:
    """``with StartProgress(…) as progress:`` shows what ``show`` is given, until ``close``."""

    def __init__(self, *, are_bars: bool) -> None:
        self._are_bars = are_bars
        self._is_closed = False
        self._shown_percent: dict[Key, int] = {}
        self._bars: Progress | None = None
        self._tasks: dict[Key, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, name: str, progress: NodeProgress) -> None:
        """The node *name* is that far; once closed, of no interest any more."""
        if self._is_closed:
            return
        if self._are_bars:
            self._show_bar((name, progress.what), progress)
        else:
            self._show_line((name, progress.what), progress)

    def close(self) -> None:
        """The nodes are ready, or will never be: bars go away."""
        self._is_closed = True
        if self._bars is not None:
            self._bars.stop()

    def _show_line(self, key: Key, progress: NodeProgress) -> None:
        percent = progress.percent // STEP_PERCENT * STEP_PERCENT
        if percent > self._shown_percent.get(key, 0):
            self._shown_percent[key] = percent
            typer.echo(f"{_title(*key)}: {percent} %", err=True)

    def _show_bar(self, key: Key, progress: NodeProgress) -> None:
        bars = self._bars = self._bars or _new_bars()
        if key not in self._tasks:
            self._tasks[key] = bars.add_task(_title(*key))
        bars.update(self._tasks[key], completed=progress.done, total=progress.total)


def _title(name: str, what: str) -> str:
    return f"{name} reads its {what}"


def _new_bars() -> Progress:
    from rich.console import Console  # noqa: PLC0415  # only where there is something to show
    from rich.progress import Progress  # noqa: PLC0415  # the same

    bars = Progress(console=Console(stderr=True), transient=True)
    bars.start()
    return bars
