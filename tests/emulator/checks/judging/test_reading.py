"""Reading journals from files: what cannot be read is reported with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_emulator.checks.judging.reading import BadJournal, Skipped, entries_in, read_journals
from rocketmq_emulator.facts import NodeStarted
from tests.support.checks.small_journals import a_consumed_journal


def a_file(folder: Path, lines: list[bytes], name: str = "run.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"".join(lines))
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    journal = a_consumed_journal()
    entries = list(read_journals([a_file(tmp_path, journal.lines())]))
    assert [each.fact for each in entries] == [each.fact for each in journal.entries]
    assert [each.seq for each in entries] == [each.seq for each in journal.entries]


def test_journals_of_several_nodes_are_merged_by_time_also_those_of_a_folder(
    tmp_path: Path,
) -> None:
    journal = a_consumed_journal()
    files = []
    for node in {entry.node for entry in journal.entries}:
        own = [
            line
            for entry, line in zip(journal.entries, journal.lines(), strict=True)
            if entry.node == node
        ]
        half = len(own) // 2
        a_file(tmp_path, own[:half], f"{node}.jsonl.1")  # the full file that was renamed
        files += [tmp_path / f"{node}.jsonl.1", a_file(tmp_path, own[half:], f"{node}.jsonl")]
    wanted = [each.fact for each in journal.entries]
    assert [each.fact for each in read_journals(files)] == wanted
    assert [each.fact for each in read_journals([tmp_path])] == wanted


DAMAGE = {
    "the last line is cut off": lambda lines: [*lines[:-1], lines[-1][:40]],
    "this line is damaged": lambda lines: [*lines[:5], b'{"seq":6,"at_ms":zzz}\n'],
    "this is no journal: its first line is not JSON": lambda lines: [b"# a log file\n", *lines],
    "this is no journal of this emulator": lambda lines: [b'{"level":"info"}\n', *lines],
    "is no fact of schema 5": lambda lines: [
        *lines[:5],
        lines[5].replace(b'"kind":"', b'"kind":"Very'),
    ],
    "that is not as schema 5 says": lambda lines: [
        *lines[:1],
        lines[1].replace(b'"retained_hours_max":72', b'"retained_hours_max":"many"'),
    ],
}
PLACES = {"the last line": 0, "this line": 6, "is no fact": 6, "that is not": 2}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_cannot_be_read_is_named_with_its_file_and_line(tmp_path: Path, what: str) -> None:
    lines = DAMAGE[what](a_consumed_journal().lines())
    path = a_file(tmp_path, lines)
    with pytest.raises(BadJournal, match=what) as caught:
        list(read_journals([path]))
    place = next((n for words, n in PLACES.items() if what.startswith(words)), 1)
    assert caught.value.line == (place or len(lines))
    assert str(caught.value).startswith(f"{path}, line {caught.value.line}: ")


@pytest.mark.parametrize("what", DAMAGE)
def test_a_reader_that_skips_goes_on_and_counts(tmp_path: Path, what: str) -> None:
    lines = DAMAGE[what](a_consumed_journal().lines())
    skipped = Skipped()
    entries = list(read_journals([a_file(tmp_path, lines)], skipped))
    assert (skipped.count, len(entries)) == (1, len(lines) - 1)
    assert what in str(skipped.places[0])


def test_a_newer_schema_is_named(tmp_path: Path) -> None:
    line = a_consumed_journal().note("n", NodeStarted("broker", "", "4.9.7", 9)).lines()[-1]
    newer = line.replace(b'"kind":"NodeStarted"', b'"kind":"NodeBegan"')
    with pytest.raises(BadJournal, match="facts of schema 9, and this emulator reads up to 5"):
        list(read_journals([a_file(tmp_path, [newer])]))


def test_paths_that_have_no_journal_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadJournal, match="no such file or folder"):
        read_journals([tmp_path / "nothing.jsonl"])
    with pytest.raises(BadJournal, match="this folder has no journals"):
        read_journals([tmp_path])
    with pytest.raises(BadJournal, match="the file is empty"):
        list(read_journals([a_file(tmp_path, [])]))


def test_lines_need_no_file() -> None:
    journal = a_consumed_journal()
    assert len(list(entries_in(journal.lines()))) == len(journal.entries)
    with pytest.raises(BadJournal, match="journal, line 2"):
        list(entries_in([journal.lines()[0], b"?\n"]))
