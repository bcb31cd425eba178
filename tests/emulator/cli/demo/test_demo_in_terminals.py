"""The demo in two terminal windows: one run to the end, one stopped with Ctrl-C."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.support.cli.command_line import RMQEMU, environment
from tests.support.terminal import CTRL_C, Terminal

WHOLE = (*RMQEMU, "demo")  # long enough to show every event on a busy machine
QUICK = (*WHOLE, "--quick")
EVENT = re.compile(r" *(\d+\.\d) s  (.*)")
HEAD = re.compile(r"RocketMQ demo +(\d+\.\d) s ")


@pytest.fixture(scope="module")
def done():
    """A run to its end at 80×24 without colours, and its exit code."""
    with Terminal(QUICK, columns=80, rows=24, env=environment(NO_COLOR="1")) as terminal:
        code = terminal.wait_ended()
        yield terminal, code


def screens(terminal: Terminal) -> list[list[str]]:
    """The frames of the live screen: each begins with its heading."""
    return [frame for frame in terminal.frames if HEAD.match(frame[0])]


def test_nothing_wraps_and_no_colour_is_used_where_none_is_wanted(done) -> None:
    terminal, code = done
    assert code == 0, terminal.text
    assert terminal.wraps == 0
    assert not terminal.screen.uses_colour


def test_the_newest_event_is_on_the_screen_at_every_moment(done) -> None:
    """In a frame or in the one that follows: a frame may be read while it is written."""
    terminal, _ = done
    events = [found.groups() for line in terminal.scrolled if (found := EVENT.fullmatch(line))]
    assert len(events) > 9, "the oldest event must have left the screen"
    shown = screens(terminal)
    for frame, following in itertools.pairwise(shown):
        now_s = float(HEAD.match(frame[0])[1])
        past = [text for at_s, text in events if float(at_s) < now_s - 0.1]
        if past:
            assert any(past[-1] in line for line in (*frame[5:], *following[5:])), frame
    assert {"killed" in "".join(frame[5:]) for frame in shown[-3:]} == {True}


def test_a_line_says_what_is_shown_and_why_at_every_moment(done) -> None:
    terminal, _ = done
    for frame in screens(terminal):
        assert frame[1].startswith("Now: ")
        assert frame[2].startswith("     ")
    shown = {frame[1].partition(" (")[0] for frame in screens(terminal)}
    for what in ("consumer-b is killed", "broker-b is killed", "broker-b is back"):
        assert any(what in line for line in shown), shown


def test_no_row_above_the_newest_event_is_blank(done) -> None:
    terminal, _ = done
    for frame in screens(terminal):
        rows = "\n".join(frame).rstrip().split("\n")
        assert all(row.strip() for row in rows), frame


def test_the_last_screen_stays_and_then_come_the_account_and_what_to_try(done) -> None:
    terminal, _ = done
    lines = terminal.scrolled
    head = next(number for number, line in enumerate(lines) if HEAD.match(line))
    assert lines[head + 1].startswith("Now: every acknowledged line was delivered")
    strips = [line for line in lines[head:] if re.match(r"broker-b/\d .*[▁-█].*·", line)]
    assert len(strips) == 4, lines
    rest = "\n".join(lines[head:])
    places = [rest.index(part) for part in ("three consumers", "The account", "Try next")]
    assert places == sorted(places)
    assert not terminal.screen.is_alternate


def test_a_window_may_become_too_small_and_large_again_and_ctrl_c_gives_an_account() -> None:
    with Terminal(WHOLE, columns=100, rows=30, env=environment()) as terminal:
        terminal.wait_for("Now: consumer-b is killed")
        assert terminal.screen.is_alternate
        terminal.resize(60, 20)
        terminal.wait_for(lambda _: not terminal.screen.is_alternate)
        terminal.wait_for("broker-b is killed with -9")
        terminal.resize(100, 30)
        terminal.wait_for("Now: broker-b is")
        assert terminal.screen.is_alternate
        terminal.press(CTRL_C)
        assert terminal.wait_ended() == 130
    assert not terminal.screen.is_alternate
    text = "\n".join(terminal.scrolled)
    assert re.search(r"The account: stopped early, \d+ not yet delivered", text)
    assert "lost  " not in text
    assert terminal.screen.uses_colour
