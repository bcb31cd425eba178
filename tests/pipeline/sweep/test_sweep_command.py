"""``rmqemu sweep`` as a command: its output, its exit codes, and how it continues after a stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rocketmq_emulator.cli.app import application
from rocketmq_emulator.cli.commands import spark as command_module
from rocketmq_emulator.pipeline import session
from rocketmq_emulator.pipeline.sweep.folder import SweepFolder, stored_sweep
from rocketmq_emulator.pipeline.sweep.grid import grid_of
from tests.support.pipeline.sweeping import QUESTIONS, SHORT, asked, swept_here

PATIENCE_S = 120
ROWS = 600


def command(*words: object) -> Result:
    """Run the command in this process, without Spark: for bad use and for finished sweeps."""
    return CliRunner().invoke(application("sweep"), ["sweep", *map(str, words)])


@pytest.fixture
def no_spark(monkeypatch) -> None:
    def refused(*_, **__) -> None:
        raise AssertionError("nothing is to be run")

    monkeypatch.setattr(session, "spark_session", refused)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("more_members_than_quees",), "there is no such scenario"),
        (("sharing", "--vary", "member=3..4"), "did you mean members"),
        (("sharing", "--vary", "members"), "--vary is NAME=VALUE"),
        (("sharing", "--vary", "members=1,2", "--vary", "members=3"), "varied twice"),
        (("sharing", "--seeds", "5..1"), "--seeds is A..B"),
        (("sharing", "--conf", "spark.x"), "--conf is NAME=VALUE"),
        (("read_only", "--release", "4.9.77x"), "--release"),
    ],
)
def test_what_cannot_be_swept_is_one_line_and_exit_code_2(words, said, tmp_path, no_spark) -> None:
    found = command(*words, "--to", tmp_path / "sweep")
    assert found.exit_code == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "sweep").exists()


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch) -> None:
    def missing() -> None:
        raise session.SparkUnavailable(f"pyspark is not installed: {session.INSTALL}")

    monkeypatch.setattr(session, "check_spark", missing)
    found = command("sharing", "--to", tmp_path / "sweep")
    assert found.exit_code == 2
    assert "pip install 'rocketmq-emulator[spark]'" in found.stderr


def test_the_summary_has_a_row_for_each_cell_and_the_command_for_the_worst(
    spark, short, tmp_path, no_spark
) -> None:
    short.write_text(
        SHORT.replace('rate = "10/s"', 'rate = "$queues/s"').replace("lost = 0", "sends_max = 8")
    )
    ask = asked(short, "queues=8,12", seeds=range(1, 3))
    swept_here(spark, tmp_path / "sweep", ask)
    words = (short, "--vary", "queues=8,12", "--seeds", "1..2", "--to", tmp_path / "sweep")
    found = command(*words)
    assert found.exit_code == 1, found.stderr
    lines = [line.split() for line in found.stdout.splitlines()]
    assert lines[0][:4] == ["queues", "passed", "failed", "error"]
    assert lines[1] == ["8", "2", "0", "0", "8", "(seed", "1)"]
    assert lines[2] == ["12", "0", "2", "0", "12", "(seed", "1)"]
    assert "short: 4 rows, 2 passed, 2 failed (4 of them known from before)" in found.stdout
    assert "sends <= 8: worst 12, queues=12, seed 1" in found.stdout
    (again,) = [line for line in found.stdout.splitlines() if line.startswith("again: ")]
    journal = Path(again.rpartition(" ")[2])
    assert journal.is_file()
    assert journal.name.endswith("-seed1.jsonl")
    summary = json.loads(command(*words, "--json").stdout)
    assert summary["replay"] == f"rmqemu replay {journal}"
    assert (summary["done"], summary["failed"], summary["folder"]) == (
        4,
        2,
        str(tmp_path / "sweep"),
    )


def test_the_first_seed_that_failed_is_shrunk_at_once(spark, short, tmp_path, no_spark) -> None:
    short.write_text(SHORT.replace("lost = 0", "sends_max = 3"))
    swept_here(spark, tmp_path / "sweep", asked(short, seeds=range(4, 6)))
    found = command(short, "--seeds", "4..5", "--to", tmp_path / "sweep", "--shrink")
    assert found.exit_code == 1, found.stderr
    assert "failed in the same way" in found.stdout
    shrunk = tmp_path / "sweep" / "short-seed4-shrunk.toml"
    assert "sends" in shrunk.read_text()


def in_progress(folder: Path) -> int:
    """The number of rows in the logs and files of a sweep that another process runs."""
    lines = 0
    for log in (folder / "under_way").glob("*.jsonl"):
        with suppress(FileNotFoundError):  # its wave has ended: the rows are in a file
            lines += log.read_bytes().count(b'{"finished"')
    return lines + 1_000 * len([*(folder / "runs").glob("*.parquet")])


@pytest.fixture
def started(short, tmp_path):
    """A sweep in another process, after some rows are finished."""
    folder = tmp_path / "sweep"
    words = ("sweep", str(short), "--seeds", f"1..{ROWS}", "--to", str(folder))
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketmq_emulator.cli", *words],
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    until_s = time.monotonic() + PATIENCE_S
    try:
        while in_progress(folder) < 1_003:  # one wave has ended, the next one has rows
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until_s, "too few runs were finished"
            signal.sigtimedwait([], 0.05)
        yield process, folder
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def known_seeds(folder: Path, short: Path) -> set[int]:
    about = stored_sweep(grid_of(asked(short, seeds=range(1, ROWS + 1))), ["x"])
    with SweepFolder(folder, about) as open_folder:
        return {row.seed for row in open_folder.known()}


def test_a_sweep_whose_driver_is_killed_goes_on_and_nothing_of_it_stays(
    started, short, spark
) -> None:
    process, folder = started
    process.send_signal(signal.SIGKILL)
    process.wait()
    until_s = time.monotonic() + PATIENCE_S
    while left := processes_that_name(str(folder.parent)):
        assert time.monotonic() < until_s, left
        signal.sigtimedwait([], 0.1)
    finished = known_seeds(folder, short)
    assert 3 < len(finished) < ROWS
    missing = [seed for seed in range(1, ROWS + 1) if seed not in finished]
    ask = asked(short, seeds=range(1, missing[4] + 1))
    sweep, rows = swept_here(spark, folder, ask)
    assert sorted(row.seed for row in rows) == missing[:5]
    assert sweep.done == missing[4]


def test_ctrl_c_keeps_what_is_finished_and_ends_with_130(started, short) -> None:
    process, folder = started
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, errors
    assert "the same command goes on" in errors
    (line,) = [line for line in output.splitlines() if line.startswith("short: ")]
    done = int(line.split()[1])
    assert 3 < done < ROWS
    assert len(known_seeds(folder, short)) >= done


def processes_that_name(text: str) -> list[str]:
    """Processes with *text* in their command line, or with an open file whose path begins so."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
                files = [str(file.readlink()) for file in (entry / "fd").iterdir()]
            except OSError:
                continue
            if text in line or any(file.startswith(text) for file in files):
                found.append(line)
    return found


def test_a_scenario_that_is_a_question_is_swept_too(spark, tmp_path, no_spark) -> None:
    file = tmp_path / "questions_of_a_command.py"
    file.write_text(QUESTIONS)
    ask = asked(f"{file}:halves", "width=1..3", seeds=range(1, 3))
    swept_here(spark, tmp_path / "sweep", ask)
    words = ("--vary", "width=1..3", "--seeds", "1..2", "--to", tmp_path / "sweep")
    found = command(f"{file}:halves", *words)
    assert found.exit_code == 0, found.stderr
    assert "halves: 6 rows, 6 passed (6 of them known from before)" in found.stdout


def test_the_module_of_the_command_loads_nothing_of_spark() -> None:
    code = f"import {command_module.__name__}, sys; print([*sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("pyspark", "pyarrow", "pandas", "rocketmq_emulator.pipeline"):
        assert f"'{name}'" not in run.stdout
