"""The choice of a queue for a message, compared with the choices of the real classes."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rocketmq_emulator.client.producer.fault_strategy import MQFaultStrategy
from rocketmq_emulator.client.producer.publish_info import ThreadLocalIndex, TopicPublishInfo
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import R_4_9_7, R_5_3_3, Release
from tests.support.golden_data import cases

LINES = {"4.9": R_4_9_7, "5.3": R_5_3_3}
NOW_MS = 1_700_000_000_000


def an_info(queues, start=0) -> TopicPublishInfo:
    return TopicPublishInfo(
        [MessageQueue("t", broker, queue_id) for broker, queue_id in queues],
        index=ThreadLocalIndex(lambda: start),
        write_queues=Counter(broker for broker, _ in queues),
    )


def two_brokers_of_four(start=0) -> TopicPublishInfo:
    return an_info([(broker, n) for broker in ("A", "B") for n in range(4)], start)


def a_strategy(release=R_4_9_7, *, enabled=True, worst_start=0) -> MQFaultStrategy:
    index = ThreadLocalIndex(lambda: worst_start)
    return MQFaultStrategy(release, random.Random(7), enabled=enabled, worst_index=index)


def pairs(queues) -> list[list]:
    return [[queue.broker_name, queue.queue_id] for queue in queues]


def perform(op, strategy, info, brokers):
    if op["op"] == "select":
        return pairs([strategy.select(info, op["last"], NOW_MS)])[0]
    strategy.update(
        op["broker"], op["latency"], NOW_MS, isolate=op["isolation"], reachable=op["reachable"]
    )
    return {"available": [strategy.faults.is_available(broker, NOW_MS) for broker in brokers]}


@pytest.mark.parametrize("line", LINES)
def test_the_round_robin_is_upstreams_even_where_its_counter_overflows(line) -> None:
    for case in cases("latency.jsonl", "publish_info_select", line):
        info = an_info(case["in"]["queues"], case["in"]["index_start"])
        strategy = a_strategy(LINES[line], enabled=False)
        picked = [strategy.select(info, last, NOW_MS) for last in case["in"]["last"]]
        assert pairs(picked) == case["out"], case["id"]


@pytest.mark.parametrize("line", LINES)
def test_every_choice_is_the_one_upstream_made(line) -> None:
    for case in cases("latency.jsonl", "select", line):
        given, out = case["in"], case["out"]
        info = an_info(given["queues"], given["index_start"])
        strategy = a_strategy(
            LINES[line], enabled=given["enable"], worst_start=given["worst_index_start"]
        )
        brokers = list(dict.fromkeys(broker for broker, _ in given["queues"]))
        results = [perform(op, strategy, info, brokers) for op in given["ops"]]
        assert results == out["results"], case["id"]
        assert pairs(info.queues) == out["queues_after"], case["id"]


@pytest.mark.parametrize("release", [R_4_9_7, R_5_3_3])
def test_client_invariant_12_any_q_consecutive_sends_hit_each_queue_once(release) -> None:
    info, strategy = two_brokers_of_four(start=12345), a_strategy(release, enabled=False)
    picked = [strategy.select(info, None, NOW_MS) for _ in range(64)]
    for first in range(64 - 8):
        assert len(set(picked[first : first + 8])) == 8


@pytest.mark.parametrize("release", [R_4_9_7, R_5_3_3])
def test_client_invariant_14_only_the_last_broker_is_excluded(release) -> None:
    info = an_info([("A", 0), ("B", 0), ("C", 0)])
    strategy = a_strategy(release, enabled=False)
    brokers = {strategy.select(info, "B", NOW_MS).broker_name for _ in range(30)}
    assert brokers == {"A", "C"}


@pytest.mark.parametrize(
    ("release", "shares"),
    [
        ("4.9.7", {0: 5 / 8, 1: 1 / 8, 2: 1 / 8, 3: 1 / 8}),
        ("5.1.3", {0: 5 / 8, 1: 1 / 8, 2: 1 / 8, 3: 1 / 8}),
        ("5.3.3", {0: 1 / 4, 1: 1 / 4, 2: 1 / 4, 3: 1 / 4}),
    ],
)
def test_client_invariant_20_the_share_of_an_isolated_brokers_block(release, shares) -> None:
    info, strategy = two_brokers_of_four(), a_strategy(Release.parse(release))
    strategy.update("A", 1, NOW_MS, isolate=True)
    picked = Counter(strategy.select(info, None, NOW_MS) for _ in range(800))
    assert {queue.broker_name for queue in picked} == {"B"}
    assert {queue.queue_id: count / 800 for queue, count in picked.items()} == shares


@pytest.mark.parametrize("release", ["4.7.0", "4.9.7", "4.9.8", "5.1.3", "5.3.3"])
def test_client_invariant_21_if_all_are_isolated_sends_still_go_out(release) -> None:
    info, strategy = two_brokers_of_four(), a_strategy(Release.parse(release))
    for broker in ("A", "B"):
        strategy.update(broker, 1, NOW_MS, isolate=True, reachable=False)
    assert all(strategy.select(info, "A", NOW_MS) for _ in range(20))


@pytest.mark.parametrize(
    ("release", "is_kept"),
    [("4.9.7", False), ("4.9.8", True), ("5.0.0", False), ("5.1.3", False), ("5.1.4", True)],
)
def test_the_worst_case_pick_changes_the_shared_list_in_some_releases(release, is_kept) -> None:
    info, strategy = two_brokers_of_four(), a_strategy(Release.parse(release))
    before = list(info.queues)
    strategy.update("A", 3, NOW_MS, isolate=True)
    strategy.update("B", 9, NOW_MS, isolate=True)
    for _ in range(8):
        strategy.select(info, None, NOW_MS)
    assert (info.queues == before) is is_kept


def test_a_retry_up_to_4_7_sticks_to_the_broker_that_failed() -> None:
    info, strategy = two_brokers_of_four(), a_strategy(Release.parse("4.7.0"))
    assert {strategy.select(info, "A", NOW_MS).broker_name for _ in range(16)} == {"A"}
    assert {strategy.select(info, None, NOW_MS).broker_name for _ in range(16)} == {"A", "B"}


def test_from_5_1_1_a_latency_aware_retry_goes_elsewhere() -> None:
    info, strategy = two_brokers_of_four(), a_strategy(Release.parse("5.1.1"))
    assert {strategy.select(info, "A", NOW_MS).broker_name for _ in range(16)} == {"B"}


def test_a_forgotten_broker_gets_plain_round_robin() -> None:
    info, strategy = an_info([("A", 0), ("A", 1)]), a_strategy()
    strategy.update("A", 9, NOW_MS, isolate=True)
    strategy.update("gone", 1, NOW_MS, isolate=True)
    assert strategy.select(info, None, NOW_MS).broker_name == "A"
    assert "gone" not in strategy.faults.items


def test_workers_have_round_robins_of_their_own() -> None:
    starts = iter([0, 5])
    info = two_brokers_of_four()
    info.index = ThreadLocalIndex(lambda: next(starts))
    assert info.next_queue(worker=1) == info.queues[1]
    assert info.next_queue(worker=2) == info.queues[6]
    assert info.next_queue(worker=1) == info.queues[2]


def test_workers_share_the_better_half_each_in_a_round_of_its_own() -> None:
    strategy = a_strategy()
    for broker in "ABCD":
        strategy.update(broker, 1_000, NOW_MS, isolate=True)
    info = an_info([(broker, 0) for broker in "ABCD"])
    chosen = [strategy.select(info, None, NOW_MS, worker=w).broker_name for w in (0, 1, 0, 1)]
    assert chosen == ["B", "B", "A", "A"]


def test_a_broker_of_the_better_half_that_the_route_has_no_more_is_forgotten() -> None:
    strategy = a_strategy()
    strategy.update("gone", 5_000, NOW_MS - 600_000, isolate=False)  # it is available again
    for broker in "AB":
        strategy.update(broker, 1_000, NOW_MS, isolate=True)
    chosen = strategy.select(an_info([("A", 0), ("B", 0)]), None, NOW_MS)
    assert chosen.broker_name in "AB"
    assert set(strategy.faults.items) == {"A", "B"}


EVERY_WAY = ("4.7.1", "4.8.0", "5.1.1", "5.1.4")  # releases that choose in different ways


@pytest.mark.parametrize("release", EVERY_WAY)
@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("last", [None, "A"])
def test_every_choice_takes_its_steps_from_the_worker_s_own_round(release, enabled, last) -> None:
    strategy = a_strategy(Release.parse(release), enabled=enabled)
    info = two_brokers_of_four()
    strategy.select(info, last, NOW_MS, worker=3)
    for broker in ("A", "B"):
        strategy.update(broker, 1, NOW_MS, isolate=True, reachable=False)
    strategy.select(info, last, NOW_MS, worker=3, sync_retry=True)
    assert set(info.index._at) == {3}
    strategy.select(info, last, NOW_MS)
    assert set(info.index._at) == {0, 3}


@pytest.mark.parametrize(("release", "steps"), [("4.7.1", 1), ("4.8.0", 5)])
def test_since_4_8_each_queue_that_a_retry_passes_over_is_a_step(release, steps) -> None:
    info = two_brokers_of_four(start=7)  # the next queue is the first of broker A
    chosen = a_strategy(Release.parse(release), enabled=False).select(info, "A", NOW_MS)
    assert (chosen.broker_name, chosen.queue_id) == ("B", 0)
    assert info.index.step() - 8 == steps


@pytest.mark.parametrize(
    ("release", "steps"), [("4.7.1", 1), ("4.8.0", 1), ("5.1.3", 1), ("5.1.4", 5)]
)
def test_with_latency_faults_each_queue_passed_over_is_a_step_since_5_1_4(release, steps) -> None:
    info, strategy = two_brokers_of_four(start=7), a_strategy(Release.parse(release))
    strategy.update("A", 1, NOW_MS, isolate=True)
    chosen = strategy.select(info, None, NOW_MS)
    assert (chosen.broker_name, chosen.queue_id) == ("B", 0)
    assert info.index.step() - 8 == steps


@pytest.mark.parametrize(("release", "picked"), [("4.9.3", {"A", "B"}), ("4.9.4", {"A"})])
def test_up_to_4_9_3_the_worst_case_pick_breaks_ties_by_chance(release, picked) -> None:
    strategy = a_strategy(Release.parse(release))
    for broker in ("A", "B"):
        strategy.update(broker, 20_000, NOW_MS, isolate=False)
    assert {strategy.faults.pick_one_at_least(NOW_MS) for _ in range(32)} == picked


@pytest.mark.parametrize(("release", "broker"), [("5.1.3", "B"), ("5.1.4", "A")])
def test_since_5_1_4_the_next_that_can_be_reached_is_taken_when_all_are_avoided(
    release, broker
) -> None:
    strategy = a_strategy(Release.parse(release))
    strategy.update("A", 20_000, NOW_MS, isolate=False)
    strategy.update("B", 600, NOW_MS, isolate=False)
    assert strategy.select(two_brokers_of_four(), None, NOW_MS).broker_name == broker


@pytest.mark.parametrize("release", ["4.7.1", "4.8.0", "5.1.4"])
def test_a_retry_goes_to_the_last_broker_where_there_is_no_other(release) -> None:
    info = an_info([("A", 0), ("A", 1)])
    strategy = a_strategy(Release.parse(release), enabled=False)
    assert strategy.select(info, "A", NOW_MS).broker_name == "A"


@pytest.mark.parametrize(
    ("release", "brokers"), [("4.7.1", {"A"}), ("4.8.0", {"A", "B"}), ("5.1.0", {"A", "B"})]
)
def test_from_4_8_to_5_1_0_a_latency_aware_retry_may_stay_or_go(release, brokers) -> None:
    info, strategy = two_brokers_of_four(), a_strategy(Release.parse(release))
    assert {strategy.select(info, "A", NOW_MS).broker_name for _ in range(16)} == brokers


def test_a_broker_that_has_no_queue_to_write_any_more_is_not_the_pick() -> None:
    info, strategy = an_info([("A", 0)]), a_strategy()
    strategy.update("A", 9, NOW_MS, isolate=True)
    info.write_queues = {"A": 0}
    assert strategy.select(info, None, NOW_MS) == MessageQueue("t", "A", 0)
    assert strategy.faults.items == {}


@pytest.mark.parametrize(("sync_retry", "restarted"), [(False, False), (True, True)])
def test_from_5_1_4_a_synchronous_retry_begins_its_round_anywhere(sync_retry, restarted) -> None:
    starts = iter([0, 5])
    info = two_brokers_of_four()
    info.index = ThreadLocalIndex(lambda: next(starts))
    strategy = a_strategy(R_5_3_3)
    strategy.select(info, None, NOW_MS)
    strategy.select(info, None, NOW_MS, sync_retry=sync_retry)
    assert info.index.step() == (7 if restarted else 3)


def test_a_broker_is_reachable_unless_it_is_said_not_to_be() -> None:
    strategy = a_strategy(R_5_3_3)
    strategy.update("A", 9, NOW_MS, isolate=True)
    strategy.faults.update("B", 9, 10, NOW_MS)
    assert strategy.faults.is_reachable("A")
    assert strategy.faults.is_reachable("B")
    assert strategy.faults.due_for_check(NOW_MS, 2_000) == ["A", "B"]
    assert strategy.faults.due_for_check(NOW_MS + 1_999, 2_000) == []
    assert strategy.faults.due_for_check(NOW_MS + 2_000, 2_000) == ["A", "B"]
    strategy.faults.forget("never")
