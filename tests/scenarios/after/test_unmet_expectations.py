"""Unmet expectations about remaining messages, runs that did not finish, and the lines shown."""

from __future__ import annotations

import json

import msgspec
import pytest
from typer.testing import CliRunner

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.cli.app import application
from rocketmq_emulator.cli.commands.explain import LINES_MAX, WIDTH_MAX, explanation_lines
from rocketmq_emulator.facts import DelayedDelivered, PullFailed, Queue, RunEnded
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.after.explaining import explained
from rocketmq_emulator.scenarios.after.remaining_messages import remaining_at_end
from rocketmq_emulator.scenarios.after.unmet_expectations import (
    shortfall_of,
    unmet_expectations,
)
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import no_pass
from tests.support.checks.small_journals import Q0, Q1, AJournal, a_member, client_of

RESTLESS = "not quiet after 300 s: billing has 3 messages to consume"


def expecting(metric: str, bound: float = 0, scope: str = "") -> Expectation:
    operator = "==" if bound == 0 else "<="
    return Expectation(metric=metric, operator=operator, bound=bound, scope=scope)


def a_journal(*expected: Expectation) -> AJournal:
    """The owner of the queue has consumed two of five messages; then its pulls failed."""
    plan = msgspec.json.encode(Plan(name="a story", expect=expected)).decode()
    journal = AJournal().runs(plan).store().consumer("billing-1").pulled(0, 0)
    journal.note("broker-a", a_member(client_of("billing-1")))
    journal.claimed("billing-1", Q0, offsets=(0,)).at_s(10)
    journal.each(range(5), journal.sent).at_s(11)
    journal.each(range(2), lambda offset: journal.consumed("billing-1", offset)).committed(2)
    for second in range(12, 42):
        journal.at_s(second).note("billing-1", PullFailed("billing", Q0, "no route"))
    return journal


def ended(journal: AJournal, detail: str = "", at_s: float = 400, reason="finished") -> AJournal:
    return journal.at_s(at_s).note("world", RunEnded(reason, detail))


def why(journal: AJournal, expectation: Expectation) -> list[str]:
    found = shortfall_of(journal.entries, expectation)
    return [] if found is None else list(found.why)


def screen(journal: AJournal) -> list[str]:
    entries = journal.entries
    judgement = judge(entries)
    unmet = unmet_expectations(entries, judgement, "a story")
    unproven = no_pass(entries[-1].fact, judgement)
    return explanation_lines(explained(entries, judgement), unmet, unproven)


# Owners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["backlog", "stuck"])
def test_a_backlog_is_told_by_group_and_queue_with_what_its_owner_did_last(metric) -> None:
    whose, left, held, acts, refused = why(ended(a_journal()), expecting(metric))
    assert whose == "billing has not finished 3 messages, in 1 queue"
    assert left == (
        "orders@broker-a:0: 3 messages from 2 on not finished by billing, which has committed 2"
    )
    assert held.startswith("  orders@broker-a:0 of billing is held by billing-1 since 0.000 s")
    assert acts == (
        "  billing-1's last actions there: a pull that failed at 41.000 s (no route) and none "
        "since, for 359 s; 1 consumed at 11.000 s; 2 committed at 11.000 s"
    )
    assert refused == (
        "  meanwhile, billing-1: 30 times between 12.0 s and 41.0 s: failed to pull "
        "orders@broker-a:0 for billing: no route"
    )


def test_a_backlog_of_another_group_is_not_told() -> None:
    assert why(ended(a_journal()), expecting("backlog", scope="news")) == []


def test_a_queue_that_a_group_never_read_is_left_as_a_whole() -> None:
    journal = ended(a_journal().sent(0, Q1).sent(1, Q1))
    left = {each.queue: each for each in remaining_at_end(journal.entries)}
    assert (left[Q1].count, left[Q1].is_read) == (2, False)
    assert (left[Q0].count, left[Q0].first, left[Q0].committed) == (3, 2, 2)
    assert "no member had claimed orders@broker-a:1 of billing" in "\n".join(
        why(journal, expecting("backlog"))
    )


def test_unrest_is_told_with_what_had_not_come_to_rest() -> None:
    told = why(ended(a_journal(), RESTLESS), expecting("unrest"))
    assert told[:2] == [RESTLESS, "billing has not finished 3 messages, in 1 queue"]


def test_queues_that_change_hands_to_the_end_are_told() -> None:
    journal = AJournal().runs().store().consumer("billing-1").claimed("billing-1", Q0)
    for second in range(0, 100, 10):
        journal.at_s(second).released("billing-1", Q0).claimed("billing-1", Q0)
    told = why(ended(journal, "queues must stay for 17 s more", at_s=100), expecting("unrest"))
    assert told[1] == "queues that changed their owner in the last 60 s:"
    assert told[-1].endswith("billing-1 claimed for billing: orders@broker-a:0")


def test_what_waits_at_a_delay_level_is_told() -> None:
    level_3 = Queue(SCHEDULE_TOPIC, "broker-a", 2)
    journal = AJournal().runs().store().stored(0, level_3).stored(1, level_3)
    journal.note("broker-a", DelayedDelivered(Q0, 3, 1))
    text = "broker-a has not delivered 1 of 2 messages of delay level 3"
    assert text in why(ended(journal), expecting("unrest"))
    assert why(ended(journal), expecting("waiting")) == [text]


def test_what_was_consumed_and_never_committed_is_told() -> None:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0).claimed("billing-1", Q0)
    journal.sent(0).consumed("billing-1", 0).committed(0)
    told = why(ended(journal, "billing has 1 messages to consume"), expecting("unrest"))
    assert told[1] == (
        "orders@broker-a:0: billing has consumed everything, and committed 0 where the queue ends "
        "at 1"
    )


def test_a_queue_without_an_owner_is_told_with_who_had_it_and_for_how_long() -> None:
    journal = AJournal().runs().store().consumer("billing-1").consumer("billing-2").at_s(1)
    journal.claimed("billing-1", Q0).at_s(20).stopped("billing-1")
    told = why(ended(journal, at_s=330), expecting("unowned_s", 110))
    assert told[:2] == [
        "orders@broker-a:0 had no owner in billing for 310.0 s, from 20.000 s to 330.000 s",
        (
            "  no member holds orders@broker-a:0 of billing since 20.000 s, when billing-1 left "
            "the group, which had it since 1.000 s"
        ),
    ]


def test_numbers_that_are_about_something_else_have_no_such_story() -> None:
    assert shortfall_of(ended(a_journal()).entries, expecting("failed_sends")) is None
    assert shortfall_of([], expecting("backlog")) is None


# Lines that are shown -----------------------------------------------------------------------


def test_a_violation_about_what_is_missing_says_whose_it_was() -> None:
    shown = screen(ended(a_journal(expecting("stuck"), expecting("unrest")), RESTLESS))
    assert shown[0].startswith("liveness at 400.000 s, billing-1: billing has not consumed 3 mess")
    assert "the owners:" in shown
    assert any(
        "billing-1's last actions there: a pull that failed at 41.000 s" in s for s in shown
    )
    assert "stuck == 0 was expected, it is 3" in shown
    assert not any(line.startswith("why not") for line in shown)  # the violation contains it


def test_what_one_expectation_lacked_is_not_said_again_for_the_next() -> None:
    expected = (expecting("backlog"), expecting("unrest"))
    shown = screen(ended(a_journal(*expected), RESTLESS, at_s=100))
    assert shown.count("  billing has not finished 3 messages, in 1 queue") == 1


def test_at_most_forty_lines_are_shown_and_none_is_wide() -> None:
    journal = a_journal(expecting("stuck"), expecting("backlog"), expecting("lost"))
    for number in range(60):
        error = f"no route, for the {number}th time, {'and a long text ' * 20}"
        journal.at_s(50 + number).note("billing-1", PullFailed("billing", Q0, error))
    shown = screen(ended(journal, RESTLESS))
    assert len(shown) <= LINES_MAX
    assert max(map(len, shown)) <= WIDTH_MAX
    assert any(line.endswith(" more facts") for line in shown)


# Errors -------------------------------------------------------------------------------------


def explain(journal: AJournal, tmp_path, *options: str):
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"".join(journal.lines()))
    return CliRunner().invoke(application("explain"), ["explain", str(file), *options])


@pytest.mark.parametrize("reason", ["error", "limit"])
def test_a_run_that_did_not_finish_is_never_told_as_nothing_wrong(reason, tmp_path) -> None:
    plan = msgspec.json.encode(Plan(name="a story")).decode()
    journal = ended(AJournal().runs(plan), "KeyError: 7", reason=reason)
    found = explain(journal, tmp_path)
    assert found.exit_code == 1
    assert f"the run did not finish ({reason}): KeyError: 7" in found.stdout
    assert "nothing is wrong" not in found.stdout


def test_a_checker_that_breaks_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        "rocketmq_emulator.checks.rules.liveness.LivenessReturns.end", lambda _: 1 / 0
    )
    found = explain(ended(a_journal()), tmp_path)
    assert found.exit_code == 1
    assert (
        "the checker liveness raised an error, a bug of the emulator: ZeroDivisionError"
        in found.stdout
    )


def test_a_plan_of_another_version_is_no_pass(tmp_path) -> None:
    found = explain(ended(AJournal().runs()), tmp_path)
    assert found.exit_code == 1
    assert "the expectations are unknown" in found.stdout


def test_the_json_has_the_evidence_whose_it_was_and_what_expectations_lacked(tmp_path) -> None:
    journal = ended(a_journal(expecting("backlog"), expecting("unowned_s")), RESTLESS)
    found = json.loads(explain(journal, tmp_path, "--json").stdout)
    assert found["explanation"]["violation"]["checker"] == "liveness"
    assert found["explanation"]["whose"][0].startswith("orders@broker-a:0 of billing is held by")
    evidence = [told["is_evidence"] for told in found["explanation"]["facts"]]
    assert evidence == sorted(evidence, reverse=True)
    assert found["unmet"][0] == "backlog == 0 was expected, it is 3"
    assert {"turns", "shortfalls", "unproven", "not_judged"} <= found.keys()
