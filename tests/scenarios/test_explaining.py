"""The first violation of a journal, in words."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner, Result

from emulator.checks.violation import Judgement, Violation
from emulator.cli.app import application
from emulator.facts import (
    FaultBegan,
    FaultEnded,
    MessageConsumed,
    MessageSent,
    OffsetCommitted,
    PullHeld,
    Queue,
    QueuesClaimed,
    SendFailed,
)
from emulator.journal import Entry, EntryKey, encode_entry
from scenarios.plan import Expectation
from scenarios.running.explaining import explained, in_words
from scenarios.running.turning import turn_of

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


def expected(metric: str, operator: str, bound: int) -> Expectation:
    return Expectation(metric=metric, operator=operator, bound=bound)


def sends(*took_ms: int) -> list[Entry]:
    """A send a second; one that took 3 s failed."""
    return a_journal(
        [
            (
                float(at_s),
                "producer-1",
                SendFailed("orders", f"K{at_s}", 1, "TimedOut", maybe_stored=True)
                if ms == 3_000
                else MessageSent("orders", QUEUE, at_s, f"K{at_s}", 1, ms, "SEND_OK"),
            )
            for at_s, ms in enumerate(took_ms)
        ]
    )


def test_what_a_number_turned_at_is_told_with_what_has_to_do_with_it() -> None:
    entries = sends(2, 2, 2, 3_000, 2, 2, 3_000, 2, 2)
    for bound, at_s in ((0, 3.0), (1, 6.0)):
        turn = turn_of(entries, expected("failed_sends", "<=", bound))
        assert turn is not None
        assert (turn.expected, turn.at_s) == (f"failed_sends <= {bound}", at_s)
        assert [told.at_s for told in turn.facts if told.is_evidence] == [at_s]


@pytest.mark.parametrize(
    ("took_ms", "expectation"),
    [
        ((2,) * 9, expected("failed_sends", ">=", 1)),  # never met
        (
            (*(9,) * 8, *(2,) * 12, *(9,) * 20),
            expected("send_ms_p50", "<=", 5),
        ),
        ((2,) * 9, expected("failed_sends", "==", 0)),  # met
    ],
)
def test_what_did_not_turn_once_has_no_such_place(took_ms, expectation) -> None:
    assert turn_of(sends(*took_ms), expectation) is None


def command(verb: str, *arguments: str) -> Result:
    return CliRunner().invoke(application(verb), [verb, *arguments])


def test_diff_shows_where_journals_part_and_in_which_fields(tmp_path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    changed = (*FACTS[:6], (10.0, "broker-a", OffsetCommitted("billing", QUEUE, 6, "10.0.0.5:1")))
    one.write_bytes(b"".join(map(encode_entry, a_journal())))
    other.write_bytes(b"".join(map(encode_entry, a_journal(changed))))
    found = command("diff", str(one), str(other))
    assert found.exit_code == 1
    assert "the first 6 facts are the same" in found.stdout
    assert "they differ in offset" in found.stdout
    assert command("diff", str(one), str(one)).stdout == "the same 9 facts\n"


@pytest.mark.parametrize("verb", ["explain", "replay", "shrink"])
def test_what_is_no_journal_is_named_with_its_line(verb, tmp_path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text("this is no fact\n")
    found = command(verb, str(file))
    assert found.exit_code == 2
    assert "bad.jsonl, line 1" in found.stderr
    assert "Traceback" not in found.stderr
