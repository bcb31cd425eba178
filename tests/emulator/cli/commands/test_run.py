"""The command ``rmqemu run``: its output and its exit codes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner, Result

from rocketmq_emulator.cli.app import application
from rocketmq_emulator.cli.screens.sweep_screen import coverage_screen
from rocketmq_emulator.scenarios.weather.coverage import COVERED, Coverage

PATIENCE_S = 60
A_FILE = """
title = "A short one"
[topics.orders]
queues = 2
[[consumers]]
group = "billing"
topic = "orders"
[[load]]
topic = "orders"
rate = "10/s"
until = "1s"
[expect]
lost = 0
"""


def command(*arguments: str, folder, verb: str = "run") -> Result:
    """Invoke the command in this process; its runs use other processes."""
    runner = CliRunner(env={"XDG_CACHE_HOME": str(folder)})
    return runner.invoke(application(verb), [verb, *arguments])


@pytest.fixture
def short(tmp_path):
    file = tmp_path / "short.toml"
    file.write_text(A_FILE)
    return file


def test_seeds_that_pass_are_a_table_a_junit_file_and_exit_code_0(short, tmp_path) -> None:
    junit = tmp_path / "junit.xml"
    found = command(str(short), "--seeds", "1..2", "--junit", str(junit), folder=tmp_path)
    assert found.exit_code == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["seed", "verdict", "virtual", "s", "took", "s", "facts", "why"]
    assert [line.split()[:2] for line in lines[1:3]] == [["1", "passed"], ["2", "passed"]]
    assert "short: 2 seeds, 2 passed" in lines
    assert 'tests="2" failures="0" errors="0"' in junit.read_text()
    again = command(str(short), "--seeds", "1..2", folder=tmp_path)
    assert "2 passed (2 of them known from before)" in again.stdout


def test_a_seed_that_fails_is_exit_code_1_and_names_its_journal(short, tmp_path) -> None:
    short.write_text(A_FILE.replace("lost = 0", "sends_max = 3"))
    found = command(str(short), folder=tmp_path)
    assert found.exit_code == 1
    assert "sends <= 3 was expected, it is 10" in found.stdout
    (journal,) = tmp_path.rglob("short-seed1.jsonl")
    assert found.stdout.splitlines()[2:] == [
        "short: 1 seed, 1 failed",
        "  sends <= 3: it is 10",
        f"journal of seed 1: {journal}",
        f"next: rmqemu explain {journal}; or report, shrink",
    ]


def test_transactions_are_counted_by_their_ends(short, tmp_path) -> None:
    load = 'mode = "transaction"\nrollbacks = 0.5\nunknowns = 0.5\nuntil = "1s"'
    short.write_text(A_FILE.replace('until = "1s"', load))
    found = command(str(short), folder=tmp_path)
    lines = found.stdout.splitlines()
    assert "  10 half messages: 0 committed, 10 rolled back, 0 given up, 0 open" in lines
    assert any(line.endswith(" checks of half messages: 0 asked nobody") for line in lines)


def test_journals_of_many_seeds_are_one_line(short, tmp_path) -> None:
    short.write_text(A_FILE.replace("lost = 0", "sends_max = 3"))
    found = command(str(short), "--seeds", "1..4", folder=tmp_path)
    (journal,) = tmp_path.rglob("short-seed1.jsonl")
    (said,) = (line for line in found.stdout.splitlines() if "journal" in line)
    assert said == f"journal of seed N: {journal}".replace("seed1", "seedN")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing_like_it",), "there is no such scenario"),
        (("broker_dies", "--seeds", "5..1"), "--seeds is A..B"),
        (("broker_dies", "--set", "members"), "--set is NAME=VALUE"),
        (("broker_dies", "--release", "4.9.77x"), "--release"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_exit_code_2(arguments, said, tmp_path) -> None:
    found = command(*arguments, folder=tmp_path)
    assert found.exit_code == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_ctrl_c_shows_what_is_finished_and_ends_with_130(short, tmp_path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketmq_emulator.cli", "run", str(short), "--seeds", "1..1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    rows, until_s = tmp_path / "rocketmq-emulator" / "runs", time.monotonic() + PATIENCE_S
    while not [*rows.glob("*.jsonl")]:
        assert process.poll() is None
        assert time.monotonic() < until_s, "no run was finished"
        signal.sigtimedwait([], 0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "of 1000 seeds were finished" in errors
    assert "passed" in output


def test_a_journal_with_an_old_name_is_read_and_not_run_again(short, tmp_path) -> None:
    command(str(short), "--journal", str(tmp_path), folder=tmp_path)
    journal = tmp_path / "short-seed1.jsonl"
    first, *lines = journal.read_bytes().splitlines(keepends=True)
    entry = json.loads(first)
    plan = json.loads(entry["fact"]["plan"])
    plan["consumers"][0]["strategy"] = "emulator.client.consumer.pinned:mine"
    entry["fact"]["plan"] = json.dumps(plan)
    journal.write_bytes(b"".join([json.dumps(entry).encode() + b"\n", *lines]))
    judged = command(str(journal), folder=tmp_path, verb="judge")
    assert judged.exit_code == 0, judged.stderr
    found = command(str(journal), folder=tmp_path, verb="replay")
    assert found.exit_code == 2
    assert found.stderr.startswith(f"rmqemu: {journal} can be read, but not run again: emulator")
    assert "rocketmq_emulator.client.consumer.group.allocation:mine now" in found.stderr


def test_a_journal_is_replayed_byte_for_byte_or_where_it_parts_is_shown(short, tmp_path) -> None:
    command(str(short), "--journal", str(tmp_path), folder=tmp_path)
    journal = tmp_path / "short-seed1.jsonl"
    found = command(str(journal), folder=tmp_path, verb="replay")
    assert found.exit_code == 0, found.stderr
    assert "facts, byte for byte" in found.stdout
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[20] = lines[20].replace(b'"seq":', b'"seq":1')
    journal.write_bytes(b"".join(lines))
    parted = command(str(journal), folder=tmp_path, verb="replay")
    assert parted.exit_code == 1
    assert "the journals differ at line 21" in parted.stderr


def test_one_run_of_weather_shows_only_the_faults_that_began() -> None:
    coverage = Coverage({("kill", "calm"): 2})
    shown = {
        count: render(coverage_screen(coverage, run_count=count)).splitlines() for count in (1, 2)
    }
    assert [line.split()[0] for line in shown[1][2:]] == ["kill"]
    assert [line.split()[0] for line in shown[2][2:]] == [*COVERED]


def render(screen: RenderableType) -> str:
    console = Console(width=100, file=io.StringIO())
    console.print(screen)
    return str(console.file.getvalue())
