"""The life of a half message as the cause of a broken rule, or of a metric of transactions."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.cluster.fault_values import Kill
from rocketmq_emulator.facts import NodeKilled, TransactionGivenUp
from rocketmq_emulator.scenarios.after.explaining import explained
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import ClusterPlan, LoadPlan, Step
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.scenarios.after.test_causes import cause_of_expectation, cause_of_rule, expecting
from tests.support.checks.small_journals import Q0, AJournal
from tests.support.checks.small_transactions import GIVEN_UP, GROUP, KEY, NODE, ATransaction
from tests.support.scenarios.running_plans import a_plan

PUT_ASIDE = f"broker-a put aside {KEY} of {Q0.topic}@broker-a:0 at 0.000 s"


def cause(journal: ATransaction, rule: str = "transactions") -> str:
    return cause_of_rule(journal.ends(), rule)


def expected(metric: str, journal: ATransaction) -> str:
    """The cause of a metric that should be 0, with the facts of *journal*."""
    whole: AJournal = expecting(metric)
    whole.entries += journal.ends().entries[2:]  # both begin with the run and its store
    return cause_of_expectation(whole)


def test_a_half_message_that_is_not_checked_is_told_with_the_fault_of_its_broker() -> None:
    journal = ATransaction().half("unknown").at_s(10).fault("slow_disk", "broker-a")
    journal.at_s(20).healed().at_s(200)
    assert cause(journal, "transaction_checks") == (
        f"{PUT_ASIDE}, and producer ended its local transaction with unknown at 0.000 s. The "
        "fault slow_disk held from 10.0 s to 20.0 s. broker-a did not check it until 200.0 s. "
        "broker-a had no end of it by 200.0 s."
    )


def test_checks_without_a_producer_are_told_with_the_end_of_the_producer() -> None:
    journal = ATransaction().half("unknown").at_s(8).note("world", NodeKilled(NODE))
    journal.at_s(60).asked(1, client="").at_s(120).asked(2, client="").at_s(130)
    assert expected("unasked_checks", journal) == (
        f"2 checks were without a producer to ask; the first is about {KEY}. {PUT_ASIDE}, and "
        "producer ended its local transaction with unknown at 0.000 s. producer was killed at "
        "8.0 s. broker-a counted 2 checks from 60.0 s to 120.0 s and asked nobody, as no producer "
        f"of the group {GROUP} was connected. broker-a had no end of it by 130.0 s."
    )


def test_a_half_message_that_is_given_up_is_told_with_its_immunity() -> None:
    journal = ATransaction().half("unknown")
    for number in range(1, 16):
        journal.at_s(60 * number).immune(number)
    journal.at_s(960).stored(0, GIVEN_UP, KEY)
    journal.note("broker-a", TransactionGivenUp(Q0, 15, 15, "checked 15 times", KEY))
    assert expected("given_up", journal).endswith(
        "broker-a counted 15 checks from 60.0 s to 900.0 s and asked nobody, as the message is "
        "immune by its CHECK_IMMUNITY_TIME_IN_SECONDS until 960.0 s. broker-a gave it up at "
        "960.0 s: checked 15 times."
    )


def test_a_second_commit_is_told_with_the_answer_and_the_late_end() -> None:
    journal = ATransaction().half().at_s(60).asked(1).answers("commit")
    journal.commits(0, half=1, by_check=True).at_s(70).commits(1)
    assert expected("committed_again", journal).endswith(
        "broker-a asked about it once, at 60.0 s: producer answered commit. broker-a committed it "
        "at 60.0 s, as a producer answered its check. broker-a committed it again at 70.0 s, as a "
        "producer asked."
    )


def test_what_comes_after_the_violation_is_not_told() -> None:
    journal = ATransaction().half("rollback").at_s(5).stored(0, Q0, KEY)
    assert cause(journal.at_s(50).over("rollback")).endswith(
        "broker-a stored it at 0 of orders@broker-a:0, for consumers, at 5.0 s. broker-a had no "
        "end of it by 5.0 s."
    )


PLANTED_CAUSES = {
    "ask_nobody": (
        {"unknowns": 1.0},
        "broker-a asked about it twice, from 60.0 s to 120.0 s, and no producer of the group",
    ),
    "deliver_rollbacks": (
        {"rollbacks": 1.0},
        "broker-a rolled it back at 1.0 s, as a producer asked. broker-a stored it at 0 of",
    ),
    "lose_ends": (
        {},
        (
            "The fault kill broker-a held from 5.0 s to 8.0 s. broker-a asked about it once, at "
            "68.0 s, after its end"
        ),
    ),
}


@pytest.mark.parametrize("quirk", PLANTED_CAUSES)
def test_the_cause_of_a_planted_bug_names_the_wrong_step(quirk) -> None:
    shares, said = PLANTED_CAUSES[quirk]
    transactions = LoadPlan(
        topic="orders", rate=1, mode="transaction", from_ms=1_000, count_max=1, **shares
    )
    kill = Step(at_ms=5_000, does=Kill(node="broker-a"), for_ms=3_000)
    plan = a_plan(
        *([kill] if quirk == "lose_ends" else []),
        load=(transactions,),
        cluster=ClusterPlan(brokers=1),
        quirks=(quirk,),
        lasts_ms=140_000,
    )
    entries = finished_run(plan, seed=1)[1]
    found = explained(entries, judge(entries))
    assert found is not None
    assert said in " ".join(found.cause)


def test_a_scenario_of_the_library_names_the_application_that_rolls_back_foreign_orders() -> None:
    plan = load("two_applications_share_a_producer_group")
    entries = finished_run(plan, seed=1)[1]
    journal = AJournal()
    journal.entries = list(entries)
    said = cause_of_expectation(journal)
    assert "producer-1 ended its local transaction with unknown" in said
    assert "producer-2 answered rollback" in said
