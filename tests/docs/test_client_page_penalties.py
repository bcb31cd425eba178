"""docs/client.md: the tables of latency faults side by side, as runs have them."""

from __future__ import annotations

import re

from docs.generate.penalties import PAGE, TABLES, penalties_text
from docs.generate.sections import with_section


def test_the_page_shows_what_each_table_of_latency_faults_comes_to() -> None:
    page, text = PAGE.read_text(), penalties_text()
    assert with_section(page, "penalties", text) == page, "run make page"
    rows = re.findall(r"^([\d,]+) ms +(\S+) .* (\d+) +(\d+) s$", text, re.MULTILINE)
    found = {(ms, table): (int(slow), int(back)) for ms, table, slow, back in rows}
    assert [table for _, table in found] == [*TABLES, *TABLES]
    slow_long, back_long = found["600", "4.x"]
    slow_short, back_short = found["600", "5.1.4"]
    assert slow_long * 10 < slow_short, "a long table spares slow sends"
    assert back_short * 5 < back_long, "a short one lets the broker come back"
    assert found["1,200", "articles"] == found["1,200", "4.x"], "60 s is right for 4.x"
