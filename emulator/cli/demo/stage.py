"""Where the demo is shown: a screen that is drawn again and again, or plain lines.

Pipes, dumb terminals and windows that are too small get lines.  A window may change its size
at any time, so the question is asked anew with every frame.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from emulator.cli.demo.screen import (
    COLUMNS_MIN,
    ROWS_MIN,
    DemoScreen,
    event_line,
    event_paragraph,
)
from emulator.cli.demo.strip import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.cli.demo.run import DemoRun
    from emulator.cli.demo.story import DemoEvent


class Stage:
    """``with Stage(run, console) as stage:`` leaves the terminal as it was, even on error."""

    def __init__(self, run: DemoRun, console: Console) -> None:
        self._run = run
        self._console = console
        self._screen = DemoScreen(run)
        self._live: Live | None = None
        self._events_printed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_screen()

    def show(self) -> None:
        """The screen as it is now, or as lines the events that were not printed yet."""
        if self._has_room():
            self._draw()
            return
        self._leave_screen()
        for event in self._unprinted():
            self.print(event_paragraph(event, self._console.width))

    def print_last_frame(self) -> None:
        """The screen as it is now, to stay; with those of all its events that no line has told."""
        self._leave_screen()
        last_bar_is_over_ms = _wall_ms() + self._run.plan.bar_ms
        self.print([Text(), *self._screen.state(last_bar_is_over_ms, self._console.width)])
        self.print(map(event_line, self._unprinted()))

    def print(self, lines: Iterable[Text]) -> None:
        """Lines that stay."""
        for line in lines:
            self._console.print(self._encodable(line))

    def _has_room(self) -> bool:
        console = self._console
        is_screen = console.is_terminal and not console.is_dumb_terminal
        columns, rows = console.size
        return is_screen and columns >= COLUMNS_MIN and rows >= ROWS_MIN

    def _draw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, screen=True, auto_refresh=False)
            self._live.start()
        columns, rows = self._console.size
        frame = self._screen.frame(_wall_ms(), columns, rows)
        self._live.update(Group(*map(self._encodable, frame)), refresh=True)

    def _leave_screen(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _unprinted(self) -> list[DemoEvent]:
        events = self._run.events[self._events_printed :]
        self._events_printed += len(events)
        return events

    def _encodable(self, line: Text) -> Text:
        if self._console.options.ascii_only:
            line.plain = line.plain.translate(PLAIN)
        return line


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
