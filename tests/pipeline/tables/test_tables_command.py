"""``rmqemu tables``: its output, its exit codes, and a second call, which adds nothing."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("pyspark")

from typer.testing import CliRunner, Result

from rocketmq_emulator.cli.app import application
from rocketmq_emulator.pipeline import session
from rocketmq_emulator.pipeline.session import SparkUnavailable
from rocketmq_emulator.pipeline.tables.folder import TableFolder
from tests.support.pipeline.written_journals import a_journal


def command(*words: object) -> Result:
    return CliRunner().invoke(application("tables"), ["tables", *map(str, words)])


def test_runs_are_added_once_and_bad_lines_are_named(spark, tmp_path) -> None:
    journal = a_journal(tmp_path / "journals" / "run.jsonl", messages=3)
    journal.write_bytes(journal.read_bytes() + b'{"seq":9')
    words = (journal.parent, "--to", tmp_path / "tables", "--facts-only")
    first = command(*words)
    assert first.exit_code == 0, first.output
    shown = first.output.replace("\n", "")
    assert "line 5: no JSON object: cut off, or damaged" in shown
    assert "1 run added to" in shown
    assert "(4 facts), 0 were there already" in shown
    assert re.search(r"\d\.\d s  Spark is starting.*\d\.\d s  runs: 1 of 1", shown)
    (row,) = TableFolder(tmp_path / "tables", spark).runs()
    assert row.verdict == "error", "the journal has no end"
    again = command(*words, "--json")
    assert json.loads(again.stdout)["added"]["known"] == 1


def test_bad_use_is_one_line_and_exit_code_2(tmp_path, monkeypatch) -> None:
    nothing = command(tmp_path / "nowhere", "--to", tmp_path / "tables")
    assert nothing.exit_code == 2
    assert "there is no such file or folder" in nothing.output

    def missing() -> None:
        raise SparkUnavailable("pyspark is not installed: pip install 'rocketmq-emulator[spark]'")

    monkeypatch.setattr(session, "check_spark", missing)
    without = command(tmp_path, "--to", tmp_path / "tables")
    assert without.exit_code == 2
    assert "pip install 'rocketmq-emulator[spark]'" in without.output


def test_a_table_that_spark_cannot_write_is_one_line_and_the_next_call_makes_it(
    spark, tmp_path
) -> None:
    journal = a_journal(tmp_path / "journals" / "run.jsonl", messages=1)
    to = tmp_path / "tables"
    in_the_way = to / "bronze"
    to.mkdir()
    in_the_way.write_text("a file where a folder must be")
    failed = command(journal, "--to", to, "--facts-only")
    assert failed.exit_code == 1, failed.output
    shown = " ".join(failed.output.split())
    assert "Spark could not write the table facts: " in shown
    assert "Traceback" not in shown
    assert "\tat " not in failed.output, "a line of Java's trace"
    in_the_way.unlink()
    again = command(journal, "--to", to, "--facts-only")
    assert again.exit_code == 0, again.output
    assert TableFolder(to, spark).table("facts").count() == 2
