"""Pictures of terminals: their columns line up in any viewer, with any font."""

from __future__ import annotations

import re

import pytest
from rich.console import Group
from rich.text import Text

from docs.generate.terminal_picture import CELL, picture


def test_pictures_of_terminals_need_no_font_to_line_up() -> None:
    line = Text.assemble(("queue  ", "bold"), "a&b ▃▃▅··── ", ("20 s", "red"))
    svg = picture(Group(line, line), columns=30, title="t")
    words = re.findall(r'<text x="([\d.]+)" .*textLength="([\d.]+)" .*>([^<]*)</text>', svg)
    assert [word for _, _, word in words] == ["t", *["queue", "a&amp;b", "20", "s"] * 2]
    assert len(words) == svg.count("<text")
    assert float(words[1][1]) == pytest.approx(5 * CELL, abs=0.1)
    assert float(words[3][0]) - float(words[1][0]) == pytest.approx(19 * CELL, abs=0.1)
    assert svg.count("<rect") == 1 + 2 * 5  # the window; two heights, two dots, one rule
