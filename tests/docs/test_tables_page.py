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


def test_the_program_of_the_page_runs(spark, tmp_path, monkeypatch, capsys) -> None:
    (program,) = re.findall(
        r"^```py\n(.*?)^```$", tables.PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    a_journal(tmp_path / "journals" / "run.jsonl", messages=3)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "docs/tables.md", "exec"), {})  # noqa: S102  # what users paste
    assert "{orders, broker-a...|    3|" in capsys.readouterr().out
    assert Path("tables", "gold", "delivery", "batch=1").exists()
