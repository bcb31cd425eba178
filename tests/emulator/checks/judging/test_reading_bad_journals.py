"""Damaged journals: judged as far as possible, and never passed.

Each is made from the journal of one run that passes, by one kind of damage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from rocketmq_emulator.checks.judging.judging import Judging, judge
from rocketmq_emulator.checks.judging.reading import Skipped, entries_in
from rocketmq_emulator.checks.judging.table import ALL
from rocketmq_emulator.checks.state.violation import Judgement
from rocketmq_emulator.cluster.fault_values import Kill, PowerOff, Stop
from rocketmq_emulator.facts import (
    ConnectionClosed,
    Fact,
    FactsLeftOut,
    FaultBegan,
    MessageConsumed,
    MessageSent,
    MessageStored,
    NodeStarted,
    PowerLost,
    RunEnded,
    RunStarted,
    SendAttempted,
)
from rocketmq_emulator.facts.journal import Entry, encode_entry
from rocketmq_emulator.scenarios.plan.plan import Mark, Step
from rocketmq_emulator.scenarios.plan.result import RunResult, result_of, unproven
from rocketmq_emulator.scenarios.running.virtual_run import VirtualRun
from tests.support.checks.small_journals import RECORD_BYTES, AJournal
from tests.support.scenarios.running_plans import a_plan

SEED = 5
HOUR_US = 3_600_000_000
Entries = list[Entry]


@cache
def a_run() -> VirtualRun:
    run = VirtualRun(a_plan(), SEED)
    run.run()
    return run


def entries() -> Entries:
    return list(a_run().entries)


def row_of(judgement: Judgement) -> RunResult:
    run = a_run()
    return result_of(run._plan, run.began, run.ended, judgement, run_s=1, took_s=1)


def without(*nodes: str) -> Entries:
    return [entry for entry in entries() if entry.node not in nodes]


def middle_of(node: str, kind: type[Fact] = Fact) -> int:
    """The index of the middle one of the node's facts of this kind."""
    places = [at for at, e in enumerate(entries()) if e.node == node and isinstance(e.fact, kind)]
    return places[len(places) // 2]


def test_the_whole_journal_passes_and_lacks_nothing() -> None:
    judgement = judge(entries())
    assert (judgement.incomplete, judgement.doubtful) == ((), ())
    assert (row_of(judgement).verdict, row_of(judgement).reason) == ("passed", "")


# Missing or misplaced entries -----------------------------------------------------------------


def with_a_hole() -> Entries:
    found = entries()
    del found[middle_of("broker-a", MessageStored)]
    return found


def that_begins_late() -> Entries:
    found = entries()
    own = [entry for entry in found if entry.node == "billing-1"]
    return [entry for entry in found if entry not in own[:4]]


def without_the_end_of(node: str) -> Entries:
    """The node's file is cut off at the end of a line."""
    at = middle_of(node)
    return [e for number, e in enumerate(entries()) if e.node != node or number < at]


def with_a_full_disk(facts: int | None = None) -> Entries:
    """That many facts of a broker are left out; None: all until its end."""
    found = [entry for entry in entries() if entry.node == "broker-a"]
    first = entries()[middle_of("broker-a")]
    end = first.seq + facts if facts else found[-1].seq + 1
    left_out = replace(first, fact=FactsLeftOut(end - first.seq, is_over=False))
    gone = [entry for entry in found if first.seq < entry.seq < end]
    return [left_out if e is first else e for e in entries() if e not in gone]


def with_two_facts_of_a_node_exchanged() -> Entries:
    found = entries()
    places = [at for at, entry in enumerate(found) if entry.node == "billing-1"]
    one, other = places[len(places) // 2 :][:2]
    found[one], found[other] = found[other], found[one]
    return found


def with_a_fact_twice() -> Entries:
    at = middle_of("producer-1", MessageSent)
    return [*entries()[: at + 1], *entries()[at:]]


def one_node_after_the_other() -> Entries:
    """The order that ``cat *.jsonl`` gives."""
    return sorted(entries(), key=lambda entry: entry.node)


def shifted(by_us: int, *, until: int = 1_000_000) -> Entries:
    """The monotonic clock jumps by *by_us* in the middle, and back after *until* facts."""
    at = middle_of("broker-a")
    return [
        replace(entry, mono_us=entry.mono_us + by_us * (at <= number < at + until))
        for number, entry in enumerate(entries())
    ]


def with_a_node_that_began_again() -> Entries:
    found, at = entries(), middle_of("broker-a")
    gone = found[at].seq - 1
    return [
        replace(e, seq=e.seq - gone) if e.node == "broker-a" and e.seq > gone else e for e in found
    ]


def one_after_the_other() -> Entries:
    other = VirtualRun(a_plan(), SEED + 1)
    other.run()
    return [*entries(), *other.entries]


NOT_WHOLE: dict[str, tuple[Callable[[], Entries], str]] = {
    "a broker is missing": (lambda: without("broker-a"), "broker broker-a has no journal, and"),
    "a consumer is missing": (lambda: without("billing-1"), "has no journal, and broker-"),
    "all consumers are missing": (lambda: without("billing-1", "billing-2"), "has no journal"),
    "the producer is missing": (lambda: without("producer-1"), "producer-1 has no journal, and"),
    "the NameServer is missing": (lambda: without("namesrv"), "1 of 1 NameServers have no"),
    "all servers are missing": (
        lambda: without("broker-a", "broker-b", "namesrv"),
        "broker broker-a has no journal",
    ),
    "only the world is there": (
        lambda: [entry for entry in entries() if entry.node == "world"],
        "producer-1 has no journal",
    ),
    "a line is missing": (with_a_hole, "the journal of broker-a lacks entries before number "),
    "the beginning is missing": (that_begins_late, "the journal of billing-1 begins in its middl"),
    "the end is missing": (lambda: entries()[:-9], "the run has no end in the journal (RunEnded)"),
    "the end of a broker is missing": (
        lambda: without_the_end_of("broker-a"),
        "the journal of broker-a ends at ",
    ),
    "the end of a consumer is missing": (
        lambda: without_the_end_of("billing-1"),
        "the journal of billing-1 ends at ",
    ),
    "the disk of a broker was full": (
        with_a_full_disk,
        "the journal of broker-a ends early: ",
    ),
    "the disk of a broker was full for a while": (
        lambda: with_a_full_disk(3),
        "the journal of broker-a has gaps: 3 facts are missing since ",
    ),
    "the end of a producer is missing": (
        lambda: without_the_end_of("producer-1"),
        "the journal of producer-1 ends at ",
    ),
    "numbers go back": (with_two_facts_of_a_node_exchanged, "the journal of billing-1"),
    "a fact is there twice": (with_a_fact_twice, "facts are out of order, or there twice"),
    "files are put together": (one_node_after_the_other, "the time goes back by "),
    "time jumps ahead": (lambda: shifted(HOUR_US), "the time jumps ahead by 3,600."),
    "time jumps far ahead, and back": (lambda: shifted(10**12, until=1), "the time jumps ahead b"),
    "time jumps back": (lambda: shifted(-5_000_000), "the time goes back by "),
    "a node began again": (with_a_node_that_began_again, "broker-a was started again at "),
    "two runs in one file": (one_after_the_other, "a second run (a plan of a test, seed 6) begin"),
}


@pytest.mark.parametrize("what", NOT_WHOLE)
def test_a_journal_that_is_not_whole_is_not_passed_and_the_reason_names_what_is_wrong(
    what: str,
) -> None:
    make, words = NOT_WHOLE[what]
    judgement = judge(make())
    row = row_of(judgement)
    assert (row.verdict, judgement.violations, judgement.raised) == ("error", (), {})
    assert any(text.startswith(words) or words in text for text in judgement.incomplete)
    assert row.reason.startswith("the journal is not whole: ")
    assert set(judgement.not_judged) <= ALL.keys()


@pytest.mark.parametrize("what", ["a broker is missing", "a line is missing", "time jumps back"])
def test_rules_that_need_the_whole_journal_say_what_they_lack(what: str) -> None:
    judgement = judge(NOT_WHOLE[what][0]())
    assert any(NOT_WHOLE[what][1] in why for why in judgement.not_judged.values())
    assert "lost" not in judgement.metrics
    assert judgement.metrics["failed_sends"] == 0.0  # this metric needs no other facts


def test_facts_that_a_full_disk_left_out_are_one_gap() -> None:
    (text,) = judge(with_a_full_disk(3)).incomplete
    assert text.endswith(" s, when its disk was full")


def test_two_runs_of_two_files_are_named_and_nothing_is_judged() -> None:
    other = VirtualRun(a_plan(), SEED + 1)
    other.run()
    both = sorted([*entries(), *other.entries], key=lambda entry: entry.mono_us)
    row = row_of(judge(both))
    assert row.verdict == "error"
    assert "a second run" in row.reason
    assert "nothing was judged" in row.reason


def test_of_two_runs_the_first_is_judged_as_if_it_were_alone() -> None:
    alone, both = judge(entries()), judge(one_after_the_other())
    assert both.metrics == alone.metrics
    assert both.fact_count == alone.fact_count


def test_nodes_that_began_again_after_faults_that_are_told_lack_nothing() -> None:
    faults = (Kill(node="broker-a"), Stop(node="billing-1"), PowerOff(node="broker-b"))
    steps = [
        Step(does=fault, at_ms=4_000 + 6_000 * number, for_ms=3_000)
        for number, fault in enumerate(faults)
    ]
    run = VirtualRun(a_plan(*steps, Step(does=Mark(text="the end"), at_ms=22_000)), SEED)
    run.run()
    firsts = [entry.node for entry in run.entries if entry.seq == 1]
    assert {node for node in firsts if firsts.count(node) > 1} == {
        "broker-a",
        "billing-1",
        "broker-b",
    }
    assert judge(run.entries).incomplete == ()


# Objections and missing entries ---------------------------------------------------------------


def with_a_fifth_attempt() -> Entries:
    """The middle attempt becomes a fifth one, to which a checker objects."""
    found, at = entries(), middle_of("producer-1", SendAttempted)
    found[at] = replace(found[at], fact=replace(found[at].fact, attempt=5))
    return found


def without_a_line_of(found: Entries, node: str, *, behind: int) -> Entries:
    """Without the first entry of *node* after the index *behind*."""
    at = next(at for at, entry in enumerate(found) if at > behind and entry.node == node)
    return [*found[:at], *found[at + 1 :]]


def objections(judgement: Judgement) -> set[str]:
    return {violation.checker for violation in judgement.violations}


def test_what_was_objected_to_before_a_line_is_missing_stands() -> None:
    place = middle_of("producer-1", SendAttempted)
    judgement = judge(without_a_line_of(with_a_fifth_attempt(), "billing-1", behind=place + 80))
    assert objections(judgement) == {"attempts_are_bounded"}
    row = row_of(judgement)
    assert row.verdict != "passed"
    assert row.reason.startswith("attempts_are_bounded: attempt 5 of a send to orders")
    assert "; the journal is not whole: the journal of billing-1 lacks" in row.reason


def test_what_is_objected_to_behind_a_missing_line_is_doubtful_and_no_violation() -> None:
    judgement = judge(without_a_line_of(with_a_fifth_attempt(), "billing-1", behind=0))
    assert objections(judgement) == set()
    assert {each.checker for each in judgement.doubtful} == {"attempts_are_bounded"}
    assert "attempts_are_bounded" in judgement.not_judged
    row = row_of(judgement)
    assert row.verdict == "error"
    assert "1 objection may come from that, the first: attempts_are_bounded: attemp" in row.reason


def test_a_missing_consumer_has_not_lost_what_it_consumed() -> None:
    judgement = judge(without("billing-1"))
    assert objections(judgement) == set()
    assert {each.checker for each in judgement.doubtful} >= {"commits"}


# Lines that cannot be read --------------------------------------------------------------------


def torn(at: int, line: bytes) -> Judgement:
    """The judgement with *line* at the index *at*; lines that cannot be read are skipped."""
    lines = [encode_entry(entry) for entry in entries()]
    lines[at] = line
    skipped = Skipped()
    return judge(entries_in(lines, "run.jsonl", skipped), skipped=skipped)


def test_a_torn_line_is_named_with_its_place_and_what_is_before_it_is_judged() -> None:
    judgement = torn(700, b'{"seq":12,"at_ms":17000{"seq":13\n')
    (left_out,) = [text for text in judgement.incomplete if "could not be read" in text]
    assert left_out.startswith("1 line could not be read and is left out, the first: run.jsonl, l")
    assert "line 701: this line is damaged" in left_out
    assert row_of(judgement).verdict == "error"


def test_the_last_line_cut_off_leaves_a_run_without_its_end() -> None:
    judgement = torn(-1, encode_entry(entries()[-1])[:40])
    texts = " ".join(judgement.incomplete)
    assert "the last line is cut off" in texts
    assert "the run has no end in the journal" in texts
    assert row_of(judgement).verdict == "error"


# No evidence ----------------------------------------------------------------------------------


def test_a_rule_without_its_facts_says_so_and_a_journal_without_any_proves_nothing() -> None:
    nothing = [
        Entry(1, 1, 1, "world", a_run().began),
        Entry(1, 1, 2, "broker-a", NodeStarted("broker", "", "4.9.7")),
        Entry(2, 9, 9, "world", RunEnded("finished", "")),
    ]
    for found in ([], nothing):
        judgement = judge(found)
        assert judgement.not_judged.keys() == ALL.keys()
        assert judgement.not_judged["lost"] == "the journal has no MessageSent or MessageStored"
        assert judgement.metrics == {}
        assert row_of(judgement).verdict == "error"
    (why,) = unproven(judge([]))
    assert why.startswith(f"nothing was judged: none of {len(ALL)} checkers could (lost: the")


def test_a_plan_that_is_none_does_not_disturb_the_judge() -> None:
    for plan in ('{"load":7}', '{"load":[7,{"producers":"x"},{"producers":1000000000000}]}', "["):
        began = replace(a_run().began, plan=plan)
        found = [replace(entries()[0], fact=began), *entries()[1:]]
        assert isinstance(began, RunStarted)
        assert judge(found).raised == {}


# Long journals --------------------------------------------------------------------------------


def test_entries_may_come_from_a_generator_that_nobody_keeps() -> None:
    def generated() -> Iterator[Entry]:
        yield from entries()

    judging = Judging()
    judging.take(generated())
    assert row_of(judging.end()).verdict == "passed"


# Nodes that note nothing more -----------------------------------------------------------------


@pytest.mark.parametrize("node", ["broker-a", "billing-2", "producer-1"])
def test_a_node_that_was_killed_may_be_silent_to_the_end(node: str) -> None:
    kill = Step(does=Kill(node=node), at_ms=8_000)
    run = VirtualRun(a_plan(kill, Step(does=Mark(text="the end"), at_ms=22_000)), SEED)
    run.run()
    assert judge(run.entries).incomplete == ()


def test_sends_that_a_fault_held_up_may_be_stored_after_their_producer_has_closed() -> None:
    node = "producer-1"
    kept = without_the_end_of(node)
    last_us = max(entry.mono_us for entry in kept if entry.node == node)
    stall = Entry(0, 0, last_us + 1, "world", FaultBegan(1, '{"fault":"stall"}', ("broker-a",)))
    other = replace(stall, fact=replace(stall.fact, fault_id=2, nodes=("broker-b",)))
    at = next(at for at, entry in enumerate(kept) if entry.mono_us > last_us)
    with_a_fault = numbered([*kept[:at], stall, other, *kept[at:]])
    assert not [text for text in judge(with_a_fault).incomplete if node in text]


@pytest.mark.parametrize("is_same", [False, True])
def test_another_message_in_the_place_of_a_lost_one_is_not_its_producers(is_same: bool) -> None:
    keys = [f"{process}00000003EE59F721AA47B7{'0' * 8}{n}" for process, n in ("A0", "A1", "B0")]
    journal = AJournal().runs().store().sent(0, key=keys[0]).stored(1, key=keys[1])
    journal.note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, 2 * RECORD_BYTES, ())).store()
    journal.at_s(10).note("producer", ConnectionClosed("10.0.0.1:10911", "closed here"))
    journal.at_s(60).stored(1, key=keys[1 if is_same else 2]).ends()
    named = "the journal of producer ends at " in str(journal.judged().incomplete)
    assert named == is_same


def test_a_member_that_commits_and_consumes_nothing_breaks_a_rule_if_it_notes_other_things() -> (
    None
):
    kept = [
        e for e in entries() if e.node != "billing-1" or not isinstance(e.fact, MessageConsumed)
    ]
    judgement = judge(numbered(kept))
    assert judgement.incomplete == ()
    assert "commits" in objections(judgement)


def numbered(found: Entries) -> Entries:
    """With new sequence numbers of each node, without a hole."""
    seqs: Counter[str] = Counter()
    made = []
    for entry in found:
        seqs[entry.node] += 1
        made.append(replace(entry, seq=seqs[entry.node]))
    return made
