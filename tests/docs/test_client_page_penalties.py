"""docs/client.md: the comparison of tables of latency faults has the numbers of runs."""

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
    assert slow_long * 10 < slow_short, "long penalties must avoid most slow sends"
    assert back_short * 5 < back_long, "after short ones the broker is used again soon"
    assert found["1,200", "articles"] == found["1,200", "4.x"], "articles name 60 s: right for 4.x"
