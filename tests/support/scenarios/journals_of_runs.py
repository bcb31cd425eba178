"""Journals of short runs, made by hand: some that passed, some that did not."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from rocketmq_emulator.facts import RunEnded, RunStarted
from rocketmq_emulator.facts.journal import encode_entry
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from tests.support.checks.small_journals import AJournal

NONE_LOST = Expectation(metric="lost", operator="==", bound=0, scope="")


def a_run(
    folder: Path,
    seed: int,
    *,
    lost: int = 0,
    error: str = "",
    scenario: str = "orders",
    release: str = "4.9.7",
    **parameters: object,
) -> Path:
    """The journal of a run: *lost* of its five messages were acknowledged and never stored."""
    plan = msgspec.json.encode(Plan(name=scenario, expect=(NONE_LOST,))).decode()
    told = json.dumps(parameters)
    journal = AJournal().note(
        "world", RunStarted(scenario, plan, told, seed, "virtual", release, "0.0.0")
    )
    journal.store().consumer("billing-1").pulled(0, 0)
    for offset in range(5 - lost):
        journal.sent(offset)
    for offset in range(5 - lost, 5):
        journal.acknowledged(offset)
    journal.at_s(60).note("world", RunEnded("error" if error else "finished", error))
    path = folder / f"{scenario}-seed{seed}.jsonl"
    path.write_bytes(b"".join(map(encode_entry, journal.entries)))
    return path
