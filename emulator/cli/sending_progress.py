"""How far many sends are: a bar that says how many, and how quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cli.late_bar import LateBar

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


class SendingProgress(LateBar):
    """``with SendingProgress(total) as progress``; a total of 0 is not known."""

    def __init__(self, total: int, *, is_shown: bool) -> None:
        super().__init__(is_shown=is_shown)
        self._total = total or None

    def columns(self) -> list[ProgressColumn]:
        """The text, and a bar if there is an end."""
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  # only for what takes long

        bar = [BarColumn()] if self._total else []
        return [TextColumn("{task.description}"), *bar]

    def show(self, sent: int) -> None:
        """Draw, if it is time to."""
        if not self.is_time():
            return
        of = f" of {self._total:,}" if self._total else ""
        text = f"sent {sent:,}{of}, {sent / self.passed_s():,.0f}/s"
        self.draw(text, sent, self._total)
