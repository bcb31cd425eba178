"""``rmqemu report``: its files, their places, and errors for journals that it cannot read."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.facts import MessageStored, NodeStarted, Queue
from rocketmq_emulator.facts.journal import Entry, encode_entry
from tests.support.cli.in_process import Run, commands
from tests.support.scenarios.journals_of_runs import a_run


@pytest.fixture
def run() -> Run:
    return commands()


def a_journal(path: Path, node: str = "broker-a", begin_us: int = 0) -> Path:
    started = NodeStarted("broker", "127.0.0.1:10911", "4.9.7")
    stored = [MessageStored(Queue("orders", node, 0), i, i * 99, f"K{i}", 99) for i in range(3)]
    entries = [
        Entry(i, 1_700_000_000_000 + i, begin_us + i * 1_000_000, node, fact)
        for i, fact in enumerate([started, *stored], 1)
    ]
    path.write_bytes(b"".join(map(encode_entry, entries)))
    return path


def test_a_page_is_written_beside_the_journal(run: Run, tmp_path: Path) -> None:
    done = run("report", str(a_journal(tmp_path / "run.jsonl")))
    assert done.stdout.strip() == f"{tmp_path}/run.html: 4 facts of 1 node in 3.0 s, no violation"
    assert "<title>run.jsonl</title>" in (tmp_path / "run.html").read_text()


def test_journals_of_a_folder_become_one_page_in_it(run: Run, tmp_path: Path) -> None:
    a_journal(tmp_path / "broker-a.jsonl")
    a_journal(tmp_path / "broker-b.jsonl", "broker-b", begin_us=500_000)
    done = run("report", str(tmp_path))
    assert "report.html: 8 facts of 2 nodes in 3.5 s" in done.stdout
    assert (tmp_path / "report.html").exists()


def test_the_page_goes_where_it_is_told_to(run: Run, tmp_path: Path) -> None:
    journal = str(a_journal(tmp_path / "run.jsonl"))
    run("report", journal, "-o", str(tmp_path / "x.html"), "--title", "A & B")
    assert "<title>A &amp; B</title>" in (tmp_path / "x.html").read_text()
    assert run("report", journal, "-o", "-").stdout.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_is_written_too_and_packed_when_its_name_says_so(
    run: Run, tmp_path: Path, name: str
) -> None:
    run("report", str(a_journal(tmp_path / "run.jsonl")), "--perfetto", str(tmp_path / name))
    data = (tmp_path / name).read_bytes()
    text = gzip.decompress(data) if name.endswith("gz") else data
    assert msgspec.json.decode(text)["displayTimeUnit"] == "ms"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"GET / HTTP/1.1\n", "line 1: this is no journal"),
        (
            b'{"seq":1,"at_ms":1,"mono_us":1,"node":"a","fact":{"kind":"Moon"}}\n',
            "Moon is no fact",
        ),
    ],
    ids=["empty", "foreign", "unknown"],
)
def test_what_is_no_journal_is_named_with_its_place_and_nothing_is_written(
    run: Run, tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    done = run("report", str(path), code=2)
    assert f"rmqemu: {path}" in done.stderr
    assert words in done.stderr
    assert not (tmp_path / "run.html").exists()


def test_a_journal_that_is_cut_off_can_be_drawn_up_to_there(run: Run, tmp_path: Path) -> None:
    path = a_journal(tmp_path / "run.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    assert "line 4: the last line is cut off" in run("report", str(path), code=2).stderr
    done = run("report", str(path), "--skip-damaged")
    assert "3 facts" in done.stdout
    assert "1 line left out" in done.stderr


def test_a_page_is_never_written_over_a_journal(run: Run, tmp_path: Path) -> None:
    path = a_journal(tmp_path / "run.html")
    assert "is a journal" in run("report", str(path), code=2).stderr
    assert path.read_bytes().startswith(b'{"seq":1')


# Several runs ---------------------------------------------------------------------------------


def test_of_several_runs_each_has_a_page_and_one_page_lists_them(run: Run, tmp_path: Path) -> None:
    for seed, lost in ((1, 0), (2, 1), (10, 0)):
        a_run(tmp_path, seed, lost=lost)
    done = run("report", str(tmp_path), "-o", str(tmp_path / "all.html"))
    assert "all.html: 3 runs, 1 failed, 2 passed; a page of each in " in done.stdout
    pages = {page.name for page in (tmp_path / "all-pages").iterdir()}
    assert pages == {"orders-seed1.html", "orders-seed2.html", "orders-seed10.html"}
    index = (tmp_path / "all.html").read_text()
    links = re.findall(r'href="([^"]*)"', index.partition("<tbody>")[2])
    assert links == [
        f"all-pages/orders-seed{seed}.html" for seed in (2, 1, 10)
    ]  # the failed one first
    assert all((tmp_path / link).is_file() for link in links)


def test_runs_of_the_same_name_in_two_folders_keep_a_page_each(run: Run, tmp_path: Path) -> None:
    folders = [tmp_path / "before", tmp_path / "after"]
    for lost, folder in enumerate(folders):
        folder.mkdir()
        a_run(folder, 1, lost=lost)
    index = tmp_path / "both"  # a name without a suffix is no folder either
    run("report", *map(str, folders), "-o", str(index))
    pages = {page.name for page in (tmp_path / "both-pages").iterdir()}
    assert pages == {"orders-seed1.html", "orders-seed1-2.html"}
    links = re.findall(r'href="([^"]*)"', index.read_text().partition("<tbody>")[2])
    assert {*links} == {f"both-pages/{page}" for page in pages}


@pytest.mark.parametrize("option", [("-o", "-"), ("--perfetto", "trace.json")])
def test_what_can_only_show_one_run_asks_which_of_several(
    run: Run, tmp_path: Path, option: tuple[str, str]
) -> None:
    for seed in (1, 2):
        a_run(tmp_path, seed)
    done = run("report", str(tmp_path), *option, code=2)
    assert "these are 2 runs: name one of " in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_run_that_ended_with_an_error_has_not_passed(run: Run, tmp_path: Path) -> None:
    journal = a_run(tmp_path, 1, error="UnknownNode: there is no node named 'brokers'")
    done = run("report", str(journal))
    assert "no violation, but it has not passed" in done.stdout
    assert "the run did not finish (error): UnknownNode" in done.stderr
