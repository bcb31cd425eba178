"""``judge``, ``explain``, ``report`` of damaged journals: their output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketmq_emulator.facts import (
    BrokerRegistered,
    Fact,
    MemberJoined,
    NodeStarted,
    PullAnswered,
    Queue,
    RouteChanged,
    SendAttempted,
)
from rocketmq_emulator.facts.journal import Entry, encode_entry
from tests.support.cli.in_process import Run, commands

PEER = "127.0.0.1:4000"
ORDERS = Queue("orders", "broker-a", 0)
NODE = NodeStarted("broker", "127.0.0.1:10911", "4.9.7")
MEMBER = MemberJoined(
    "billing", "10.0.0.9@shop", PEER, "CONSUME_PASSIVELY", "CLUSTERING", "GO", 317
)


@pytest.fixture
def run() -> Run:
    return commands()


def pulled(offset: int, opaque: int) -> PullAnswered:
    return PullAnswered("billing", ORDERS, offset, 0, 5, offset + 5, PEER, opaque)


GOOD = (NODE, MEMBER, pulled(0, 1), pulled(5, 2), pulled(10, 3), pulled(15, 4))


def lines_of(*facts: Fact, node: str = "broker-a") -> list[bytes]:
    return [
        encode_entry(Entry(i, 1_000 * i, 1_000_000 * i, node, fact))
        for i, fact in enumerate(facts, 1)
    ]


def written(folder: Path, lines: list[bytes], name: str = "broker-a.jsonl") -> str:
    (folder / name).write_bytes(b"".join(lines))
    return str(folder / name)


def text_of(printed: str) -> str:
    return " ".join(printed.split())


# judge ----------------------------------------------------------------------------------------


def test_a_whole_journal_of_a_good_client_is_exit_code_0(run: Run, tmp_path: Path) -> None:
    verdict = json.loads(run("judge", written(tmp_path, lines_of(*GOOD)), "--json").stdout)
    assert (verdict["broken"], verdict["incomplete"], verdict["doubtful_count"]) == ([], [], 0)


def test_pulls_on_a_missing_line_are_no_objection_and_no_pass(run: Run, tmp_path: Path) -> None:
    lines = lines_of(*GOOD)
    done = run("judge", written(tmp_path, [*lines[:3], *lines[4:]]), code=1)
    text = text_of(done.stdout)
    assert "breaks no rule" in text
    assert "not whole: the journal of broker-a lacks entries before number 5" in text
    assert "1 violation left out: missing facts may explain them" in text
    told = json.loads(run("judge", str(tmp_path), "--json", code=1).stdout)
    assert told["not_judged"]["pulls_go_on"].startswith("the journal of broker-a lacks")


def test_what_a_client_broke_before_a_line_is_missing_is_shown(run: Run, tmp_path: Path) -> None:
    lines = lines_of(*GOOD[:3], pulled(9, 2), pulled(14, 3), pulled(19, 4), pulled(24, 5))
    done = run("judge", written(tmp_path, [*lines[:5], *lines[6:]]), code=1)
    assert "it leaves 4 out" in text_of(done.stdout)
    assert "not whole: the journal of broker-a lacks" in text_of(done.stdout)


def test_a_torn_line_is_left_out_and_named(run: Run, tmp_path: Path) -> None:
    lines = lines_of(*GOOD)
    path = written(tmp_path, [*lines[:-1], lines[-1][:50]])
    text = text_of(run("judge", path, code=1).stdout)
    assert "1 consumer, 5 facts" in text
    assert "not whole: 1 line could not be read and is left out, the first: " in text
    assert "line 6: the last line is cut off" in text


def test_a_broker_without_a_journal_is_named(run: Run, tmp_path: Path) -> None:
    written(tmp_path, lines_of(*GOOD))
    known = BrokerRegistered("c", "broker-b", 0, "", 1, first=True)
    lines = lines_of(known, *[NODE] * 9, node="namesrv")
    written(tmp_path, lines, "namesrv.jsonl")
    text = text_of(run("judge", str(tmp_path), code=1).stdout)
    assert "not whole: broker broker-b has no journal, and namesrv names (BrokerRegist" in text


# explain --------------------------------------------------------------------------------------


def attempted(attempt: int) -> SendAttempted:
    return SendAttempted("orders", ORDERS, "K1", attempt, 1, "SEND_OK")


def test_explain_says_what_is_missing_and_that_nothing_was_judged(
    run: Run, tmp_path: Path
) -> None:
    lines = lines_of(NODE, NODE, NODE)
    done = run("explain", written(tmp_path, [lines[0], lines[2]]), code=1)
    text = text_of(done.stdout)
    assert "nothing is wrong" not in text
    assert "this is no pass: the journal is not whole: the journal of broker-a lacks" in text
    assert "this is no pass: nothing was judged: none of " in text
    told = json.loads(run("explain", str(tmp_path / "broker-a.jsonl"), "--json", code=1).stdout)
    assert len(told["unproven"]) == 2
    assert told["not_judged"]["lost"] == "the journal has no MessageSent or MessageStored"


def test_explain_reads_as_far_as_it_can_and_names_what_is_no_journal(
    run: Run, tmp_path: Path
) -> None:
    lines = lines_of(RouteChanged("orders", ("broker-a",)), *[attempted(1)] * 9, node="producer")
    path = written(tmp_path, [*lines, b'{"seq":11,"at_ms":1'], "producer.jsonl")
    text = text_of(run("explain", path, code=1).stdout)
    assert "line 11: the last line is cut off" in text
    assert "broker broker-a has no journal, and producer names (RouteChanged, number 1) it" in text
    nothing = written(tmp_path, [b"GET / HTTP/1.1\n"], "log.jsonl")
    assert "line 1: this is no journal" in run("explain", nothing, code=2).stderr


# report ---------------------------------------------------------------------------------------


def test_the_summary_of_a_report_says_why_no_violation_is_no_pass(
    run: Run, tmp_path: Path
) -> None:
    lines = lines_of(*GOOD)
    done = run("report", written(tmp_path, [*lines[:3], *lines[4:]]))
    assert "5 facts of 1 node in 5.0 s, no violation" in done.stdout
    assert "this is no pass: the journal is not whole: the journal of broker-a" in done.stderr
    assert "client 10.0.0.9@shop has no journal" not in done.stdout


def test_a_report_of_the_lines_that_can_be_read_is_no_pass(run: Run, tmp_path: Path) -> None:
    lines = lines_of(*GOOD)
    path = written(tmp_path, [*lines[:-1], lines[-1][:50]])
    assert "the last line is cut off" in run("report", path, code=2).stderr
    done = run("report", path, "--skip-damaged")
    assert "this is no pass: the journal is not whole: 1 line could not be read" in done.stderr
