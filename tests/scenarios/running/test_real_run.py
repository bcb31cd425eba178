"""A scenario in the worlds of real time: the same words, the same verdict as in virtual time."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.cli.app import application
from rocketmq_emulator.facts import (
    FaultActed,
    FaultBegan,
    MessageConsumed,
    NodeKilled,
    RunEnded,
    RunStarted,
)
from rocketmq_emulator.facts.journal import Entry, encode_entry
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.running.real_run import JournalFollower
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool

PATIENCE_S = 60
A_FILE = """
title = "A broker and a member die"
lasts = "6s"
[topics.orders]
queues = 4
[[consumers]]
group = "billing"
topic = "orders"
members = 2
[[load]]
topic = "orders"
rate = "20/s"
until = "3500ms"
[[timeline]]
at = "1s"
kill = "broker-b"
for = "1s"
[[timeline]]
at = "1500ms"
kill = "billing-2"
for = "800ms"
[[timeline]]
at = "2500ms"
pause = "billing-1"
for = "300ms"
[[timeline]]
at = "3s"
partition = { around = "billing-1" }
for = "300ms"
[expect]
lost = 0
"""
HANGS = """
title = "A broker stands still for four seconds"
lasts = "9s"
[topics.orders]
queues = 2
[[consumers]]
group = "billing"
topic = "orders"
[[load]]
topic = "orders"
rate = "4/s"
until = "7s"
[[timeline]]
at = "2s"
pause = "broker-b"
for = "4s"
[expect]
lost = 0
failed_sends = 0
"""
POWER = A_FILE.replace('kill = "broker-b"', 'power_off = "broker-b"')
CLOCK = A_FILE.replace('kill = "billing-2"', 'clock_jump = { node = "billing-2", ms = 500 }')


def a_plan(text: str, folder: Path) -> Plan:
    file = folder / "short.toml"
    file.write_text(text)
    return load(str(file), {})


def run_in(
    run_pool: RunPool, world: str, plan: Plan, folder: Path
) -> tuple[RunResult, list[Entry]]:
    journal = folder / f"{world}.jsonl"
    order = RunOrder(plan=plan, seed=1, world=world, journal=str(journal), keeps_passed=True)
    (row,) = run_pool.rows([order], 1)
    return row, list(read_journals([journal]))


def command(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rocketmq_emulator.cli", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder), "TMPDIR": str(folder)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )


def in_process(*arguments: str, folder: Path) -> Result:
    runner = CliRunner(env={"XDG_CACHE_HOME": str(folder)})
    return runner.invoke(application("run"), ["run", *arguments])


def descendants_of(pid: int) -> list[int]:
    """The running processes that descend from *pid*; no name of them may contain a bracket."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has just ended
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


@pytest.mark.parametrize("world", ["embedded", "processes"])
def test_a_scenario_gets_the_verdict_that_it_gets_in_virtual_time(
    world, run_pool, tmp_path
) -> None:
    plan = a_plan(A_FILE, tmp_path)
    virtual, _ = run_in(run_pool, "virtual", plan, tmp_path)
    row, entries = run_in(run_pool, world, plan, tmp_path)
    assert (row.verdict, row.reason) == (virtual.verdict, virtual.reason) == ("passed", "")
    assert row.metrics["lost"] == virtual.metrics["lost"]
    assert row.world == world
    began, ended = entries[0], entries[-1]
    assert isinstance(began.fact, RunStarted)
    assert began.fact.world == world
    assert ended.fact == RunEnded("finished", "")
    assert {e.node for e in entries} >= {"namesrv", "broker-b", "billing-2", "producer-1", "world"}
    begun = [e.fact.nodes for e in entries if isinstance(e.fact, FaultBegan)]
    assert begun == [("broker-b",), ("billing-2",), ("billing-1",), ("billing-1",)]
    acted = [e.fact.what for e in entries if isinstance(e.fact, FaultActed)]
    assert acted == ["killed a process", "killed a process", "paused a process", "held bytes"]
    killed = [e.fact.node for e in entries if isinstance(e.fact, NodeKilled)]
    assert killed == ["broker-b", "billing-2"]
    silent_us = [e.mono_us for e in entries if e.node == "billing-2"]
    gaps_us = [after - before for before, after in itertools.pairwise(silent_us)]
    assert max(gaps_us) >= 700_000, "billing-2 was killed for 800 ms"
    consumed = [e.node for e in entries if isinstance(e.fact, MessageConsumed)]
    assert set(consumed) == {"billing-1", "billing-2"}


def test_what_fails_in_virtual_time_fails_with_real_processes_for_the_same_reason(
    run_pool, tmp_path
) -> None:
    plan = a_plan(HANGS, tmp_path)
    rows = [run_in(run_pool, world, plan, tmp_path)[0] for world in ("virtual", "processes")]
    assert [row.verdict for row in rows] == ["failed", "failed"]
    assert [[one.expected for one in row.unmet] for row in rows] == [["failed_sends == 0"]] * 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (POWER, "the embedded world cannot do power_off: use virtual"),
        (CLOCK, "clock_jump: there is no node named 'billing-2'"),
    ],
)
def test_what_the_world_cannot_do_is_refused_before_anything_runs(text, why, tmp_path) -> None:
    a_plan(text, tmp_path)
    refused = in_process(str(tmp_path / "short.toml"), "--world", "embedded", folder=tmp_path)
    assert refused.exit_code == 2
    assert why in refused.stderr


def test_weather_is_refused_where_a_seed_has_what_the_world_cannot_do(tmp_path) -> None:
    words = ("weather", "--seeds", "1..5", "--world", "embedded")
    refused = in_process(*words, folder=tmp_path)
    assert refused.exit_code == 2
    assert "the embedded world cannot do" in refused.stderr


def test_a_client_that_fails_of_itself_is_an_error_with_what_it_wrote_last(
    run_pool, tmp_path
) -> None:
    program = '[[programs]]\nname = "mine"\nrun = "no_such_module:main"\n[expect]'
    plan = a_plan(A_FILE.replace("[expect]", program), tmp_path)
    row, _ = run_in(run_pool, "embedded", msgspec.structs.replace(plan, timeline=()), tmp_path)
    assert row.verdict == "error"
    assert row.reason.startswith("the client mine has died")
    assert "no_such_module" in row.reason


def test_ctrl_c_ends_all_that_was_started(tmp_path) -> None:
    a_plan(A_FILE, tmp_path)
    process = command(str(tmp_path / "short.toml"), "--world", "processes", folder=tmp_path)
    until_s = time.monotonic() + PATIENCE_S
    while not [*tmp_path.glob("rmqemu-run-*/billing-2.jsonl")]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until_s, "the member did not start"
        signal.sigtimedwait([], 0.05)
    pids = descendants_of(process.pid)
    assert len(pids) > 6, "a run, forkers, three nodes, three clients"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not list(tmp_path.glob("rmqemu-run-*"))


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path) -> None:
    following = JournalFollower(tmp_path)
    lines = [
        encode_entry(Entry(n, 0, 100 - n, "billing-1", RunEnded("finished", ""))) for n in (1, 2)
    ]
    file = tmp_path / "billing-1.jsonl"
    file.write_bytes(lines[0] + lines[1][:20])
    assert [entry.seq for entry in following.read()] == [1]
    with file.open("ab") as rest:
        rest.write(lines[1][20:])
    assert [entry.seq for entry in following.read()] == [2]
    assert following.read() == []
    following.close()
