"""``up`` in a terminal, as its user sees it while nodes hang and die."""

from __future__ import annotations

import os
import re
import signal

import pytest

from rocketmq_emulator.cli.screens.live import DRAW_EVERY_S, PERIOD_S_MAX, PollInterval
from tests.support.cli.command_line import RMQEMU, environment, rmqemu
from tests.support.terminal import CTRL_C, Terminal


def an_up(*options: str, columns: int, rows: int, **more: str) -> Terminal:
    command = [*RMQEMU, "up", "--port=0", *options]
    return Terminal(command, columns=columns, rows=rows, env=environment(**more))


def pid_of(terminal: Terminal, name: str) -> int:
    return int(terminal.line_with(f"{name} ").split()[2])


def test_a_node_that_hangs_and_one_that_died_are_shown_and_the_clock_goes_on() -> None:
    with an_up(columns=80, rows=24) as terminal:
        terminal.wait_for("no groups yet")
        namesrv = re.search(r"namesrv (\S+)", terminal.text)[1]
        rmqemu("topic", "create", "orders", "-n", namesrv)
        terminal.wait_for("topic orders created")
        os.kill(pid_of(terminal, "broker-a"), signal.SIGSTOP)
        os.kill(pid_of(terminal, "broker-b"), signal.SIGKILL)
        terminal.wait_for("broker-b was killed by signal 9")
        pattern = re.compile(r"broker-a .* paused since \d\d:\d\d:\d\d \([2-9] s\)")
        terminal.wait_for(lambda text: pattern.search(text) is not None)
        assert re.search(r"broker-b .* dead since \d\d:\d\d:\d\d \(\d s\)", terminal.text)
        assert terminal.style_of("dead since").fg == "red"
        assert terminal.style_of("orders ").fg == "default"
        os.kill(pid_of(terminal, "broker-a"), signal.SIGCONT)
        terminal.wait_for("broker-a goes on")
        paused = [frame for frame in terminal.frames if "paused since" in "".join(frame)]
        assert len({frame[0] for frame in paused}) > 1
        assert terminal.wraps == 0
        terminal.press(CTRL_C)
        assert terminal.wait_ended() == 0
        assert "Traceback" not in "\n".join(terminal.scrolled)


def without_spaces(text: str) -> str:
    return "".join(text.split())


def test_what_a_damaged_store_has_lost_is_read_on_the_screen_and_again_behind_it(tmp_path) -> None:
    folder = tmp_path / "broker-a" / "commitlog"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    said = without_spaces("commitlog/notes.txt is no file of a commit log: it is not read")
    with an_up("--brokers=1", f"--store={tmp_path}", columns=80, rows=24) as terminal:
        terminal.wait_for("no groups yet")
        terminal.wait_for(lambda text: said in without_spaces(text))
        assert terminal.wraps == 0
        terminal.press(CTRL_C)
        assert terminal.wait_ended() == 0
        assert said in without_spaces("".join(terminal.lines))


def test_without_colours_the_same_is_said() -> None:
    with an_up("--embedded", columns=100, rows=30, NO_COLOR="1") as terminal:
        terminal.wait_for("no groups yet")
        assert terminal.lines[0].startswith("RocketMQ 4.9.7  up 0:0")
        assert "store in memory" in terminal.lines[1]
        assert re.search(r"ready in \d+\.\d\d s", terminal.lines[2])
        assert "running" in terminal.line_with("broker-b")
        assert terminal.wraps == 0
        terminal.resize(60, 12)
        terminal.wait_for(lambda text: re.search(r"ready in \S+ s\s*\nnode ", text) is not None)
        terminal.press(CTRL_C)
        assert terminal.wait_ended() == 0
        assert not terminal.screen.uses_colour


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    with an_up("--embedded", columns=800, rows=24, TERM="dumb") as terminal:
        terminal.wait_for('"ready_s"')
        terminal.press(CTRL_C)
        assert terminal.wait_ended() == 0
        assert terminal.wraps <= 4
        assert terminal.lines[0].startswith('{"namesrv": ')
        assert not terminal.screen.uses_colour


@pytest.mark.parametrize(
    ("share", "period_s"), [(0.01, DRAW_EVERY_S), (0.1, 1.0), (9.0, PERIOD_S_MAX)]
)
def test_a_cluster_is_looked_at_as_often_as_that_is_cheap(share, period_s) -> None:
    pace, cpu_s = PollInterval(0.0), 0.0
    for _ in range(30):
        cpu_s += share
        found = pace.period_s(cpu_s)
    assert found == pytest.approx(period_s)


def test_a_costly_look_is_taken_so_often_that_it_takes_a_tenth_of_a_core() -> None:
    pace, cpu_s, period_s, look_s = PollInterval(0.0), 0.0, 1.0, 0.4
    for _ in range(100):
        cpu_s += look_s / period_s
        period_s = pace.period_s(cpu_s)
    assert look_s / period_s == pytest.approx(0.1, rel=0.05)


def test_a_terminal_that_knows_only_ascii_shows_question_marks_and_up_goes_on() -> None:
    with an_up("--embedded", columns=80, rows=24, PYTHONIOENCODING="ascii") as terminal:
        terminal.wait_for("no groups yet")
        namesrv = re.search(r"namesrv (\S+)", terminal.text)[1]
        rmqemu("topic", "create", "orders" * 20, "-n", namesrv)
        terminal.wait_for("ord? ")  # a terminal with UTF-8 shows an ellipsis
        terminal.press(CTRL_C)
        assert terminal.wait_ended() == 0
