"""docs/compatibility.md: it is what the record says, and the record has every column."""

from __future__ import annotations

from docs.generate import compatibility
from docs.generate.sections import with_section
from tests.compatibility.features import NOTES, TITLES
from tests.compatibility.programs import PROGRAMS
from tests.compatibility.record import COLUMNS, Record, recorded

ROWS_MIN = {
    "java-4-9-8": 61,
    "java-5-3-3": 70,
    "java-5-4-0": 70,
    "spring": 23,
    "go": 43,
    "node": 19,
    "python": 15,
}


def test_the_page_is_what_the_record_says() -> None:
    page = compatibility.PAGE.read_text()
    record = recorded()
    written = with_section(page, "summary", compatibility.summary_text(record))
    written = with_section(written, "features", compatibility.features_text(record))
    assert page == written, "run: python -m docs.generate.compatibility"


def test_every_feature_of_every_sdk_ran_on_every_cluster() -> None:
    record = recorded()
    assert list(record.sdks) == list(PROGRAMS) == list(ROWS_MIN)
    assert list(record.commands) == list(COLUMNS)
    for sdk, rows in record.sdks.items():
        assert set(rows) <= set(TITLES)
        assert len(rows) >= ROWS_MIN[sdk], "a row was fixed by what ran on the real one"
        for feature, row in rows.items():
            assert list(row) == list(COLUMNS), f"{sdk} {feature}"
    assert set(NOTES) <= set(TITLES)


def test_a_feature_that_only_the_real_one_has_is_in_the_summary_with_its_reason() -> None:
    worse = {"real-4.9.7": "works", "real-5.3.3": "works", "ours-4.9.7": "works"}
    record = Record(sdks={"go": {"consume-pop": {**worse, "ours-5.3.3": "fails: CODE: 3 | no"}}})
    summary = compatibility.summary_text(record)
    assert "- POP (since 5.0; not supported here): Go 2.1.2 as 5.3.3" in summary
    assert "| 1 | 1 | 1 | 1 | 0 |" in summary
    table = compatibility.features_text(record)
    assert "| POP | yes | yes | yes | no |" in table
    assert "ours as 5.3.3: `CODE: 3 / no`" in table


def test_without_such_a_feature_the_summary_says_so() -> None:
    fails = dict.fromkeys(COLUMNS, "fails: not here")
    summary = compatibility.summary_text(Record(sdks={"go": {"recall": fails}}))
    assert "No feature works with a real RocketMQ only." in summary


def test_features_with_one_note_are_one_line_below_the_table() -> None:
    row = {column: "fails: Broken: no handle" for column in COLUMNS if "4.9.7" in column}
    rows = {**row, "real-5.3.3": "works", "ours-5.3.3": "works"}
    table = compatibility.features_text(
        Record(sdks={"go": {"send-delay-ms": rows, "send-deliver-at": rows, "pull": rows}})
    )
    reasons = [line for line in table.splitlines() if line.startswith("- ")]
    seen = "real 4.9.7, ours as 4.9.7: `no handle`"
    timers = "delay by milliseconds, delivery at a time (timer messages: since 5.0)"
    assert reasons == [f"- {timers}. {seen}", f"- pull from a queue. {seen}"]
