"""The report's data from a journal: owners, lives, latencies, backlog, faults, violations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import (
    ActionBegan,
    ConsumerStarted,
    Fact,
    FaultBegan,
    FaultEnded,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageSentBack,
    NodePaused,
    NodeResumed,
    NodeStarted,
    PowerLost,
    RunStarted,
    SendFailed,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.scenarios.report.ownership import Span, gaps, overlaps
from rocketmq_emulator.scenarios.report.report_data import (
    EmptyJournal,
    ReportData,
    read_report_data,
)
from tests.support.scenarios.journals_for_reports import (
    BOOT_US,
    GROUP,
    a_claim,
    a_commit,
    a_consumption,
    a_journal,
    a_queue,
    a_release,
    a_send,
    a_store,
)

S = 1_000_000


def data_of(*noted: tuple[float, str, Fact], lives: list[tuple[float, str]] | None = None):
    return read_report_data(a_journal(*noted, lives=lives or []))


def seconds(data: ReportData, at_us: int) -> float:
    return (at_us - data.start_us) / S


def spans(data: ReportData, lane: int = 0) -> list[tuple[str, float, float, str]]:
    return [
        (it.owner, seconds(data, it.from_us), seconds(data, it.until_us), it.why)
        for it in data.lanes[lane].spans
    ]


def stretches(data: ReportData, what: str, lane: int = 0) -> list[tuple[float, float]]:
    found = getattr(data.lanes[lane], what)
    return [(seconds(data, it.from_us), seconds(data, it.until_us)) for it in found]


def points(data: ReportData, what: str) -> list[tuple[int, int]]:
    (found,) = [it for it in data.series if it.what == what]
    return list(zip(found.facts, found.values, strict=True))


def test_a_queue_that_two_members_claim_has_an_overlap_until_one_releases_it() -> None:
    data = data_of(
        (0, "billing-1", a_claim(0)),
        (10, "billing-2", a_claim(0)),
        (12, "billing-1", a_release(0)),
        (20, "billing-2", a_release(0, reason="shutdown")),
    )
    assert spans(data) == [
        ("billing-1", 0, 12, "not mine"),
        ("billing-2", 10, 20, "shutdown"),
    ]
    assert stretches(data, "overlaps") == [(10, 12)]
    assert stretches(data, "gaps") == []


def test_a_queue_that_is_released_and_claimed_later_has_a_gap() -> None:
    data = data_of(
        (0, "billing-1", a_claim(0)),
        (5, "billing-1", a_release(0)),
        (9, "billing-2", a_claim(0)),
        (10, "billing-2", a_store(0)),
    )
    assert stretches(data, "gaps") == [(5, 9)]
    assert spans(data)[-1] == ("billing-2", 9, 10, "still owned")


def test_a_member_whose_numbers_begin_again_had_died_and_owned_nothing() -> None:
    data = data_of(
        (0, "billing-1", a_claim(0)),
        (4, "billing-1", a_consumption(0)),
        (30, "billing-1", a_claim(0)),
        lives=[(20, "billing-1")],
    )
    assert spans(data) == [
        ("billing-1", 0, 4, "its owner died"),
        ("billing-1", 30, 30, "still owned"),
    ]
    assert stretches(data, "gaps") == [(4, 30)]
    (life,) = data.nodes
    assert [(seconds(data, it.from_us), it.how) for it in life.absences] == [(4, "down")]


def test_a_member_that_notes_nothing_until_the_end_is_gone() -> None:
    data = data_of(
        (0, "billing-1", a_claim(0)), (2, "broker-a", a_store(0)), (90, "broker-a", a_store(1))
    )
    assert spans(data) == [("billing-1", 0, 0, "its owner died")]
    how = {life.name: [it.how for it in life.absences] for life in data.nodes}
    assert how == {"billing-1": ["gone"], "broker-a": ["silent"]}


def test_a_machine_without_power_is_gone_from_then_on() -> None:
    data = data_of(
        (0, "broker-a", a_store(0)),
        (5, "broker-a", PowerLost(0, 0, 0, ())),
        (8, "billing-1", a_claim(0)),
        (9, "broker-a", NodeStarted("broker", "", "4.9.7")),
        lives=[(5, "broker-a"), (9, "broker-a")],
    )
    life = next(life for life in data.nodes if life.name == "broker-a")
    assert [(seconds(data, it.from_us), seconds(data, it.until_us)) for it in life.absences] == [
        (5, 9)
    ]


def test_a_fault_says_when_its_node_died_and_how_long_it_was_paused() -> None:
    data = data_of(
        (0, "billing-1", a_claim(0)),
        (0, "billing-2", a_claim(1)),
        (5, "world", FaultBegan(1, '{"fault":"kill","node":"billing-1"}', ("billing-1",))),
        (6, "world", FaultBegan(2, '{"fault":"pause","node":"billing-2"}', ("billing-2",))),
        (16, "world", FaultEnded(2, "time is up", 3)),
        (17, "billing-2", a_release(1)),
        (20, "broker-a", a_store(0)),
    )
    assert spans(data) == [("billing-1", 0, 5, "its owner died")]
    how = {
        life.name: [(it.how, seconds(data, it.from_us)) for it in life.absences]
        for life in data.nodes
    }
    assert how == {"billing-1": [("gone", 5)], "billing-2": [("paused", 6)], "broker-a": []}
    kill, pause = data.faults
    assert (kill.text, kill.reason) == ("kill node=billing-1", "held at the end of the journal")
    assert (seconds(data, pause.until_us), pause.acted_count) == (16, 3)


def test_a_pause_by_hand_is_drawn_as_one_by_a_fault() -> None:
    data = data_of(
        (0, "billing-2", a_claim(1)),
        (6, "world", NodePaused("billing-2")),
        (8, "world", NodeResumed("billing-2")),
        (9, "billing-2", a_release(1)),
    )
    (life,) = [node for node in data.nodes if node.name == "billing-2"]
    (absence,) = life.absences
    assert (absence.how, seconds(data, absence.from_us)) == ("paused", 6)


def a_java_member(host: str) -> MemberJoined:
    how = ("CONSUME_PASSIVELY", "CLUSTERING", "JAVA", 399)
    return MemberJoined("java", f"{host}@1", f"{host}:4000", *how)


def test_owners_of_foreign_clients_are_those_who_commit() -> None:
    data = data_of(
        (0, "broker-a", a_java_member("10.0.0.9")),
        (1, "broker-a", a_java_member("10.0.0.8")),
        (5, "broker-a", a_commit(3, "10.0.0.9:4000", "java")),
        (10, "broker-a", a_commit(5, "10.0.0.9:4000", "java")),
        (15, "broker-a", a_commit(6, "10.0.0.8:4000", "java")),
        (20, "broker-a", MemberLeft("java", "10.0.0.8@1", "10.0.0.8:4000", "channel closed")),
        (30, "broker-a", a_store(0)),
    )
    assert data.lanes[0].inferred
    assert spans(data) == [
        ("10.0.0.9@1", 5, 15, "another one committed"),
        ("10.0.0.8@1", 15, 20, "channel closed"),
    ]
    assert stretches(data, "gaps") == []


def test_a_delivery_takes_from_stored_to_consumed_and_a_retry_is_none() -> None:
    data = data_of(
        (0, "broker-a", a_store(0)),
        (1, "broker-a", a_store(1)),
        (3, "billing-1", a_consumption(0)),
        (4, "billing-1", a_consumption(1)),
        (5, "billing-1", a_consumption(1, times=1)),
        (6, "broker-a", a_commit(2)),
    )
    assert points(data, "consumed") == [(2, 3 * S), (3, 3 * S)]
    assert "committed" not in {it.what for it in data.series}


def test_without_facts_of_consumers_a_delivery_ends_with_the_commit() -> None:
    data = data_of(
        (0, "broker-a", a_commit(0)),
        (1, "broker-a", a_store(0)),
        (2, "broker-a", a_store(1)),
        (7, "broker-a", a_commit(2)),
    )
    assert points(data, "committed") == [(3, 6 * S), (3, 5 * S)]


def test_the_backlog_is_what_is_stored_and_not_committed() -> None:
    data = data_of(
        (0, "billing-1", a_claim(0)),
        (1, "broker-a", a_store(0)),
        (2, "broker-a", a_store(1)),
        (3, "broker-a", a_commit(1)),
        (4, "broker-a", a_commit(2)),
        (5, "broker-a", a_store(2)),
    )
    assert points(data, "backlog") == [(1, 1), (2, 2), (3, 1), (4, 0), (5, 1)]


def test_a_commit_beyond_what_the_journal_saw_stored_is_no_negative_backlog() -> None:
    data = data_of(
        (0, "broker-a", a_commit(500)),
        (1, "broker-a", a_store(500)),
        (2, "broker-a", a_commit(501)),
    )
    assert points(data, "backlog") == [(1, 1), (2, 0)]


def test_sends_and_failed_sends_are_told_apart() -> None:
    data = data_of(
        (1, "producer-1", a_send(0, took_ms=7)),
        (2, "producer-1", SendFailed("orders", "KEY", 3, "NoAnswer: …", maybe_stored=True)),
    )
    assert points(data, "sends") == [(0, 7_000)]
    assert points(data, "failed sends") == [(1, 0)]


def test_a_violation_leads_to_the_facts_that_show_it() -> None:
    entries = a_journal(
        (0, "billing-1", a_claim(0)), (1, "billing-2", a_claim(0)), (1, "billing-2", a_claim(1))
    )
    keys = tuple(EntryKey(it.mono_us, it.node, it.seq) for it in (entries[0], entries[2]))
    strange = EntryKey(BOOT_US, "nobody", 1)
    violation = Violation(
        checker="owners",
        rule="one",
        what="two",
        mono_us=BOOT_US + S,
        node="",
        entries=(*keys, strange),
    )
    data = read_report_data(
        entries, lambda: Judgement(violations=(violation,), metrics={}, fact_count=3)
    )
    assert [place.facts for place in data.places] == [[0, 2]]


def test_a_journal_without_facts_has_no_story() -> None:
    with pytest.raises(EmptyJournal):
        read_report_data([])


def test_servers_come_first_and_numbers_count_as_numbers() -> None:
    noted = [(i, f"billing-{n}", a_claim(n)) for i, n in enumerate((10, 2))]
    noted += [(5, "broker-a", NodeStarted("broker", "", "4.9.7"))]
    noted += [(6, "namesrv", NodeStarted("nameserver", "", "4.9.7"))]
    names = [life.name for life in data_of(*noted).nodes]
    assert names == ["namesrv", "broker-a", "billing-2", "billing-10"]


def test_queues_for_retries_come_last() -> None:
    retry = a_claim(0)
    retry = type(retry)(GROUP, (a_queue(0, "%RETRY%billing"), a_queue(1)))
    data = data_of((0, "billing-1", retry))
    assert [lane.queue.topic for lane in data.lanes] == ["orders", "%RETRY%billing"]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=8))
def test_at_each_moment_a_queue_has_one_owner_or_an_overlap_or_a_gap(
    drawn: list[tuple[int, int]],
) -> None:
    held = sorted(
        (Span("x", start, start + lasts, -1, -1, "not mine") for start, lasts in drawn),
        key=lambda span: span.from_us,
    )
    first = held[0].from_us
    none, several = list(gaps(held, 40)), list(overlaps(held))
    for at in range(first, 40):
        count = sum(span.from_us <= at < span.until_us for span in held)
        assert any(it.from_us <= at < it.until_us for it in none) == (count == 0)
        assert any(it.from_us <= at < it.until_us for it in several) == (count > 1)


@given(st.permutations(range(6)))
def test_the_story_of_a_journal_counts_each_fact_once(order: list[int]) -> None:
    entries: list[Entry] = a_journal(*[(i, f"n{n}", a_store(n, n)) for i, n in enumerate(order)])
    table = read_report_data(entries).facts
    assert table.count == 6
    assert [name.name for name in table.kinds] == ["MessageStored"]
    assert sum(table.at_us) == 5 * S


def a_run_that_expects(plan: str) -> ReportData:
    started = RunStarted("dies", plan, "{}", 1, "virtual", "4.9.7", "x")
    entries = a_journal((0, "world", started), (1, "broker-a", a_store(0)))
    measured = Judgement(violations=(), metrics={"lost": 0.0, "lost.billing": 2.0}, fact_count=2)
    return read_report_data(entries, lambda: measured)


def test_what_the_plan_expected_stands_beside_what_was_measured() -> None:
    data = a_run_that_expects(
        '{"name":"dies","title":"A broker dies","expect":['
        '{"metric":"lost","bound":0,"operator":"=="},'
        '{"metric":"lost","bound":1,"scope":"billing"},'
        '{"metric":"moons","bound":1}]}'
    )
    assert data.plan_title == "A broker dies"
    met = [(it.text, it.met) for it in data.expected]
    assert met == [("lost.billing <= 1", False), ("lost == 0", True), ("moons <= 1", None)]
    assert "moons" in data.expected[2].why


def test_a_metric_stands_once_with_its_parts_those_that_are_not_met_first() -> None:
    plan = '{"name":"dies","expect":[{"metric":"backlog","bound":1,"scope":"billing"}]}'
    started = RunStarted("dies", plan, "{}", 1, "virtual", "4.9.7", "x")
    entries = a_journal((0, "world", started), (1, "broker-a", a_store(0)))
    measured = {"lost": 3.0, "lost.billing": 2.0, "lost.news": 1.0, "overlap_s": 4.0}
    measured |= {"overlap_s.billing": 4.0, "overlap_s.news": 0.0}
    measured |= {"backlog": 5.0, "backlog.billing": 5.0}
    judgement = Judgement(violations=(), metrics=measured, fact_count=2)
    found = read_report_data(entries, lambda: judgement).metrics
    assert [(it.name, it.unmet, it.value, it.over) for it in found] == [
        ("backlog", True, 5, ""),
        ("lost", False, 3, "sum over 2 groups"),
        ("overlap_s", False, 4, "largest of 2 groups"),
    ]
    assert found[1].parts == {"billing": 2, "news": 1}


def test_retries_dead_letters_and_repeats_of_a_group_are_points_of_their_facts() -> None:
    failed = MessageConsumed(GROUP, "orders", a_queue(), 1, "KEY0001", 0, ok=False)
    retry, dead = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
    data = data_of(
        (0, "broker-a", a_store(0)),
        (1, "broker-a", a_store(1)),
        (2, "billing-1", a_consumption(0)),
        (3, "billing-1", failed),
        (4, "broker-a", MessageSentBack(GROUP, "orders", retry, 1, 3, 0, "10.0.0.9:1")),
        (5, "billing-1", a_consumption(2, times=1)),
        (6, "billing-2", a_consumption(0)),
        (7, "broker-a", MessageSentBack(GROUP, "orders", dead, 2, 0, 0, "10.0.0.9:1")),
    )
    events = ("failed", "sent back", "retries", "duplicates", "dead letters")
    assert [points(data, what) for what in events] == [[(number, 1)] for number in (3, 4, 5, 6, 7)]


def test_offsets_that_a_broker_uses_again_are_no_repeats() -> None:
    data = data_of(
        (0, "broker-a", a_store(0)),
        (1, "billing-1", a_consumption(0)),
        (2, "broker-a", a_store(0)),  # the end of its log was lost
        (3, "billing-1", a_consumption(0)),
    )
    assert not [it for it in data.series if it.what == "duplicates"]


def a_member(group: str = GROUP) -> ConsumerStarted:
    return ConsumerStarted(group, "c", "push", False, False, ("orders",), ("*",), "4.9.7")


def test_actions_marks_and_members_that_join_later_are_drawn() -> None:
    data = data_of(
        (0, "billing-1", a_member()),
        (1, "billing-2", a_member()),  # starts with the group
        (5, "world", ActionBegan("mark", "half time")),
        (6, "world", ActionBegan("join", "billing")),
        (6.1, "billing-3", a_member()),  # the timeline has noted it
        (20, "billing-4", a_member()),
        (30, "billing-4", a_member()),  # starts again
    )
    assert [(seconds(data, it.at_us), it.action, it.text) for it in data.actions] == [
        (5, "mark", "half time"),
        (6, "join", "join billing"),
        (20, "join", "join billing: billing-4"),
    ]


def test_a_plan_of_another_version_is_compared_with_nothing() -> None:
    assert a_run_that_expects('{"name":"dies","warp":9}').expected == []


def test_transactions_of_a_topic_are_open_until_they_end_or_are_given_up() -> None:
    queue, broker = a_queue(0), "broker-a"
    halves = [HalfMessageStored(queue, number, 0, "shop", f"K{number}", -1) for number in range(3)]
    commit = TransactionEnded(queue, 0, "commit", "shop", False, 0, "K0")
    data = data_of(
        *((number, broker, half) for number, half in enumerate(halves)),
        (5, broker, commit),
        (60, broker, TransactionChecked(queue, 1, 3, 1, "", "shop", "K1")),
        (61, broker, ImmuneHalfStoredAgain(queue, 2, 4, 1, 9_000, "shop", "K2")),
        (70, broker, commit),
        (90, broker, TransactionGivenUp(queue, 3, 15, "checked too often", "K1")),
    )
    assert points(data, "open") == [(0, 1), (1, 2), (2, 3), (3, 2), (6, 2), (7, 1)]
    assert len(points(data, "transactions committed")) == 2
    assert points(data, "checks of nobody") == [(4, 1), (5, 1)]
    assert points(data, "given up") == [(7, 1)]
