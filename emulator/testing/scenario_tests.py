"""Scenarios as tests: a seed that does not pass fails the test, which keeps its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import Plan, of_release
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.result import RunResult
from rocketmq_emulator.scenarios.sweeps.sweep import Sweep
from rocketmq_emulator.testing.clusters import JOURNAL, FailureFacts, fail_with, folder_of

SEED = 1


class ScenarioRuns:
    """Runs scenarios for one test: the value of the fixture ``run_scenario``."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(
        self,
        scenario: str | Plan,
        *,
        seed: int = SEED,
        seeds: int = 1,
        release: str = "",
        jobs: int = 1,
        **parameters: object,
    ) -> list[RunResult]:
        """One row for each seed; fails the test if a seed does not pass.

        *scenario* is a name of the library, FILE.toml, FILE.py:NAME, or a plan.  Raises
        ``UsageError`` if there is no such scenario.
        """
        plan = self._loaded(scenario, parameters, release)
        folder = folder_of(self._item)
        sweep = Sweep(plan, range(seed, seed + seeds), folder, jobs=jobs, paths=(str(Path.cwd()),))
        rows = sorted(sweep.rows(), key=lambda row: row.seed)
        for row in rows:
            if row.verdict != "passed":
                self._fail(row, scenario if isinstance(scenario, str) else row.scenario)
        return rows

    def _loaded(self, scenario: str | Plan, parameters: dict[str, Any], release: str) -> Plan:
        if not isinstance(scenario, str):
            return of_release(scenario, release)
        try:
            return load(scenario, parameters, release)
        except BadScenario as bad:
            raise pytest.UsageError(str(bad)) from None

    def _fail(self, row: RunResult, name: str) -> None:
        again = f"rmqemu run {name} --seed {row.seed}"
        self._item.user_properties += [
            ("rocketmq_seed", str(row.seed)),
            ("rocketmq_replay", again),
        ]
        if row.journal:
            entries = list(read_journals([Path(row.journal)]))
            self._item.stash[JOURNAL] = FailureFacts(entries)
        text = f"{row.scenario}: {row.verdict} with seed {row.seed}: {row.reason}"
        fail_with(self._item, f"{text}\nrun it again: {again}", text)
