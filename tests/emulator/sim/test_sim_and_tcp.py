"""The code that runs on TCP also runs in virtual time, where one seed gives one run.

One NameServer, two brokers, three consumers and a producer run for ten virtual minutes; a broker
is dead for one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import msgspec
import pytest

from tests.support.paths import ROOT, SUPPORT

EPOCH_MS = 1_700_000_000_000
KILLED_MS, RESTARTED_MS, SENDS_END_MS = 190_000, 250_000, 540_000
CONSUMERS = {"consumer-a", "consumer-b", "consumer-c"}


def start_run(seed: int, hash_seed: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(SUPPORT / "sim" / "whole_run.py"), str(seed)],
        env=env,
        stdout=subprocess.PIPE,
    )


def journal_of(process: subprocess.Popen[bytes]) -> bytes:
    journal, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return journal


@pytest.fixture(scope="module")
def journals() -> tuple[bytes, bytes, bytes]:
    """The journals of seed 7 in two interpreters that hash differently, and of seed 8."""
    processes = [start_run(7, 1), start_run(7, 2), start_run(8, 1)]
    first, again, other = map(journal_of, processes)
    return first, again, other


@pytest.fixture(scope="module")
def lines(journals) -> list[dict]:
    return [msgspec.json.decode(line) for line in journals[0].splitlines()]


def facts(lines, kind: str, nodes=None) -> list[dict]:
    return [
        {**line["fact"], "node": line["node"], "at_ms": line["at_ms"] - EPOCH_MS}
        for line in lines
        if line["fact"]["kind"] == kind and (nodes is None or line["node"] in nodes)
    ]


def queues_of(fact: dict) -> set[tuple[str, str, int]]:
    return {(q["topic"], q["broker"], q["queue_id"]) for q in fact["queues"]}


def test_one_seed_writes_one_journal_in_two_interpreters_that_hash_differently(journals) -> None:
    first, again, _ = journals
    assert len(first) > 1_000_000
    assert first == again


def test_another_seed_writes_another_journal(journals) -> None:
    first, _, other = journals
    assert len(other) > 1_000_000
    assert first != other


def test_nothing_acknowledged_is_lost_when_a_broker_dies_and_keeps_its_disk(lines) -> None:
    sent = {fact["uniq_key"] for fact in facts(lines, "MessageSent")}
    consumed = {fact["uniq_key"] for fact in facts(lines, "MessageConsumed") if fact["ok"]}
    assert len(sent) > 1_000
    assert sent <= consumed


def test_while_one_broker_is_dead_the_producer_uses_the_other(lines) -> None:
    brokers = Counter(
        fact["queue"]["broker"]
        for fact in facts(lines, "MessageSent")
        if KILLED_MS < fact["at_ms"] < RESTARTED_MS
    )
    assert set(brokers) == {"broker-a"}
    assert brokers["broker-a"] > 50


def test_client_invariant_58_no_send_tries_a_dead_broker_once_30_seconds_have_passed(
    lines,
) -> None:
    attempts = [
        (fact["at_ms"] - KILLED_MS > 30_000, fact["attempts"])
        for fact in facts(lines, "MessageSent", {"producer"})
        if KILLED_MS < fact["at_ms"] < RESTARTED_MS
    ]
    assert {count for is_late, count in attempts if is_late} == {1}
    assert max(count for is_late, count in attempts if not is_late) > 1
    assert facts(lines, "SendFailed") == []


def test_the_broker_comes_back_with_its_messages_and_takes_its_share_again(lines) -> None:
    recovered = facts(lines, "LogRecovered", {"broker-b"})
    before = [f for f in facts(lines, "MessageStored", {"broker-b"}) if f["at_ms"] <= KILLED_MS]
    after = [f for f in facts(lines, "MessageStored", {"broker-b"}) if f["at_ms"] > KILLED_MS]
    assert [fact["message_count"] for fact in recovered] == [len(before)]
    assert after
    assert min(fact["at_ms"] for fact in after) > RESTARTED_MS


def test_the_three_consumers_share_all_queues_and_each_is_owned_once_at_the_end(lines) -> None:
    owned: dict[str, set] = {name: set() for name in CONSUMERS}
    for line in lines:
        if line["fact"]["kind"] == "QueuesClaimed":
            owned[line["node"]] |= queues_of(line["fact"])
        elif line["fact"]["kind"] == "QueuesReleased":
            owned[line["node"]] -= queues_of(line["fact"])
    orders = sorted(q for queues in owned.values() for q in queues if q[0] == "orders")
    assert orders == [("orders", f"broker-{x}", number) for x in "ab" for number in range(4)]
    assert all(owned.values())


def test_ten_minutes_pass_in_full(lines) -> None:
    assert 595_000 < max(line["at_ms"] for line in lines) - EPOCH_MS <= 600_000
    assert max(f["at_ms"] for f in facts(lines, "MessageSent")) > SENDS_END_MS - 1_000
