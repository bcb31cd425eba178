"""Two runs beside each other: journals made by hand, whose differences are known."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from rocketmq_emulator.cli.app import application
from rocketmq_emulator.facts import Fact, NodeStarted, Queue, QueuesClaimed, RunEnded
from rocketmq_emulator.facts.journal import Entry, encode_entry
from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan, Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import started
from tests.support.scenarios.journals_for_reports import a_journal

PLAN = Plan(
    name="shares",
    consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}),),
    expect=(Expectation(metric="duplicates", bound=9),),
)
QUEUES = tuple(Queue("orders", "broker-a", number) for number in range(3))
S = 1_000_000


def a_run(plan: Plan, seed: int, *claims: tuple[float, str, int]) -> list[Entry]:
    """A run with *claims*: seconds, node, and the number of the queue."""
    facts: list[tuple[float, str, Fact]] = [
        (0, "world", started(plan, seed, "virtual", "1")),
        (0, "broker-a", NodeStarted("broker", "10.0.0.1:10911", "4.9.7")),
    ]
    facts += [(at, node, QueuesClaimed("billing", (QUEUES[n],), (0,))) for at, node, n in claims]
    return a_journal(*facts, (90, "world", RunEnded("finished", "")))


def diff(tmp_path: Path, one: list[Entry], other: list[Entry]) -> tuple[int, list[str]]:
    files = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    for file, entries in zip(files, (one, other), strict=True):
        file.write_bytes(b"".join(map(encode_entry, entries)))
    found = CliRunner().invoke(application("diff"), ["diff", *map(str, files)])
    return found.exit_code, found.stdout.replace(f"{tmp_path}/", "").splitlines()


def test_two_seeds_of_one_plan_are_compared_by_events_and_owners_not_by_times(tmp_path) -> None:
    one = a_run(PLAN, 1, (1, "billing-1", 0), (2, "billing-1", 1), (3, "billing-2", 2))
    other = a_run(PLAN, 2, (1.5, "billing-1", 0), (2.5, "billing-2", 1), (3.5, "billing-2", 2))
    code, lines = diff(tmp_path, one, other)
    assert code == 1
    assert lines[0].startswith("one:   shares, seed 1, ")
    assert lines[1].startswith("other: shares, seed 2, ")
    assert lines[2] == "the same plan; the runs differ in seed"
    assert any(line.split()[0::3] == ["duplicates", "expected"] for line in lines)
    at = lines.index("the first event that differs, apart from its time, at billing-1:")
    assert lines[at + 1].startswith("  one:   2.000 s, QueuesClaimed: group billing")
    assert lines[at + 2] == "  other: no more events of billing-1"
    assert lines[at + 3 :] == [
        "1 of 3 queues had other owners, or in another order:",
        "  billing orders@broker-a:1: billing-1; other: billing-2",
    ]


@pytest.mark.parametrize("later_s", [0, 0.5])
def test_runs_that_differ_in_times_only_say_so(later_s: float, tmp_path) -> None:
    one = a_run(PLAN, 1, (1, "billing-1", 0))
    _, lines = diff(tmp_path, one, a_run(PLAN, 2, (1 + later_s, "billing-1", 0)))
    assert lines[-2:] == [
        "each node has the same starts, faults, claims, releases and failed sends",
        "all 1 queues had the same owners, in the same order",
    ]


def test_two_plans_are_compared_by_their_parts(tmp_path) -> None:
    group = msgspec.structs.replace(PLAN.consumers[0], members=2)
    changed = msgspec.structs.replace(PLAN, consumers=(group,))
    _, lines = diff(tmp_path, a_run(PLAN, 1), a_run(changed, 1))
    assert lines[2] == "other plans; the runs differ in plan.consumers"


def test_one_plan_and_seed_are_compared_fact_by_fact(tmp_path) -> None:
    one = a_run(PLAN, 1, (1, "billing-1", 0))
    _, lines = diff(tmp_path, one, a_run(PLAN, 1, (2, "billing-1", 0)))
    assert lines[0] == "the first 2 facts are the same; the last of them:"
    assert lines[-1] == "they differ in mono_us, at_ms"
