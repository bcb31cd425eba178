"""The first violation of a journal, in words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from emulator.checks.violation import Judgement, Violation
from emulator.facts import (
    FaultBegan,
    FaultEnded,
    MessageConsumed,
    OffsetCommitted,
    PullHeld,
    Queue,
    QueuesClaimed,
)
from emulator.journal import Entry, EntryKey, encode_entry
from scenarios.running.explaining import explained, in_words

QUEUE, OTHER = Queue("orders", "broker-a", 1), Queue("orders", "broker-a", 2)
MESSAGE = MessageConsumed("billing", "orders", QUEUE, 5, "K5", 0, ok=True)
FACTS = (
    (1.0, "billing-1", QueuesClaimed("billing", (QUEUE,))),
    (8.0, "world", FaultBegan(1, '{"fault":"kill","node":"billing-1"}', ("billing-1",))),
    (9.0, "billing-2", QueuesClaimed("billing", (OTHER,))),
    (9.5, "billing-2", QueuesClaimed("billing", (QUEUE,))),
    (9.6, "broker-a", PullHeld("billing", QUEUE, 5, 0, "10.0.0.9:1", 7)),
    (9.7, "billing-2", MESSAGE),
    (10.0, "broker-a", OffsetCommitted("billing", QUEUE, 9, "10.0.0.5:1")),
    (30.0, "billing-1", MESSAGE),
    (40.0, "world", FaultEnded(1, "time is up", 1)),
)


def a_journal(facts=FACTS) -> list[Entry]:
    return [
        Entry(number, 0, round(at_s * 1_000_000), node, fact)
        for number, (at_s, node, fact) in enumerate(facts, 1)
    ]


def a_judgement(*numbers: int) -> Judgement:
    entries = [a_journal()[number - 1] for number in numbers]
    keys = tuple(EntryKey(entry.mono_us, entry.node, entry.seq) for entry in entries)
    violation = Violation(
        checker="commits", rule="a commit follows a delivery", what="9 was committed",
        mono_us=entries[-1].mono_us, node="broker-a", entries=keys,
    )  # fmt: skip
    return Judgement(violations=(violation,), metrics={}, fact_count=9)


def test_what_has_to_do_with_it_is_told_and_nothing_else() -> None:
    found = explained(a_journal(), a_judgement(6, 7))
    assert found is not None
    assert [(told.at_s, told.is_evidence) for told in found.facts] == [
        (8.0, False),  # the fault
        (9.5, False),  # the same queue changed hands
        (9.7, True),
        (10.0, True),
        (30.0, False),  # the same message again, long after
    ]
    assert found.faults == ('{"fault":"kill","node":"billing-1"} (billing-1), for 2.0 s',)


def test_a_journal_that_breaks_no_rule_has_nothing_to_explain() -> None:
    assert explained(a_journal(), Judgement(violations=(), metrics={}, fact_count=9)) is None


def test_a_fact_is_one_line_of_its_fields() -> None:
    assert in_words(a_journal()[6]) == (
        "OffsetCommitted: group billing, queue orders@broker-a:1, offset 9, peer 10.0.0.5:1"
    )


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    arguments = (sys.executable, "-m", "emulator.cli", *arguments)
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_diff_shows_where_journals_part_and_in_which_fields(tmp_path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    changed = (*FACTS[:6], (10.0, "broker-a", OffsetCommitted("billing", QUEUE, 6, "10.0.0.5:1")))
    one.write_bytes(b"".join(map(encode_entry, a_journal())))
    other.write_bytes(b"".join(map(encode_entry, a_journal(changed))))
    found = command("diff", str(one), str(other))
    assert found.returncode == 1
    assert "the first 6 facts are the same" in found.stdout
    assert "they differ in offset" in found.stdout
    assert command("diff", str(one), str(one)).stdout == "the same 9 facts\n"


@pytest.mark.parametrize("verb", ["explain", "replay", "shrink"])
def test_what_is_no_journal_is_named_with_its_line(verb, tmp_path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text("this is no fact\n")
    found = command(verb, str(file))
    assert found.returncode == 2
    assert "bad.jsonl, line 1" in found.stderr
    assert "Traceback" not in found.stderr
