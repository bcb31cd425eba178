"""The brokers that are avoided, and for how long, compared with the real classes."""

from __future__ import annotations

import random

import pytest

from rocketmq_emulator.client.producer.fault_strategy import (
    FAULT_TABLE_4,
    FAULT_TABLE_5_1_4,
    FAULT_TABLES,
    AttemptEnding,
    FaultItem,
    LatencyFaultTolerance,
    MQFaultStrategy,
    fault_table,
    fault_update,
)
from rocketmq_emulator.client.producer.publish_info import ThreadLocalIndex
from rocketmq_emulator.facts import BrokerIsolated, Fact
from rocketmq_emulator.settings.releases import R_4_9_7, R_5_3_3, Release
from tests.support.golden_data import cases

LINES = {"4.9": R_4_9_7, "5.3": R_5_3_3}
EVERY_LINE = pytest.mark.parametrize("line", LINES)
NOW_MS = 1_700_000_000_000


def golden(kind):
    """One test for each release line, over all its cases of *kind*; a failure names the case."""

    def over_all_cases(check):
        @EVERY_LINE
        def test(line) -> None:
            found = list(cases("latency.jsonl", kind, line))
            assert found
            for case in found:
                try:
                    check(line, case)
                except AssertionError as error:
                    error.add_note(f"case {case['id']}")
                    raise

        return test

    return over_all_cases


def a_tolerance(line="4.9", items=(), start=0) -> LatencyFaultTolerance:
    faults = LatencyFaultTolerance(LINES[line], random.Random(7), ThreadLocalIndex(lambda: start))
    for item in items:
        faults.items[item["name"]] = FaultItem(
            item["name"], item["latency"], NOW_MS + item["available_from"], item["reachable"]
        )
    return faults


def a_strategy(line="4.9", *, enabled=True, note=lambda fact: None) -> MQFaultStrategy:
    return MQFaultStrategy(LINES[line], random.Random(7), enabled=enabled, note=note)


@golden("duration_table")
def test_the_table_is_upstreams(line, case) -> None:
    table, out = fault_table(LINES[line]), case["out"]
    assert list(table.latency_ms_min) == out["latencyMax"]
    assert list(table.not_available_ms) == out["notAvailableDuration"]
    steps = [[0, table.duration_ms(0)]]
    for latency_ms in range(case["in"]["from"], case["in"]["to"] + 1):
        if table.duration_ms(latency_ms) != steps[-1][1]:
            steps.append([latency_ms, table.duration_ms(latency_ms)])
    assert steps == out["steps"]


@EVERY_LINE
def test_each_latency_costs_what_it_costs_upstream(line) -> None:
    for case in cases("latency.jsonl", "duration", line):
        assert fault_table(LINES[line]).duration_ms(case["in"]["latency"]) == case["out"]


@golden("fault_items")
def test_fault_items_rank_as_upstream_ranks_them(line, case) -> None:
    items = case["in"]["items"]
    ranks = [item.rank(NOW_MS) for item in a_tolerance(line, items).items.values()]
    compared = [[(a > b) - (a < b) for b in ranks] for a in ranks]
    assert compared == case["out"]["compare"]
    assert sorted(range(len(ranks)), key=ranks.__getitem__) == case["out"]["sorted_stable"]


@golden("fault_items")
def test_availability_is_a_matter_of_time(line, case) -> None:
    faults = a_tolerance(line, case["in"]["items"])
    found = [faults.is_available(item["name"], NOW_MS) for item in case["in"]["items"]]
    assert found == case["out"]["is_available"]
    assert faults.is_available("unknown", NOW_MS) is case["out"]["is_available_unknown"]


@golden("fault_items")
def test_the_worst_case_pick_is_one_of_upstreams(line, case) -> None:
    faults = a_tolerance(line, case["in"]["items"])
    picked = {str(faults.pick_one_at_least(NOW_MS)).replace("None", "null") for _ in range(300)}
    if "pick_sequence" in case["out"] or line == "5.3":
        assert picked == set(case["out"]["pick_possible"])
    else:  # equal ranks, which upstream orders by its map
        ranks = {item.broker: item.rank(NOW_MS) for item in faults.items.values()}
        possible = {ranks[broker] for broker in case["out"]["pick_possible"]}
        assert {ranks[broker] for broker in picked} == possible


def test_the_worst_case_pick_rotates_over_the_better_half() -> None:
    found = [c for c in cases("latency.jsonl", "fault_items") if "pick_sequence" in c["out"]]
    assert len(found) > 100
    for case in found:
        faults = a_tolerance("4.9", case["in"]["items"], case["out"]["pick_start_index"])
        picks = [faults.pick_one_at_least(NOW_MS) for _ in range(8)]
        assert picks == case["out"]["pick_sequence"], case["id"]


@EVERY_LINE
def test_an_empty_table_picks_no_broker_and_avoids_none(line) -> None:
    (case,) = cases("latency.jsonl", "fault_items_empty", line)
    faults = a_tolerance(line)
    assert faults.pick_one_at_least(NOW_MS) is case["out"]["pick"]
    assert faults.is_available("b", NOW_MS) is case["out"]["available"]


@golden("fault_updates")
def test_updates_isolate_for_as_long_as_upstream(line, case) -> None:
    strategy = a_strategy(line)
    for op, out in zip(case["in"]["ops"], case["out"], strict=True):
        strategy.update(
            "b", op["latency"], NOW_MS, isolate=op["isolation"], reachable=op["reachable"]
        )
        item = strategy.faults.items["b"]
        assert item.latency_ms == out["latency"]
        assert max(0, item.available_from_ms - NOW_MS) == out["isolated_for"]
        if line == "5.3":
            assert item.is_reachable is out["reachable"]
            assert (item.available_from_ms == 0) is out["never_isolated"]


def test_client_invariant_17_without_latency_awareness_the_table_stays_empty() -> None:
    facts: list[Fact] = []
    strategy = a_strategy(enabled=False, note=facts.append)
    strategy.update("b", 60_000, NOW_MS, isolate=True)
    assert strategy.faults.items == {}
    assert facts == []


@pytest.mark.parametrize("latency_ms", [550, 999])
def test_client_invariant_18_a_slow_answer_costs_30_seconds_until_a_fast_one(latency_ms) -> None:
    strategy = a_strategy("4.9")
    strategy.update("b", latency_ms, NOW_MS, isolate=False)
    assert not strategy.faults.is_available("b", NOW_MS + 29_999)
    assert strategy.faults.is_available("b", NOW_MS + 30_000)
    strategy.update("b", 549, NOW_MS + 1, isolate=False)
    assert strategy.faults.is_available("b", NOW_MS + 1)


def test_client_invariant_18_an_error_costs_ten_minutes() -> None:
    facts: list[Fact] = []
    strategy = a_strategy("4.9", note=facts.append)
    strategy.update("b", 3, NOW_MS, isolate=True)
    assert not strategy.faults.is_available("b", NOW_MS + 599_999)
    assert strategy.faults.is_available("b", NOW_MS + 600_000)
    assert facts == [BrokerIsolated("b", 600_000, 600_000)]


@pytest.mark.parametrize(
    ("latency_ms", "isolate", "for_ms"),
    [(550, False, 2_000), (1_799, False, 2_000), (3, True, 10_000)],
)
def test_client_invariant_19_a_fast_answer_never_shortens_an_isolation(
    latency_ms, isolate, for_ms
) -> None:
    strategy = a_strategy("5.3")
    strategy.update("b", latency_ms, NOW_MS, isolate=isolate)
    strategy.update("b", 1, NOW_MS + 1, isolate=False)
    assert not strategy.faults.is_available("b", NOW_MS + for_ms - 1)
    assert strategy.faults.is_available("b", NOW_MS + for_ms)


def test_the_detector_makes_a_broker_reachable_but_not_available() -> None:
    faults = a_tolerance("5.3")
    faults.update("b", 10, 10_000, NOW_MS, reachable=False)
    assert faults.due_for_check(NOW_MS, 2_000) == ["b"]
    assert faults.due_for_check(NOW_MS + 1_999, 2_000) == []
    assert faults.due_for_check(NOW_MS + 2_000, 2_000) == ["b"]
    faults.mark_reachable("b")
    assert faults.is_reachable("b")
    assert not faults.is_available("b", NOW_MS + 2_000)


@pytest.mark.parametrize(
    ("release", "is_used"), [("5.1.3", True), ("5.1.4", False), ("5.2.0", True)]
)
def test_in_5_1_4_who_is_not_reachable_is_avoided_after_its_isolation(release, is_used) -> None:
    """rocketmq #7812, fixed by #7814."""
    faults = LatencyFaultTolerance(Release.parse(release), random.Random(7))
    faults.update("b", 9, 10_000, NOW_MS, reachable=False)
    assert not faults.is_available("b", NOW_MS + 9_999)
    assert faults.is_available("b", NOW_MS + 10_000) is is_used
    faults.mark_reachable("b")
    assert faults.is_available("b", NOW_MS + 10_000)


@pytest.mark.parametrize("release", ["4.7.0", "4.9.7", "5.0.0", "5.1.3"])
def test_long_isolations_lasted_until_5_1_3(release) -> None:
    assert fault_table(Release.parse(release)).duration_ms(15_000) == 600_000


def test_from_5_1_4_a_broker_without_a_master_is_not_isolated() -> None:
    before, since = Release.parse("5.1.3"), Release.parse("5.1.4")
    ending = AttemptEnding.NO_MASTER
    assert fault_update(ending, before, detector=False).isolate
    assert not fault_update(ending, since, detector=False).isolate
    assert (fault_table(before), fault_table(since)) == (FAULT_TABLE_4, FAULT_TABLE_5_1_4)
    assert fault_update(AttemptEnding.REMOTE_ERROR, since, detector=False).isolate
    assert fault_update(AttemptEnding.REMOTE_ERROR, since, detector=False).reachable
    assert not fault_update(AttemptEnding.REMOTE_ERROR, since, detector=True).reachable


@pytest.mark.parametrize(
    ("latency_ms", "in_4", "in_5", "in_prose"),
    [
        (550, 30_000, 2_000, 0),
        (551, 30_000, 2_000, 3_000),
        (1_000, 60_000, 2_000, 3_000),
        (1_001, 60_000, 2_000, 60_000),
        (30_000, 600_000, 30_000, 60_000),
    ],
)
def test_articles_about_latency_faults_describe_a_table_that_no_release_has(
    latency_ms, in_4, in_5, in_prose
) -> None:
    durations = {n: table.duration_ms(latency_ms) for n, table in FAULT_TABLES.items()}
    assert durations == {"4.x": in_4, "5.1.4": in_5, "articles": in_prose}
