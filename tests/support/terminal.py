"""A program in a separate terminal, and the screen as its user sees it.

    with Terminal(["rmqemu", "demo"], columns=80, rows=24) as terminal:
        terminal.wait_for("was killed")
        assert terminal.wraps == 0

The program has a pseudo-terminal; pyte reads its output.  pyte lacks the second screen of
full-screen programs, dim text, lines that left the screen, and a count of lines that were too
long: ``Screen`` adds these.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import pyte
from pyte.screens import Char, Cursor, Margins, StaticDefaultDict

CTRL_C = "\x03"
PATIENCE_S = 60
QUIET_S = 0.03  # what comes later belongs to the next frame
ALTERNATE_SCREEN = 1049
DIM, NORMAL_INTENSITY = 2, 22
BLINK, NO_BLINK = 5, 25
COLOURS = {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}  # of SGR


class Screen(pyte.Screen):
    """``scrolled``: lines that left at the top.  ``wraps``: how often a line was too long.

    ``is_alternate``: the second screen is shown.  ``uses_colour``: the program has set a colour.
    Dim characters have ``blink`` set: pyte has no attribute for them.
    """

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines)
        self.scrolled: list[str] = []
        self.wraps = 0
        self.is_alternate = False
        self.uses_colour = False
        self._is_drawing = False
        self._first = (self.buffer, self.cursor)

    def draw(self, data: str) -> None:
        self._is_drawing = True
        super().draw(data)
        self._is_drawing = False

    def linefeed(self) -> None:
        self.wraps += self._is_drawing
        super().linefeed()

    def index(self) -> None:
        top, bottom = self.margins or Margins(0, self.lines - 1)
        if self.cursor.y == bottom and top == 0 and not self.is_alternate:
            self.scrolled.append(self.display[0].rstrip())
        super().index()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        if lines is not None and self.cursor.y < lines < self.lines:
            for y in range(lines, self.lines):  # blank rows at the bottom are removed first
                self.buffer.pop(y, None)
            self.lines = lines
        super().resize(lines, columns)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and ALTERNATE_SCREEN in modes and not self.is_alternate:
            self.is_alternate = True
            self._first = (self.buffer, self.cursor)
            self.buffer = defaultdict(lambda: StaticDefaultDict(self.default_char))
            self.cursor = Cursor(0, 0)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and ALTERNATE_SCREEN in modes and self.is_alternate:
            self.is_alternate = False
            self.buffer, self.cursor = self._first

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        self.uses_colour |= bool(COLOURS & set(attrs))
        known = []
        for attr in attrs:
            known += {DIM: [BLINK], NORMAL_INTENSITY: [attr, NO_BLINK]}.get(attr, [attr])
        super().select_graphic_rendition(*known, **kwargs)


class Terminal:
    """Runs *command*; if it still runs at the end of the block, it gets SIGTERM.

    ``frames`` are all screens it has shown, each once, oldest first.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = Screen(columns, rows)
        self.frames: list[list[str]] = []
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ours, self._its = pty.openpty()
        _set_size(self._its, columns, rows)
        base = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        its = self._its
        self.process = subprocess.Popen(
            command,
            env={**base, "TERM": "xterm-256color", **(env or {})},
            stdin=its,
            stdout=its,
            stderr=its,
            preexec_fn=lambda: os.login_tty(os.dup(its)),  # noqa: PLW1509  # as a login shell does
        )
        os.close(its)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            self.wait_ended()
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self._ours)

    # Contents -------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """The rows of the screen, without the blanks at their ends."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        """The screen as one text."""
        return "\n".join(self.lines)

    @property
    def scrolled(self) -> list[str]:
        """All lines that a user sees by scrolling up: those above the screen, then the screen."""
        return [*self.screen.scrolled, *self.lines]

    @property
    def wraps(self) -> int:
        """How often a line was too long, since the start."""
        return self.screen.wraps

    def line_with(self, text: str) -> str:
        """The first line that has *text*."""
        return next(line for line in self.lines if text in line)

    def style_of(self, text: str) -> Char:
        """The style of the first character of *text*: ``fg``, ``bold``, ``blink`` if dim …"""
        for y, line in enumerate(self.lines):
            if (x := line.find(text)) >= 0:
                return self.screen.buffer[y][x]
        raise AssertionError(f"no {text!r} on the screen:\n{self.text}")

    # Actions --------------------------------------------------------------------------

    def press(self, keys: str) -> None:
        """Type *keys*; the terminal sends the program a signal for ``CTRL_C``."""
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window, as a user does."""
        self.screen.resize(rows, columns)
        _set_size(self._ours, columns, rows)

    def wait_for(self, wanted: str | Callable[[str], bool], patience_s: float = PATIENCE_S) -> str:
        """Wait until the whole screen has a text, or fulfils a condition; returns the screen."""
        until_s = time.monotonic() + patience_s
        is_open = True
        while not (wanted in self.text if isinstance(wanted, str) else wanted(self.text)):
            assert is_open, f"it has ended without {wanted}:\n{self.text}"
            assert time.monotonic() < until_s, f"no {wanted} in {patience_s} s:\n{self.text}"
            is_open = self._read(until_s - time.monotonic())
        return self.text

    def wait_ended(self, patience_s: float = PATIENCE_S) -> int:
        """Read all remaining output; returns the exit code."""
        until_s = time.monotonic() + patience_s
        while self._read(until_s - time.monotonic()):
            assert time.monotonic() < until_s, f"still running:\n{self.text}"
        return self.process.wait(patience_s)

    def _read(self, within_s: float) -> bool:
        """Feed the screen one frame, if one comes; False after the last program has ended."""
        wait_s = max(0.0, within_s)
        while select.select([self._ours], [], [], wait_s)[0]:
            data = b""
            with contextlib.suppress(OSError):  # EIO: the last program has ended
                data = os.read(self._ours, 65_536)
            self._stream.feed(self._decoder.decode(data))
            if not data:
                self._keep()
                return False
            wait_s = QUIET_S
        self._keep()
        return True

    def _keep(self) -> None:
        if not self.frames or self.frames[-1] != self.lines:
            self.frames.append(self.lines)


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
