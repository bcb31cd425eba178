"""docs/tables.md: it lists the tables of the code, and its program runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from docs.generate import tables
from docs.generate.sections import with_section
from tests.support.pipeline.written_journals import a_journal


def test_the_page_lists_every_table_as_it_is(spark) -> None:
    page = tables.PAGE.read_text()
    told = with_section(page, "tables", tables.tables_text(spark))
    assert page == told, "run: python -m docs.generate.tables"


def test_the_programs_of_the_page_run(spark, tmp_path, monkeypatch, capsys) -> None:
    programs = re.findall(r"^```py\n(.*?)^```$", tables.PAGE.read_text(), re.DOTALL | re.MULTILINE)
    a_journal(tmp_path / "journals" / "run.jsonl", messages=3)
    monkeypatch.chdir(tmp_path)
    shown = []
    for program in programs:  # the second one reads with pandas what the first has made
        exec(compile(program, "docs/tables.md", "exec"), {})  # noqa: S102  # what users paste
        shown.append(capsys.readouterr().out)
    assert "{orders, broker-a...|    3|" in shown[0]
    assert "Empty DataFrame" in shown[1], "a journal without consumers has no deliveries"
    assert Path("tables", "gold", "delivery", "batch=1").exists()
