"""The driver of ``make torture``: a theme that fails is a row that says so, never silence."""

from __future__ import annotations

import sys
import types

import pytest

from tools.torture import Row, kills, peers, starts, tables
from tools.torture import __main__ as driver


def a_theme(monkeypatch: pytest.MonkeyPatch, rows: list[Row]) -> None:
    theme = types.ModuleType("tools.torture.scripted")
    theme.NAME, theme.run = "scripted", lambda: rows
    monkeypatch.setitem(sys.modules, theme.__name__, theme)


def test_every_theme_says_what_it_is() -> None:
    assert "kills" in driver.themes()
    assert all(driver._module(theme).NAME for theme in driver.themes())


def test_the_themes_have_the_sizes_that_are_promised() -> None:
    assert peers.LEAVING == 1_000
    assert peers.NON_READERS == 500
    assert tables.TOPICS == 10_000
    assert tables.LOCKS == 200_000
    assert kills.KILLS == 200
    assert "--timeout=0" in kills.COMMAND, "the limit of one test is for twenty kills"
    assert starts.MESSAGES == 1_000_000
    assert starts.BROKERS == 26


def test_rows_come_as_they_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    a_theme(monkeypatch, [("a thousand", "none dies", "one died", False)])
    assert driver.rows_of("scripted") == [Row("a thousand", "none dies", "one died", False)]


def test_a_theme_whose_process_dies_is_a_row_that_missed_its_aim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_theme(monkeypatch, [])  # known here, but no file: its process cannot import it
    (row,) = driver._run_apart("scripted")
    assert (row.found, row.reached) == ("exit status 1", False)
