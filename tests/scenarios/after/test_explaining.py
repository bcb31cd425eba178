"""The first violation of a journal, in words."""

from __future__ import annotations

import json

import msgspec
import pytest
from typer.testing import CliRunner, Result

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.table import EXCUSES
from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.cli.app import application
from rocketmq_emulator.cli.commands.explain import WIDTH_MAX, excuse_lines
from rocketmq_emulator.facts import (
    DelayedDelivered,
    FaultBegan,
    FaultEnded,
    MessageConsumed,
    MessageSent,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
    Queue,
    QueuesClaimed,
    RebalancePassed,
    SendFailed,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey, encode_entry
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.after.explaining import Explanation, explained, let_off
from rocketmq_emulator.scenarios.after.related_facts import facts_around, subject_of
from rocketmq_emulator.scenarios.after.unmet_expectations import crossing_of
from rocketmq_emulator.scenarios.descriptions.names import NodeNames
from rocketmq_emulator.scenarios.descriptions.sentences import in_words
from rocketmq_emulator.scenarios.plan.plan import Expectation
from tests.support.checks.small_journals import (
    EPOCH_MS,
    Q0,
    AJournal,
    a_consumed_journal,
    client_of,
)

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
        (9.7, True),  # the evidence first
        (10.0, True),
        (8.0, False),  # the fault
        (9.5, False),  # the same queue got another owner
        (9.6, False),  # a pull of it was held: the least important
        (30.0, False),  # the same message again, long afterwards
    ]
    assert found.faults == ("kill billing-1, for 2.0 s",)


def explanation_of(journal: AJournal, checker: str) -> Explanation:
    """The explanation of the first violation of *checker*."""
    judgement = judge(journal.entries)
    violations = tuple(each for each in judgement.violations if each.checker == checker)
    found = explained(journal.entries, msgspec.structs.replace(judgement, violations=violations))
    assert found is not None
    return found


def around(found: Explanation) -> list[str]:
    return [f"{told.node} {told.text}" for told in found.facts if not told.is_evidence]


def test_a_pull_that_did_not_wake_is_told_beside_those_that_did() -> None:
    journal = AJournal().runs().store().consumer("billing-1").at_s(1)
    for number, group in enumerate(("billing", "news")):
        held = PullHeld(group, Q0, 0, EPOCH_MS + 30_000, f"10.0.0.{number}:1", 7)
        journal.note("broker-a", held)
    journal.sent(0).note("broker-a", PullAnswered("news", Q0, 0, 0, 1, 1, "10.0.0.1:1", 7))
    journal.at_s(4).note("broker-a", PullAnswered("billing", Q0, 0, 0, 1, 1, "10.0.0.0:1", 7))
    found = explanation_of(journal.ends(), "wakes")
    assert any("answered the pull of 10.0.0.1:1 from 0" in text for text in around(found))


def test_a_retry_that_never_came_is_told_with_whose_it_was_and_what_its_broker_did() -> None:
    level_3 = Queue(SCHEDULE_TOPIC, "broker-a", 2)
    journal = a_consumed_journal(1).sent(1, key="K").given("billing-1", 1)
    journal.consumed("billing-1", 1, key="K", ok=False).stored(0, level_3, key="K")
    retries = Queue("%RETRY%billing", "broker-a", 0)
    journal.at_s(11).note("broker-a", DelayedDelivered(retries, 3, 10))
    found = explanation_of(journal.at_s(100).ends(), "lost")
    whose = "\n".join(found.whose)
    assert "reports that it delivered 1 message of delay level 3, the last at 11.0" in whose
    assert "for 1 of them it stored no message at that moment" in whose
    assert "billing-1" in whose


def test_a_change_of_the_topic_is_told_however_long_ago_it_was() -> None:
    journal = AJournal().runs().consumer("billing-1")
    journal.note("broker-a", TopicCreated("orders", 4, 4, 6, "admin"))
    journal.at_s(30).note("broker-a", TopicChanged("orders", 7, 7, 6))
    passed = RebalancePassed("billing", "orders", 4, (client_of("billing-1"),), 4, "timer")
    journal.at_s(120).note("billing-1", passed)
    evidence, names = [journal.entries[-1]], NodeNames(journal.entries)
    facts, _ = facts_around(
        journal.entries, evidence, subject_of(evidence, journal.now_us, names, "billing-1")
    )
    assert "changed orders: 7 queues to read, 7 to write, perm 6" in [told.text for told in facts]


def test_how_a_member_that_is_named_left_is_told_however_long_ago_it_was() -> None:
    journal = AJournal().runs().consumer("billing-1").consumer("billing-2").at_s(5)
    journal.stopped("billing-2").at_s(200)
    members = (client_of("billing-1"), client_of("billing-2"))
    journal.note("billing-1", RebalancePassed("billing", "orders", 4, members, 2, "timer"))
    evidence, names = [journal.entries[-1]], NodeNames(journal.entries)
    what = "billing-1 got a list with billing-2 in billing"
    subject = subject_of(evidence, journal.now_us, names, "billing-1", what)
    facts, _ = facts_around(journal.entries, evidence, subject)
    assert ("billing-2", "left billing") in [(told.node, told.text) for told in facts]


def test_other_rules_that_are_broken_are_told_with_their_first_violation() -> None:
    violations = [
        msgspec.structs.replace(a_judgement(7).violations[0], checker=name, what=what)
        for name, what in (("commits", "1"), ("lost", "2"), ("commits", "3"), ("lost", "4"))
    ]
    judgement = msgspec.structs.replace(a_judgement(7), violations=tuple(violations))
    found = explained(a_journal(), judgement)
    assert found is not None
    assert found.others == ("commits at 10.000 s: 3", "lost at 10.000 s: 2 (and 1 more)")


def test_a_journal_that_breaks_no_rule_has_nothing_to_explain() -> None:
    assert explained(a_journal(), Judgement(violations=(), metrics={}, fact_count=9)) is None


def test_a_fact_is_one_line_of_its_fields() -> None:
    assert in_words(a_journal()[6]) == (
        "OffsetCommitted: group billing, queue orders@broker-a:1, offset 9, peer 10.0.0.5:1"
    )


def expected(metric: str, operator: str, bound: int) -> Expectation:
    return Expectation(metric=metric, operator=operator, bound=bound)


def sends(*took_ms: int) -> list[Entry]:
    """One send per second; a send that took 3 s failed."""
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
        turn = crossing_of(entries, expected("failed_sends", "<=", bound))
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
    assert crossing_of(sends(*took_ms), expectation) is None


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


# Excuses -------------------------------------------------------------------------------------


def a_late_delay() -> AJournal:
    """A delayed message, late because its broker was paused: a monitor excuses the delay."""
    level_3 = Queue(SCHEDULE_TOPIC, "broker-a", 2)
    journal = a_consumed_journal(1).stored(0, level_3, key="K").at_s(9)
    journal.fault("pause", "broker-a").at_s(16).healed()
    return journal.at_s(17).delivered(0, OTHER, 3, "K").at_s(100).ends()


def test_what_was_let_off_is_told_by_cause_beside_what_is_wrong(tmp_path) -> None:
    journal = a_late_delay()
    assert let_off(journal.judged())["excused_late_delays"] == 1
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"".join(journal.lines()))
    assert "let off: excused_late_delays 1" in command("explain", str(file)).stdout
    found = json.loads(command("explain", "--json", str(file)).stdout)
    assert found["let_off"] == let_off(journal.judged())


def test_a_journal_in_which_nothing_was_let_off_does_not_speak_of_it(tmp_path) -> None:
    assert let_off(a_consumed_journal(3).judged()) == {}
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"".join(a_consumed_journal(3).ends().lines()))
    assert "let off" not in command("explain", str(file)).stdout


def test_causes_are_told_in_three_lines_at_most_with_the_most_frequent_first() -> None:
    lines = excuse_lines(dict.fromkeys(EXCUSES, 100.0))
    assert len(lines) == 3
    assert all(len(line) <= WIDTH_MAX for line in lines)
    judgement = msgspec.structs.replace(
        a_consumed_journal(1).judged(), metrics={"hidden": 1.0, "excused_passes": 2.0}
    )
    assert list(let_off(judgement)) == ["excused_passes", "hidden"]
