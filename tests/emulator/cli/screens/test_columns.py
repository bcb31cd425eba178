"""Columns that fit, keep their widths, and mark every cut."""

from __future__ import annotations

import pytest
from rich.text import Text

from rocketmq_emulator.cli.screens.columns import Column, Sheet, clean

COLUMNS = (
    Column("name", narrow=6),
    Column("where", spare=True),
    Column("count", is_number=True),
    Column("state", narrow=4),
)
ROW = (
    "a-long-name",
    "127.0.0.1:1",
    "1,000",
    ("not answering since noon", "not answering", "silent"),
)


def lines_of(rows, width, memory=None) -> list[str]:
    return [line.plain for line in Sheet(COLUMNS, rows).lines(width, memory)]


def test_with_room_everything_is_there_and_numbers_are_to_the_right() -> None:
    assert lines_of([ROW, ("b", "c", "7", "ok")], 100) == [
        "name         where        count  state",
        "a-long-name  127.0.0.1:1  1,000  not answering since noon",
        "b            c                7  ok",
    ]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (50, "a-long-name  127.0.0.1:1  1,000  not answering"),
        (42, "a-long-na…  127.0.0.1:1  1,000  silent"),
        (33, "a-lon…  127.0.0.1:1  1,000  sile…"),
        (30, "a-long-na…  1,000  silent"),
        (18, "a-lon…  1,000  si…"),
        (10, "a-lon…  1…"),
    ],
)
def test_with_less_room_cells_get_shorter_then_columns_go_and_nothing_is_cut_unseen(
    width, line
) -> None:
    assert lines_of([ROW], width)[1] == line


@pytest.mark.parametrize("width", range(1, 60))
def test_no_line_is_wider_than_it_may_be(width) -> None:
    rows = [ROW, ("名前" * 9, "", "1" * 20, Text("x" * 30, "red"))]
    assert all(line.cell_len <= width for line in Sheet(COLUMNS, rows).lines(width))


def test_a_column_that_was_wide_stays_so() -> None:
    memory: dict[str, int] = {}
    wide = lines_of([ROW], 100, memory)
    assert lines_of([("b", "c", "7", "ok")], 100, memory)[0] == wide[0]
    assert lines_of([("b", "c", "7", "ok")], 100)[0] != wide[0]


def test_a_name_moves_no_cursor() -> None:
    assert clean("a\x1b[2J\nb") == "a·[2J·b"
