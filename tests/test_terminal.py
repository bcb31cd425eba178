"""The terminal emulation of the tests: lines, colours, the second screen, sizes, Ctrl-C."""

from __future__ import annotations

import sys

from tests.support.terminal import CTRL_C, Terminal


def a_program(text: str, **options) -> Terminal:
    return Terminal([sys.executable, "-c", text], **options)


def test_lines_colours_and_what_left_at_the_top_are_seen() -> None:
    text = "for n in range(30): print(f'line {n}')\nprint('\\x1b[31mred \\x1b[2mdim\\x1b[0m')"
    with a_program(text, columns=80, rows=10) as terminal:
        assert terminal.wait_ended() == 0
        assert terminal.lines[0] == "line 22"
        assert terminal.scrolled[:2] == ["line 0", "line 1"]
        assert terminal.style_of("red").fg == "red"
        assert terminal.style_of("dim").blink
        assert not terminal.style_of("red").blink
        assert terminal.screen.uses_colour
        assert terminal.wraps == 0


def test_a_line_that_is_too_long_is_counted() -> None:
    with a_program("print('x' * 80, 'y' * 81, sep='\\n')") as terminal:
        terminal.wait_ended()
        assert terminal.wraps == 1
        assert not terminal.screen.uses_colour


def test_the_second_screen_goes_and_the_first_comes_back() -> None:
    text = (
        "print('before', flush=True)\nprint('\\x1b[?1049h\\x1b[Hinside', flush=True)\ninput()\n"
        "print('\\x1b[?1049l' + 'after')"
    )
    with a_program(text) as terminal:
        terminal.wait_for("inside")
        assert "before" not in terminal.text
        terminal.press("\n")
        terminal.wait_ended()
        assert terminal.lines[:2] == ["before", "after"]
        assert any("inside" in frame for frame in terminal.frames)


def test_a_program_learns_its_size_and_gets_ctrl_c() -> None:
    text = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print(*os.get_terminal_size(), flush=True))\n"
        "print(*os.get_terminal_size(), flush=True)\nwhile True: signal.pause()"
    )
    with a_program(text, columns=100, rows=30) as terminal:
        terminal.wait_for("100 30")
        terminal.resize(80, 24)
        terminal.wait_for("80 24")
        terminal.press(CTRL_C)
        terminal.wait_for("KeyboardInterrupt")
        assert terminal.wait_ended() != 0
