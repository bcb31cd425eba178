"""Made-up rows of runs, for tests of the pages and tables that are built from rows."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.scenarios.plan.result import RunResult


def a_row(seed: int, **fields: Any) -> RunResult:
    """A row of weather that passed, unless *fields* differ."""
    known: dict[str, Any] = {
        "scenario": "weather",
        "code_version": "1",
        "world": "virtual",
        "release": "4.9.7",
        "parameters": {},
        "verdict": "passed",
        "reason": "",
        "metrics": {},
        "violations": (),
        "unmet": (),
        "run_s": 1.0,
        "took_s": 1.0,
        "fact_count": 1,
        **fields,
    }
    return RunResult(seed=seed, **known)
