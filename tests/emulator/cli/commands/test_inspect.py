"""``rmqemu inspect``: a moment, a node, steps by keys, and journals that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketmq_emulator.facts import NodeStarted, OffsetCommitted, Queue, QueuesLocked, TopicCreated
from rocketmq_emulator.facts.journal import Entry, encode_entry
from tests.support.cli.command_line import RMQEMU, environment
from tests.support.cli.in_process import Run, commands
from tests.support.terminal import Terminal

A0 = Queue("orders", "broker-a", 0)
PEER = "10.0.0.9:1"
PLACE = "orders@broker-a:0"


@pytest.fixture
def run() -> Run:
    return commands()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    facts = (
        ("namesrv", NodeStarted("nameserver", "10.0.0.1:9876", "4.9.7")),
        ("broker-a", NodeStarted("broker", "10.0.0.2:10911", "4.9.7")),
        ("broker-a", TopicCreated("orders", 4, 4, 6, "send")),
        ("broker-a", OffsetCommitted("billing", A0, 5, PEER)),
        ("broker-a", QueuesLocked("billing", "me", (A0,), ())),
        ("broker-a", OffsetCommitted("billing", A0, 9, PEER)),
    )
    path = tmp_path / "run.jsonl"
    entries = [Entry(n, n, 10_000_000 + n * 1_000_000, *each) for n, each in enumerate(facts)]
    path.write_bytes(b"".join(map(encode_entry, entries)))
    return path


def test_a_moment_is_shown_with_its_fact_and_what_it_changed(run: Run, journal: Path) -> None:
    assert run("inspect", str(journal), "--at", "3500ms").stdout.splitlines() == [
        "3.500000 s, after fact 4 of 6",
        f"broker-a: OffsetCommitted: group billing, queue {PLACE}, offset 5, peer {PEER}",
        "  → broker-a committed billing orders 0: 5",
        "",
        "broker-a (broker, running)",
        "  committed        billing orders: 0=5",
        "  topics           orders: perm=6  read=4  write=4",
        "",
        "namesrv (nameserver, running)",
    ]


def test_a_fact_by_its_number_a_node_and_json(run: Run, journal: Path) -> None:
    shown = run("inspect", str(journal), "--at", "#6", "--node", "broker-a").stdout
    assert "  → broker-a committed billing orders 0: 5 → 9" in shown
    assert "namesrv" not in shown
    found = json.loads(run("inspect", str(journal), "--json").stdout)
    assert found["nodes"]["broker-a"]["tables"]["locks"] == {"billing orders": {"0": "me"}}
    assert (found["number"], found["at_s"]) == (6, 5.0)
    later = json.loads(run("inspect", str(journal), "--at", "65s", "--json").stdout)
    assert "locks" not in later["nodes"]["broker-a"]["tables"]


def test_keys_step_on_and_back_and_to_the_ends(run: Run, journal: Path) -> None:
    shown = run("inspect", str(journal), "--at", "#4", "--step", stdin="npgG\tq\n").stdout
    heads = [line.partition("fact ")[2] for line in shown.splitlines() if "after fact" in line]
    assert heads == ["4 of 6", "5 of 6", "4 of 6", "0 of 6", "6 of 6", "6 of 6"]
    assert "namesrv (" not in shown.rpartition("after fact")[2]  # Tab: the first node alone


def test_in_a_terminal_keys_redraw_the_screen(journal: Path) -> None:
    command = [*RMQEMU, "inspect", str(journal), "--step", "--at", "#5"]
    with Terminal(command, columns=80, rows=24, env=environment()) as terminal:
        terminal.wait_for("5 of 6")
        terminal.press("n")
        terminal.wait_for("committed billing orders 0: 5 → 9")
        assert terminal.wraps == 0
        assert "q: quit" in terminal.lines[-2]
        terminal.press("q")
        assert terminal.wait_ended() == 0


def test_what_cannot_be_shown_is_said(run: Run, journal: Path) -> None:
    name = str(journal)
    assert "did you mean broker-a?" in run("inspect", name, "--node", "broker-b", code=4).output
    assert "#120" in run("inspect", name, "--at", "noon", code=2).output
    assert "--json shows one" in run("inspect", name, "--step", "--json", code=2).output
    journal.write_bytes(journal.read_bytes()[:-20])
    assert "the last line is cut off" in run("inspect", name, code=2).output
    assert "after fact 5 of 5" in run("inspect", name, "--skip-damaged").output
    journal.write_bytes(b"no journal\n")
    assert "this is no journal" in run("inspect", name, code=2).output
    assert "has no fact that can be read" in run("inspect", name, "--skip-damaged", code=2).output
