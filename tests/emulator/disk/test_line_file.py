"""A file of lines stays within its size, and loses only its oldest lines."""

from __future__ import annotations

from pathlib import Path

from rocketmq_emulator.disk.line_file import LineFile, line_files


def numbered(count: int) -> list[bytes]:
    return [b"line %02d\n" % number for number in range(count)]


def test_a_full_file_is_numbered_and_the_oldest_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    file = LineFile(path, bytes_max=24, files_max=3)
    for line in numbered(11):
        assert file.append(line)
    file.close()
    lines = numbered(11)
    assert [found.name for found in line_files(path)] == [
        "journal.jsonl.2",
        "journal.jsonl.1",
        "journal.jsonl",
    ]
    assert b"".join(found.read_bytes() for found in line_files(path)) == b"".join(lines[3:])
    assert sorted(found.name for found in tmp_path.iterdir()) == sorted(
        found.name for found in line_files(path)
    )


def test_a_file_that_is_there_counts_from_its_size(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for line in numbered(4):
        file = LineFile(path, bytes_max=24, files_max=2)
        file.append(line)
        file.close()
    assert [found.read_bytes().count(b"\n") for found in line_files(path)] == [3, 1]


def test_a_line_longer_than_a_file_may_be_has_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    file = LineFile(path, bytes_max=10, files_max=3)
    for line in (b"short\n", b"longer than ten\n", b"last\n"):
        assert file.append(line)
    file.close()
    assert [found.read_bytes() for found in line_files(path)] == [
        b"short\n",
        b"longer than ten\n",
        b"last\n",
    ]


def test_where_no_file_can_be_begun_the_old_one_grows_on(tmp_path: Path) -> None:
    folder = tmp_path / "journals"
    folder.mkdir()
    file = LineFile(folder / "journal.jsonl", bytes_max=10, files_max=3)
    assert file.append(b"first\n")
    (folder / "journal.jsonl").rename(tmp_path / "kept")
    folder.rmdir()
    assert file.append(b"second\n")
    file.close()
    assert (tmp_path / "kept").read_bytes() == b"first\nsecond\n"
