"""The progress that ``up`` shows while its nodes read large stores."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cli.commands.up import StartProgress
from rocketmq_emulator.processes.starting import NodeProgress


def test_in_a_pipe_each_node_has_a_line_for_every_tenth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with StartProgress(are_bars=False) as progress:
        for done in range(0, 26, 5):
            progress.show("broker-a", NodeProgress("log", done, 100))
        progress.show("broker-b", NodeProgress("timers", 31, 100))
    assert capsys.readouterr().err.splitlines() == [
        "broker-a reads its log: 10 %",
        "broker-a reads its log: 20 %",
        "broker-b reads its timers: 30 %",
    ]


def test_in_a_terminal_each_node_has_a_bar_and_none_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with StartProgress(are_bars=True) as progress:
        progress.show("broker-a", NodeProgress("log", 37, 100))
        progress.close()
        shown = capsys.readouterr().err
        progress.show("broker-a", NodeProgress("log", 50, 100))
    assert "broker-a reads its log" in shown
    assert "37%" in shown
    assert capsys.readouterr().err == ""
