"""The trace follows the Trace Event Format, and contains what the journal contains."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import (
    ActionBegan,
    FaultBegan,
    FaultEnded,
    NodeStarted,
    NodeStopped,
    RebalancePassed,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.report.report_data import read_report_data
from rocketmq_emulator.scenarios.report.trace import rows_without_overlap, write_trace
from tests.support.scenarios.journals_for_reports import (
    BOOT_US,
    GROUP,
    a_claim,
    a_commit,
    a_journal,
    a_release,
    a_send,
    a_store,
)

S = 1_000_000
# The fields that the format requires in each phase, besides name, ph, pid and ts.
FIELDS_OF_PHASE = {
    "M": {"args"},
    "X": {"tid", "dur"},
    "b": {"tid", "id", "cat"},
    "e": {"tid", "id", "cat"},
    "i": {"tid", "s"},
    "C": {"args"},
}


def a_trace() -> list[dict[str, Any]]:
    journal = a_journal(
        (0, "broker-a", NodeStarted("broker", "10.0.0.1:10911", "4.9.7")),
        (1, "billing-1", RebalancePassed(GROUP, "orders", 4, ("a", "b"), 2, "timer")),
        (1, "billing-1", a_claim(0, 1)),
        (2, "world", FaultBegan(1, '{"fault":"stall","around":"billing-1"}', ("billing-1",))),
        (3, "world", FaultBegan(2, '{"fault":"pause","node":"broker-a"}', ("broker-a",))),
        (4, "billing-2", a_claim(0)),
        (5, "billing-1", a_release(0)),
        (6, "broker-a", a_store(0)),
        (7, "producer-1", a_send(0, took_ms=1_500)),
        (8, "producer-1", a_send(1, took_ms=2_900)),
        (9, "broker-a", a_commit(1)),
        (10, "world", ActionBegan("mark", "half time")),
        (12, "world", FaultEnded(1, "healed", 7)),
    )
    violation = Violation(
        checker="owners", rule="one owner", what="two", mono_us=BOOT_US + 4 * S, node="billing-2"
    )
    main = read_report_data(
        journal, lambda: Judgement(violations=(violation,), metrics={}, fact_count=13)
    )
    events: list[dict[str, Any]] = msgspec.json.decode(b"".join(write_trace(main)))["traceEvents"]
    return events


def named(events: list[dict[str, Any]], what: str) -> dict[tuple[int, int], str]:
    return {
        (it["pid"], it["tid"]): it["args"]["name"]
        for it in events
        if it["ph"] == "M" and it["name"] == what
    }


def test_each_event_has_the_fields_of_its_phase() -> None:
    for event in a_trace():
        wanted = FIELDS_OF_PHASE[event["ph"]] | {"name", "ph", "pid", "ts"}
        assert wanted <= event.keys(), event
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0
        assert event.get("s", "t") in {"g", "p", "t"}


def test_each_process_and_each_thread_with_slices_has_a_name() -> None:
    events = a_trace()
    processes = {pid for pid, _ in named(events, "process_name")}
    assert {event["pid"] for event in events} <= processes
    threads = named(events, "thread_name")
    used = {(it["pid"], it["tid"]) for it in events if it["ph"] == "X"}
    assert used <= threads.keys()


def test_asynchronous_slices_end_as_often_as_they_begin() -> None:
    open_since: dict[tuple[Any, ...], int] = {}
    for event in a_trace():
        key = (event["pid"], event.get("cat"), event.get("id"), event["name"])
        if event["ph"] == "b":
            assert key not in open_since
            open_since[key] = event["ts"]
        elif event["ph"] == "e":
            assert open_since.pop(key) <= event["ts"]
    assert open_since == {}


def test_slices_of_one_thread_do_not_overlap() -> None:
    spans = defaultdict(list)
    for event in a_trace():
        if event["ph"] == "X":
            spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for found in spans.values():
        ordered = sorted(found)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered))


def test_two_owners_at_once_stand_on_two_threads() -> None:
    events = a_trace()
    threads = named(events, "thread_name")
    found = {
        (it["name"], threads[it["pid"], it["tid"]]): (it["ts"] / S, it["dur"] / S)
        for it in events
        if it["ph"] == "X" and "queue" in it["args"]
    }
    assert found == {
        ("billing-1", "orders broker-a/0"): (1, 4),
        ("billing-2", "orders broker-a/0, owner 2 at once"): (4, 8),
        ("billing-1", "orders broker-a/1"): (1, 11),
    }


def test_a_send_begins_as_long_before_its_fact_as_it_took() -> None:
    sends = [(it["ph"], it["ts"] / S) for it in a_trace() if it["ph"] in "be"]
    assert sends == [("b", 5.5), ("e", 7), ("b", 5.1), ("e", 8)]


def test_faults_actions_backlog_rebalances_and_violations_are_there() -> None:
    events = a_trace()
    faults = [it for it in events if it["ph"] == "X" and "fault" in it["args"]]
    assert [(it["name"], it["ts"] / S, it["dur"] / S) for it in faults] == [
        ("stall around=billing-1", 2, 10),
        ("pause node=broker-a", 3, 9),
    ]
    counts = [(it["ts"] / S, it["args"]["messages"]) for it in events if it["ph"] == "C"]
    assert counts == [(6, 1), (9, 0)]
    instants = [(it["name"], it["s"]) for it in events if it["ph"] == "i"]
    assert instants == [
        ("half time", "g"),
        ("violation: owners", "g"),
        ("rebalance orders", "t"),
    ]


def test_a_rolling_restart_lasts_until_its_last_node_is_back() -> None:
    def a_boot(at_s: float, name: str) -> tuple[float, str, NodeStarted]:
        return at_s, name, NodeStarted("broker", "10.0.0.1:10911", "4.9.7")

    def boots(*entries: Any) -> list[Entry]:
        """The entries, each NodeStarted with the number of a new process's first fact."""
        return [
            msgspec.structs.replace(entry, seq=1) if isinstance(entry.fact, NodeStarted) else entry
            for entry in a_journal(*entries)
        ]

    journal = boots(
        a_boot(0, "broker-a"),
        a_boot(0, "broker-b"),
        (2, "world", ActionBegan("rolling_restart", "brokers, down_ms 3000, between_ms 1000")),
        (2, "broker-a", NodeStopped("broker", "stopped")),
        a_boot(5, "broker-a"),
        (6, "broker-b", NodeStopped("broker", "stopped")),
        a_boot(9, "broker-b"),
        (12, "world", ActionBegan("mark", "end")),
    )
    judgement = Judgement(violations=(), metrics={}, fact_count=len(journal))
    data = read_report_data(journal, lambda: judgement)
    events = msgspec.json.decode(b"".join(write_trace(data)))["traceEvents"]
    found = [
        (it["name"].partition(",")[0], it["ts"] / S, it["dur"] / S)
        for it in events
        if it["ph"] == "X" and "restart" in it["name"]
    ]
    assert found == [
        ("rolling_restart brokers", 2, 7),
        ("restart broker-a", 2, 3),
        ("restart broker-b", 6, 3),
    ]
    assert [it["name"] for it in events if it["ph"] == "i"] == ["end"]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=20))
def test_spans_of_one_row_never_overlap(drawn: list[tuple[int, int]]) -> None:
    spans = sorted((start, start + lasts) for start, lasts in drawn)
    ends: dict[int, int] = {}
    for (start, end), row in zip(spans, rows_without_overlap(spans), strict=True):
        assert ends.get(row, 0) <= start
        ends[row] = end
