"""Judging: one pass; each checker gets its own facts; one that raises does not stop the others."""

from __future__ import annotations

from rocketmq_emulator.checks.judging.judging import Judging, judge
from rocketmq_emulator.checks.judging.table import ALL, METRICS
from rocketmq_emulator.checks.state.checker import VIOLATIONS_MAX, Checker, Metric
from rocketmq_emulator.facts import MessageConsumed, MessageSent, PowerLost
from tests.support.checks.small_journals import AJournal, a_consumed_journal


class Counting(Checker):
    name = "counting"
    rule = "nothing is consumed"
    metrics = (Metric("seen", "messages", "consumed", "group"),)

    def table(self):
        return {MessageConsumed: self._consumed}

    def _consumed(self, fact, entry) -> None:
        self.add_to_metric("seen", 1, fact.group)
        self.report_violation(f"{fact.offset} was consumed", entry)


class Raising(Counting):
    name = "raising"

    def _consumed(self, fact, entry) -> None:
        raise ZeroDivisionError("a defect")


class RaisingAtTheEnd(Counting):
    name = "raising at the end"

    def end(self) -> None:
        raise KeyError("gone")


class NeedsPower(Counting):
    name = "needs power"
    metrics = ()
    needs = (PowerLost,)


def test_a_checker_gets_the_facts_in_its_table_and_names_where_it_objects() -> None:
    journal = a_consumed_journal(3)
    judgement = judge(journal.entries, [Counting])
    assert [each.what for each in judgement.violations] == [f"{n} was consumed" for n in range(3)]
    assert judgement.metrics == {"seen": 3.0, "seen.billing": 3.0}
    assert judgement.fact_count == len(journal.entries)
    (key,) = judgement.violations[0].entries
    assert (key.node, key.mono_us) == ("billing-1", judgement.violations[0].mono_us)


def test_a_checker_that_raises_is_named_and_does_not_hide_the_others() -> None:
    journal = a_consumed_journal(3)
    judgement = judge(journal.entries, [Raising, RaisingAtTheEnd, Counting])
    assert judgement.metrics == {"seen": 3.0, "seen.billing": 3.0}
    assert sorted(judgement.raised) == ["raising", "raising at the end"]
    assert judgement.raised["raising"].startswith("ZeroDivisionError: a defect, at billing-1 ")
    assert judgement.raised["raising at the end"] == "KeyError: 'gone'"


def test_a_checker_names_a_hundred_violations_and_counts_the_others() -> None:
    judgement = judge(a_consumed_journal(VIOLATIONS_MAX + 7).entries, [Counting])
    assert len([v for v in judgement.violations if v.checker == "counting"]) == VIOLATIONS_MAX
    assert judgement.more_violations == 7


def test_without_the_facts_it_needs_a_checker_says_so_and_has_no_metrics() -> None:
    judgement = judge(a_consumed_journal(3).entries, [NeedsPower])
    assert judgement.not_judged == {"needs power": "the journal has no PowerLost"}
    assert judge([], list(ALL.values())).metrics == {}


def test_a_journal_with_a_hole_proves_nothing() -> None:
    entries = a_consumed_journal(5).entries
    stored = [each for each in entries if each.node == "broker-a"][4]
    judgement = judge([each for each in entries if each is not stored])
    assert judgement.not_judged["lost"] == "the journal of broker-a lacks entries before number 6"


def test_a_journal_that_begins_in_its_middle_says_so() -> None:
    judgement = judge(a_consumed_journal(5).entries[6:])
    assert "begins in its middle" in judgement.not_judged["lost"]


def test_entries_may_come_in_parts() -> None:
    entries = a_consumed_journal(9).entries
    judging = Judging()
    judging.take(entries[:20])
    judging.take(entries[20:])
    assert judging.end() == judge(entries)


def test_violations_come_in_the_order_of_time() -> None:
    journal = AJournal().runs().consumer("b").consumer("a")
    journal.consumed("b", 1).consumed("a", 2)
    times = [each.mono_us for each in judge(journal.entries, [Counting, Counting]).violations]
    assert times == sorted(times)


def test_every_metric_has_one_checker_and_a_sentence() -> None:
    names = [metric.name for kind in ALL.values() for metric in kind.metrics]
    assert len(names) == len(set(names)) == len(METRICS)
    assert all(metric.sentence and metric.unit for metric in METRICS.values())
    assert all(kind.rule for kind in ALL.values())
    assert MessageSent in ALL["lost"].needs
